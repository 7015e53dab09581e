"""What a recall relies on when it reads: freshness, one moment, and no long ways."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from ledger_making import EVERYWHERE, LATER, NOW, WORKSPACE, accept, batch, proposal, write
from sqlalchemy.dialects import sqlite

from memplugin.records import Selection
from memplugin.storage.sql import bm25, records
from memplugin.storage.sql.ledger import SqlLedger

ALL = Selection(WORKSPACE, EVERYWHERE)


@pytest.fixture
def two(shared_url: str) -> Iterator[tuple[SqlLedger, SqlLedger]]:
    """Two processes' worth of ledgers on one store."""
    mine, other = SqlLedger.open(shared_url), SqlLedger.open(shared_url)
    yield mine, other
    mine.close()
    other.close()


def found(ledger: SqlLedger, query: str) -> set[str]:
    return {record_id for record_id, _ in ledger.search.full_text(ALL, query, 10)}


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


def test_the_workspaces_searched_longest_ago_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25, "MOST_HELD", 3)
    cache = bm25.EntryCache()
    held = {name: cache.of(name) for name in ("a", "b")}
    for entries in held.values():
        entries._columns = [np.zeros(2, column.dtype) for column in entries._columns]
    assert cache.of("b") is held["b"]
    assert cache.of("a") is not held["a"]


def test_a_score_is_bm25_with_each_word_counted_once(ledger: SqlLedger) -> None:
    # 2 of 3 records hold "tea", 1 holds "mint"; 20 and 13 characters.
    proposals = [proposal("green tea, tea, mint"), proposal("black tea now"), proposal("coffee")]
    ledger.writes.settle(batch(*proposals), accept)
    tea, mint = math.log1p((3 - 2 + 0.5) / 2.5), math.log1p((3 - 1 + 0.5) / 1.5)
    long, short = 1.72 / (1.72 + 20 * 0.004), 1.72 / (1.72 + 13 * 0.004)
    scores = [score for _, score in ledger.search.full_text(ALL, "tea mint", 10)]
    assert scores == pytest.approx([long, tea / (tea + mint) * short])
