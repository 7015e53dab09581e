from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ledger_making import LATER, NOW, WORKSPACE, connection_of, found, selection, write
from sqlalchemy import event

from memplugin.errors import RecordNotFound, StoreError
from memplugin.records import WorkspaceState
from memplugin.storage.sql.ledger import SqlLedger


def test_an_evicted_record_is_not_found_until_it_is_revived(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    evicted = ledger.records.set_status(WORKSPACE, record.id, "evicted", LATER)
    assert (evicted.status, evicted.retired_at, evicted.content) == ("evicted", LATER, "net of tax")
    assert found(ledger, "tax") == []
    assert ledger.search.count(selection()) == 0
    revived = ledger.records.set_status(WORKSPACE, record.id, "active", LATER)
    assert (revived.status, revived.retired_at, revived.seq) == ("active", None, 3)
    assert found(ledger, "tax") == [record.id]


def test_setting_the_status_that_is_set_changes_nothing(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    assert ledger.records.set_status(WORKSPACE, record.id, "active", LATER) == record
    assert ledger.search.state(WORKSPACE).seq == 1


def test_a_superseded_record_can_be_revived(ledger: SqlLedger) -> None:
    old = write(ledger, "the vendor is primex", claim={"vendor": "primex"})
    write(ledger, "the vendor is wasp", claim={"vendor": "wasp"})
    revived = ledger.records.set_status(WORKSPACE, old.id, "active", LATER)
    assert (revived.status, revived.replaced_by, revived.retired_at) == ("active", None, None)
    assert old.id in found(ledger, "vendor")


def test_what_was_forgotten_can_not_be_revived(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    ledger.erasure.forget(WORKSPACE, record.id, "asked", NOW)
    with pytest.raises(StoreError, match="was forgotten"):
        ledger.records.set_status(WORKSPACE, record.id, "active", LATER)


def test_only_retiring_and_reviving_are_offered(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    with pytest.raises(StoreError, match="use 'active' or 'evicted'"):
        ledger.records.set_status(WORKSPACE, record.id, "superseded", LATER)
    with pytest.raises(RecordNotFound):
        ledger.records.set_status("ws_other", record.id, "evicted", LATER)


def test_the_outbox_holds_what_the_index_must_take_or_drop(ledger: SqlLedger) -> None:
    new = write(ledger, "new")
    held = write(ledger, "held", workspace="ws_a")
    gone = write(ledger, "gone")
    never = write(ledger, "never indexed")
    evicted = write(ledger, "evicted")
    ledger.records.mark_indexed("ws_a", [held.id], NOW)
    ledger.records.mark_indexed(WORKSPACE, [gone.id], NOW)
    ledger.erasure.forget(WORKSPACE, gone.id, "asked", NOW)
    ledger.erasure.forget(WORKSPACE, never.id, "asked", NOW)
    ledger.records.set_status(WORKSPACE, evicted.id, "evicted", NOW)
    assert [r.id for r in ledger.records.outbox(9)] == [new.id, gone.id]
    assert [r.id for r in ledger.records.outbox(1)] == [new.id]
    assert ledger.search.state(WORKSPACE) == WorkspaceState(seq=8, active=1, pending=1)
    assert ledger.maintenance.statistics()["outbox"] == ledger.records.backlog() == 2
    ledger.records.mark_unindexed(WORKSPACE, [gone.id])
    ledger.records.mark_indexed(WORKSPACE, [new.id], LATER)
    assert ledger.records.outbox(9) == []


def test_marking_records_as_indexed_says_when_and_whether_it_is_whole(ledger: SqlLedger) -> None:
    whole, short = write(ledger, "whole"), write(ledger, "very long")
    ledger.records.mark_indexed(WORKSPACE, [whole.id, short.id], LATER, cut_short=[short.id])
    held = ledger.records.get_many(WORKSPACE, [whole.id, short.id])
    assert [(r.indexed_at, r.vector_covers_all) for r in held.values()] == [
        (LATER, True),
        (LATER, False),
    ]
    ledger.records.mark_indexed(WORKSPACE, [short.id], LATER)
    assert ledger.records.get_many(WORKSPACE, [short.id])[short.id].vector_covers_all is True


def test_marks_of_another_workspace_change_nothing(ledger: SqlLedger) -> None:
    record = write(ledger, "ours")
    ledger.records.mark_indexed("ws_other", [record.id], NOW)
    assert ledger.records.get_many(WORKSPACE, [record.id])[record.id].indexed_at is None
    ledger.records.mark_indexed(WORKSPACE, [record.id], NOW)
    ledger.records.mark_unindexed("ws_other", [record.id])
    assert ledger.records.get_many(WORKSPACE, [record.id])[record.id].indexed_at == NOW


def test_a_record_forgotten_while_it_was_embedded_is_dropped_from_the_index(
    ledger: SqlLedger,
) -> None:
    record = write(ledger, "net of tax")
    ledger.erasure.forget(WORKSPACE, record.id, "asked", NOW)
    assert ledger.records.outbox(9) == []
    ledger.records.mark_indexed(WORKSPACE, [record.id], LATER)
    assert [(r.id, r.status) for r in ledger.records.outbox(9)] == [(record.id, "forgotten")]


def test_unindexing_all_puts_every_active_record_back(ledger: SqlLedger) -> None:
    ours = [write(ledger, f"note {n}") for n in range(3)]
    theirs = write(ledger, "note", workspace="ws_other")
    ledger.records.mark_indexed(WORKSPACE, [r.id for r in ours], NOW)
    ledger.records.mark_indexed("ws_other", [theirs.id], NOW)
    ledger.records.set_status(WORKSPACE, ours[0].id, "evicted", NOW)
    seq = ledger.search.state(WORKSPACE).seq
    assert ledger.records.unindex_all() == 3
    assert {r.id for r in ledger.records.outbox(9)} == {ours[1].id, ours[2].id, theirs.id}
    assert {e.record_id for e in ledger.search.changes(WORKSPACE, seq)} == {r.id for r in ours}
    revived = ledger.records.set_status(WORKSPACE, ours[0].id, "active", NOW)
    assert revived.indexed_at is None


def plan_of(ledger: SqlLedger, act: Callable[[], object]) -> list[str]:
    """How SQLite goes about the last statement of something."""
    engine = ledger._database.engine
    asked: list[tuple[str, Any]] = []

    def note(_c: Any, _u: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    act()
    event.remove(engine, "before_cursor_execute", note)
    statement, parameters = asked[-1]
    with connection_of(ledger) as connection:
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    return [row.detail for row in rows]


def test_the_outbox_is_read_through_its_index(tmp_path: Path) -> None:
    ledger = SqlLedger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert plan_of(ledger, lambda: ledger.records.outbox(5)) == [
        "SCAN memory_records USING INDEX ix_memory_records_outbox"
    ]
    assert plan_of(ledger, ledger.records.backlog) == [
        "SCAN memory_records USING COVERING INDEX ix_memory_records_outbox"
    ]
    state = plan_of(ledger, lambda: ledger.search.state(WORKSPACE))
    assert [step for step in state if "memory_records" in step] == [
        "SEARCH memory_records USING COVERING INDEX "
        "ix_memory_records_workspace_id_status_kind_scope (workspace_id=? AND status=?)",
        "SEARCH memory_records USING COVERING INDEX "
        "ix_memory_records_outbox (workspace_id=? AND status=? AND indexed_at=?)",
    ]
    ledger.close()


def test_a_fact_about_the_store_keeps_its_first_value_until_it_is_replaced(
    ledger: SqlLedger,
) -> None:
    assert ledger.facts.setdefault("model", "minilm") == "minilm"
    assert ledger.facts.setdefault("model", "other") == "minilm"
    ledger.facts.replace("model", "other")
    ledger.facts.replace("fresh", "1")
    assert ledger.facts.setdefault("model", "minilm") == "other"
    assert ledger.facts.setdefault("fresh", "2") == "1"
