"""What a recall relies on when it reads: freshness, one moment, and no long ways."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from ledger_making import (
    EVERYWHERE,
    LATER,
    NOW,
    WORKSPACE,
    accept,
    batch,
    full_text,
    proposal,
    search_of,
    write,
)
from sqlalchemy.dialects import sqlite

from memplugin.records import Entry, Selection
from memplugin.storage.sql import records
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.arrays import BYTES_A_ROW
from memplugin.storage.vector.directory import Directories, Directory

ALL = Selection(WORKSPACE, EVERYWHERE)


@pytest.fixture
def two(shared_url: str) -> Iterator[tuple[SqlLedger, SqlLedger]]:
    """Two processes' worth of ledgers on one store."""
    mine, other = SqlLedger.open(shared_url), SqlLedger.open(shared_url)
    yield mine, other
    mine.close()
    other.close()


def found(ledger: SqlLedger, query: str) -> set[str]:
    return {record_id for record_id, _ in full_text(ledger, ALL, query, 10)}


def test_full_text_finds_what_another_process_has_just_written(
    two: tuple[SqlLedger, SqlLedger],
) -> None:
    mine, other = two
    tea = write(other, "prefers green tea")
    assert found(mine, "tea") == {tea.id}
    coffee = write(other, "drinks tea and coffee")
    assert found(mine, "tea") == {tea.id, coffee.id}


def test_full_text_loses_what_another_process_has_retired_and_finds_it_when_revived(
    two: tuple[SqlLedger, SqlLedger],
) -> None:
    mine, other = two
    first, second = write(other, "prefers green tea"), write(other, "drinks tea and coffee")
    assert found(mine, "tea") == {first.id, second.id}
    other.records.set_status(WORKSPACE, first.id, "evicted", LATER)
    assert found(mine, "tea") == {second.id}
    other.records.set_status(WORKSPACE, first.id, "active", LATER)
    assert found(mine, "tea") == {first.id, second.id}


def test_a_snapshot_shows_one_moment_throughout(two: tuple[SqlLedger, SqlLedger]) -> None:
    mine, other = two
    write(other, "prefers green tea")
    with mine.snapshot():
        assert mine.search.count(ALL) == 1
        write(other, "drinks tea and coffee")
        assert mine.search.count(ALL) == 1
        assert len(found(mine, "tea")) == 1
    assert mine.search.count(ALL) == 2


def test_a_snapshot_inside_another_ends_with_the_outer_one(ledger: SqlLedger) -> None:
    with ledger.snapshot():
        with ledger.snapshot():
            assert ledger.search.count(ALL) == 0
        assert ledger.search.count(ALL) == 0
    write(ledger, "prefers green tea")
    assert ledger.search.count(ALL) == 1


def test_pending_are_the_active_records_that_have_no_vector_yet(ledger: SqlLedger) -> None:
    first = write(ledger, "prefers green tea")
    write(ledger, "drinks coffee")
    retired = write(ledger, "drinks water")
    ledger.records.mark_indexed(WORKSPACE, [first.id], NOW)
    ledger.records.set_status(WORKSPACE, retired.id, "evicted", LATER)
    assert ledger.search.pending(WORKSPACE) == 1
    assert ledger.search.pending("ws_none") == 0


def test_records_are_looked_up_by_their_ids_and_not_by_going_through_the_workspace() -> None:
    ledger = SqlLedger.open("sqlite://")
    asked = records._BY_ID.params(workspace=WORKSPACE, ids=["m_1", "m_2"])
    sql = asked.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    with ledger._database.reading() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}").all()
    ledger.close()
    assert [row.detail for row in plan] == [
        "SEARCH memory_records USING INDEX sqlite_autoindex_memory_records_1 (id=?)"
    ]


def test_the_workspaces_searched_longest_ago_are_let_go(ledger: SqlLedger) -> None:
    directories = Directories(ledger, limit=3 * BYTES_A_ROW)
    for workspace in ("a", "b"):
        write(ledger, "prefers green tea", workspace)
        write(ledger, "drinks coffee", workspace)
    held: dict[str, Directory] = {}
    for workspace in ("a", "b"):
        with directories.borrow(workspace) as held[workspace]:
            pass
    with directories.borrow("b") as directory:
        assert directory is held["b"]
    with directories.borrow("a") as directory:
        assert directory is not held["a"]


def test_a_snapshot_reads_what_has_changed_once_for_words_and_vectors(
    ledger: SqlLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    tea = write(ledger, "prefers green tea")
    search, asked = search_of(ledger), list[int]()
    changes = ledger.search.changes

    def counted(workspace_id: str, since: int) -> list[Entry]:
        asked.append(since)
        return changes(workspace_id, since)

    monkeypatch.setattr(ledger.search, "changes", counted)
    for _ in range(2):
        with ledger.snapshot():
            assert found(ledger, "tea") == {tea.id}
            assert search.search(ALL, np.eye(4, dtype=np.float32)[0], depth=5).total == 1
            assert found(ledger, "coffee") == set()
    assert asked == [0, 1]


def test_a_recall_and_a_write_in_memory_do_not_wait_for_each_other_for_ever() -> None:
    ledger = SqlLedger.open("sqlite://")
    write(ledger, "prefers green tea")
    search, vector = search_of(ledger), np.eye(4, dtype=np.float32)[:1]
    began, go_on = Event(), Event()

    def recall() -> int:
        with ledger.snapshot():
            began.set()
            go_on.wait(10)
            return search.search(ALL, vector[0], depth=5).total

    with ThreadPoolExecutor(2) as pool:
        recalled = pool.submit(recall)
        assert began.wait(10)
        compared = pool.submit(search.similar, WORKSPACE, vector, 5, 0.5)
        time.sleep(0.1)  # as long as it takes to come to where it waits
        go_on.set()
        assert recalled.result(10) == 1
        assert compared.result(10) == [[]]
    ledger.close()


def test_a_score_is_bm25_with_each_word_counted_once(ledger: SqlLedger) -> None:
    # 2 of 3 records hold "tea", 1 holds "mint"; 20 and 13 characters.
    proposals = [proposal("green tea, tea, mint"), proposal("black tea now"), proposal("coffee")]
    ledger.writes.settle(batch(*proposals), accept)
    tea, mint = math.log1p((3 - 2 + 0.5) / 2.5), math.log1p((3 - 1 + 0.5) / 1.5)
    long, short = 1.72 / (1.72 + 20 * 0.004), 1.72 / (1.72 + 13 * 0.004)
    scores = [score for _, score in full_text(ledger, ALL, "tea mint", 10)]
    assert scores == pytest.approx([long, tea / (tea + mint) * short])
