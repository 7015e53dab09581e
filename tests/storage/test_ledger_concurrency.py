from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from ledger_making import (
    NOW,
    WORKSPACE,
    batch,
    context,
    gate,
    proposal,
    selection,
    settle,
    turn,
    write,
)

from memplugin.records import SpanRef
from memplugin.storage.sql.ledger import SqlLedger

WRITERS = 8


def at_once(ledgers: list[SqlLedger], act: Callable[[SqlLedger, int], Any]) -> list[Any]:
    """Runs something in as many threads as there are ledgers, started together."""
    start = Barrier(len(ledgers))

    def run(number: int) -> Any:
        start.wait(30)
        return act(ledgers[number], number)

    with ThreadPoolExecutor(len(ledgers)) as pool:
        return list(pool.map(run, range(len(ledgers))))


def test_threads_that_settle_the_same_get_one_row_and_the_same_receipts(
    ledger: SqlLedger,
) -> None:
    said = turn("net of tax")
    read = batch(
        *(proposal(f"note {n}", turn_id=said.id) for n in range(20)), turns=[said], extractor="x@1"
    )
    receipts = at_once([ledger] * WRITERS, lambda one, _: one.writes.settle(read, gate).receipts)
    assert receipts == [receipts[0]] * WRITERS
    rows = ledger.maintenance.statistics()["rows"]
    assert (rows["memory_records"], rows["proposals"], rows["turns"]) == (20, 20, 1)


def test_connections_that_settle_the_same_get_one_row(shared_url: str) -> None:
    ledgers = [SqlLedger.open(shared_url) for _ in range(WRITERS)]
    same = [proposal(f"note {n}") for n in range(20)]
    receipts = at_once(ledgers, lambda one, _: settle(one, *same))
    assert receipts == [receipts[0]] * WRITERS
    assert ledgers[0].maintenance.statistics()["rows"]["memory_records"] == 20
    for ledger in ledgers:
        ledger.close()


def test_writers_of_one_workspace_take_turns_and_lose_nothing(ledger: SqlLedger) -> None:
    def say(one: SqlLedger, number: int) -> list[str]:
        return [
            settle(one, proposal("the same", turn_id=f"u_{number}_{n}"))[0].ruling for n in range(5)
        ]

    rulings = [r for some in at_once([ledger] * WRITERS, say) for r in some]
    assert sorted(rulings) == ["accepted"] + ["attached"] * (WRITERS * 5 - 1)
    [record] = ledger.history.find_records(WORKSPACE, ["same"], 9)
    assert record.evidence_count == WRITERS * 5 - 1
    assert ledger.search.state(WORKSPACE).seq == WRITERS * 5


def test_superseding_at_once_leaves_one_active_record(shared_url: str) -> None:
    ledgers = [SqlLedger.open(shared_url) for _ in range(WRITERS)]
    at_once(ledgers, lambda one, n: write(one, f"vendor {n}", claim={"vendor": n}))
    held = ledgers[0].history.find_claims(WORKSPACE, ["vendor"], 99)
    assert len(held) == WRITERS
    assert [r.status for r in held].count("active") == 1
    assert len({r.replaced_by for r in held if r.status == "superseded"}) == WRITERS - 1
    for ledger in ledgers:
        ledger.close()


def test_readers_see_whole_transactions_while_others_write(ledger: SqlLedger) -> None:
    """A batch of ten is there or not: no count in between is ever seen."""

    def act(one: SqlLedger, number: int) -> list[int]:
        if number % 2:
            for n in range(5):
                settle(one, *(proposal(f"{number} {n} {i}") for i in range(10)))
            return []
        return [one.search.count(selection()) for _ in range(20)]

    seen = [n for some in at_once([ledger] * 6, act) for n in some]
    assert all(n % 10 == 0 for n in seen)
    assert ledger.search.state(WORKSPACE).active == 150


def test_threads_that_enter_a_session_at_once_begin_it_once(ledger: SqlLedger) -> None:
    before = SpanRef("1" * 32, "1" * 16)
    ledger.sessions.enter(context(session="s_0"), before, NOW)
    this = SpanRef("2" * 32, "2" * 16)
    links = at_once([ledger] * 4, lambda one, _: one.sessions.enter(context(), this, NOW))
    assert sorted(links, key=str) == [None, None, None, before]


def test_marking_and_unindexing_everything_at_once_do_not_wait_for_ever(shared_url: str) -> None:
    ledgers = [SqlLedger.open(shared_url) for _ in range(6)]
    ids = {f"ws_{n}": write(ledgers[0], "note", f"ws_{n}").id for n in range(6)}

    def act(one: SqlLedger, number: int) -> None:
        for _ in range(5):
            if number % 3 == 0:
                one.records.unindex_all()
            else:
                one.records.mark_indexed(f"ws_{number}", [ids[f"ws_{number}"]], NOW)

    at_once(ledgers, act)
    assert all(ledgers[0].search.state(workspace).active == 1 for workspace in ids)
    for ledger in ledgers:
        ledger.close()


PROCESS = """
    import sys
    sys.path.insert(0, sys.argv[2])
    from ledger_making import proposal, settle
    from memplugin.storage.sql.ledger import SqlLedger

    ledger = SqlLedger.open(sys.argv[1])
    print([settle(ledger, proposal(f"note {n}"))[0].to_json() for n in range(50)])
"""


def test_processes_that_settle_the_same_get_one_row_and_the_same_receipts(
    shared_url: str,
) -> None:
    """Each process opens the store by itself, so making its tables is raced as well."""
    here = str(Path(__file__).parent)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROCESS), shared_url, here],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    said = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert said[0][0] == said[1][0]
    ledger = SqlLedger.open(shared_url)
    assert ledger.search.state(WORKSPACE).active == 50
    ledger.close()
