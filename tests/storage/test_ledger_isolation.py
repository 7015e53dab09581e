from __future__ import annotations

from itertools import count

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_making import (
    NOW,
    accept,
    batch,
    candidate,
    context,
    decision,
    full_text,
    proposal,
    retrieval,
    selection,
    turn,
)

from memplugin.records import Outcome
from memplugin.storage.sql.ledger import SqlLedger

NAMES = ("acme", "acme-corp", "john_doe", "john-doe", "%", "_", "a'b", "ACME", "acme ", "äcme")
workspaces = st.sampled_from(NAMES)
_unique = count()


def fill(ledger: SqlLedger, workspace: str) -> str:
    """Leaves a row of each kind in a workspace; returns the record's id."""
    number = next(_unique)
    said = turn(f"net of tax {number}")
    given = proposal(
        f"revenue net of tax {number}", workspace, claim={"basis": number}, turn_id=said.id
    )
    ledger.writes.settle(batch(given, workspace=workspace, turns=[said], extractor="x@1"), accept)
    record = ledger.records.get_many(workspace, [given.record_id])[given.record_id]
    ledger.sessions.enter(context(workspace), None, NOW)
    kept = retrieval(candidate(record), id=f"r_{number}", workspace_id=workspace)
    ledger.retrievals.save(kept, "memory_on", 1)
    ledger.decisions.save(decision(id=f"d_{number}", workspace_id=workspace), "memory_on", 1)
    outcome = Outcome(
        f"o_{number}", workspace, "t_0417", "s_1", number, True, 1.0, 1.0, None, None, "on", NOW
    )
    ledger.outcomes.save(outcome, None)
    return record.id


def seen_from(ledger: SqlLedger, workspace: str, ids: list[str]) -> dict[str, set[str]]:
    """The record ids that each look-up of a workspace leads to."""
    everything = 10_000
    rows = ledger.history.task_rows(workspace, "t_0417")
    turns = {t.id for t in ledger.history.find_turns(workspace, ["tax"], everything)}
    return {
        "records": set(ledger.records.get_many(workspace, ids)),
        "directory": {e.record_id for e in ledger.search.changes(workspace, 0)},
        "lexical": {i for i, _ in full_text(ledger, selection(workspace), "tax", everything)},
        "standing": set(ledger.search.standing(selection(workspace), everything)),
        "find_records": {r.id for r in ledger.history.find_records(workspace, ["tax"], everything)},
        "find_claims": {r.id for r in ledger.history.find_claims(workspace, ["basis"], everything)},
        "find_proposals": {
            str(p.record_id) for p in ledger.history.find_proposals(workspace, ["tax"], everything)
        },
        "proposals_of": {str(p.record_id) for p in ledger.history.proposals_of(workspace, ids)},
        "turns": {
            str(p.record_id) for t in turns for p in ledger.history.proposals_of_turn(workspace, t)
        },
        "task": {str(p.record_id) for p in rows.proposals},
        "retrievals": {c.record_id for r in rows.retrievals for c in r.candidates},
        "receipts": {
            str(r.record_id) for r in ledger.turns.receipts(workspace, "s_1", sorted(turns), "x@1")
        },
    }


@settings(
    max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(written=st.lists(workspaces, min_size=2, max_size=6))
def test_a_workspace_sees_its_own_rows_and_no_others(ledger: SqlLedger, written: list[str]) -> None:
    before = {name: {e.record_id for e in ledger.search.changes(name, 0)} for name in NAMES}
    held = {name: set(ids) for name, ids in before.items()}
    for workspace in written:
        held[workspace].add(fill(ledger, workspace))
    ids = [id_ for some in held.values() for id_ in some]
    for name in NAMES:
        for way, seen in seen_from(ledger, name, ids).items():
            assert seen == held[name], (name, way)
        assert (
            ledger.search.count(selection(name))
            == ledger.search.state(name).active
            == len(held[name])
        )
        assert ledger.history.tasks(name) == (["t_0417"] if held[name] else [])


def test_what_is_done_in_one_workspace_changes_no_other(ledger: SqlLedger) -> None:
    ids = {name: fill(ledger, name) for name in NAMES}
    states = {name: ledger.search.state(name) for name in NAMES}
    ledger.records.mark_indexed("acme", list(ids.values()), NOW)
    ledger.erasure.forget("acme", ids["acme"], "asked", NOW)
    ledger.maintenance.prune(NOW.replace(year=2030), "acme")
    for name in NAMES[1:]:
        assert ledger.search.state(name) == states[name], name
        rows = ledger.history.task_rows(name, "t_0417")
        assert [len(r) for r in (rows.turns, rows.retrievals, rows.decisions)] == [1, 1, 1], name
        assert "tax" in ledger.records.get_many(name, [ids[name]])[ids[name]].content
