"""Evidence in the ledger: kept once, and confidence follows it in the same transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from ledger_making import (
    LATER,
    NOW,
    SPAN,
    WORKSPACE,
    accept,
    batch,
    connection_of,
    context,
    gate,
    proposal,
    write,
)
from sqlalchemy import text
from test_ledger_concurrency import at_once

from memplugin.errors import RecordNotFound, StoreError
from memplugin.records import (
    INSTEAD_OF,
    Belief,
    Evidence,
    Known,
    MemoryRecord,
    Observed,
    Proposal,
    Ruling,
)
from memplugin.storage.sql.ledger import SqlLedger


def counted(belief: Belief, evidence: Sequence[Evidence]) -> float:
    """A weigh whose result is easy to read: a tenth for each piece in favour."""
    if belief.pinned_at is not None:
        return belief.pinned_at
    return sum(piece.supports for piece in evidence) / 10


def seen(record: MemoryRecord, number: int = 1, **fields: Any) -> Evidence:
    values: dict[str, Any] = {
        "id": f"e_{number}",
        "record_id": record.id,
        "supports": True,
        "weight": 0.4,
        "salience": 0.5,
        "scope": {"trade": "plumbing", "problem": "toilet"},
        "at": LATER,
        "session_id": "s_1",
        "task_id": "t_0417",
        "note": "as it was seen",
    }
    return Evidence(**{**values, **fields})


def observe(
    ledger: SqlLedger, piece: Evidence, *narrower: Proposal, rule: Any = accept, **fields: Any
) -> Observed:
    return ledger.writes.observe(piece, batch(*narrower, **{"now": LATER, **fields}), rule, counted)


def narrower(record: MemoryRecord, content: str = "toilets go to Abraham", **fields: Any) -> Any:
    values: dict[str, Any] = {
        "operation": "observe",
        "kind": record.kind,
        "scope": {"trade": "plumbing", "problem": "toilet"},
        "claim": {"vendor_id": "abraham"},
        "confidence": 0.5,
        "source": f"{INSTEAD_OF}{record.id}",
        "around": record.content,
    }
    return proposal(content, **{**values, **fields})


def now(ledger: SqlLedger, record_id: str | None) -> MemoryRecord:
    assert record_id
    return ledger.records.get_many(WORKSPACE, [record_id])[record_id]


def test_evidence_is_kept_as_it_was_and_moves_the_record(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing", scope={"trade": "plumbing"})
    piece = seen(record)
    moved = observe(ledger, piece).record
    assert ledger.evidence.of_record(WORKSPACE, record.id) == [piece]
    assert moved == replace(record, confidence=0.1, evidence_count=1, seq=2)
    assert now(ledger, record.id) == moved


def test_evidence_is_read_in_the_order_in_which_it_came(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    pieces = [seen(record, n, at=at) for n, at in ((1, LATER), (2, NOW), (3, LATER))]
    for piece in pieces:
        observe(ledger, piece)
    assert ledger.evidence.of_record(WORKSPACE, record.id) == pieces
    assert ledger.evidence.of_record("ws_other", record.id) == []


def test_the_whole_set_is_weighed_with_the_seed_the_record_was_written_with(
    ledger: SqlLedger,
) -> None:
    shown: list[tuple[Belief, list[Evidence]]] = []

    def watch(belief: Belief, evidence: Sequence[Evidence]) -> float:
        shown.append((belief, list(evidence)))
        return 0.3

    [receipt] = ledger.writes.settle(
        batch(proposal("Yonic", scope={"trade": "plumbing"}), seed_strength=7.0), gate, watch
    ).receipts
    record = now(ledger, receipt.record_id)
    first, second = seen(record, 1), seen(record, 2, supports=False)
    for piece in (first, second):
        ledger.writes.observe(piece, batch(), accept, watch)
    seed = Belief(0.8, 7.0, {"trade": "plumbing"})
    assert shown == [(seed, [first]), (seed, [first, second])]
    assert now(ledger, record.id).confidence == 0.3


def test_the_same_observation_twice_is_counted_once(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    first = observe(ledger, seen(record), narrower(record))
    rows = ledger.maintenance.statistics()["rows"]
    again = observe(ledger, seen(record, weight=9.0), narrower(record, "toilets: Abraham"))
    assert again == Observed(first.record, ())
    assert ledger.maintenance.statistics()["rows"] == rows


def test_threads_that_observe_the_same_count_once_and_others_all(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    at_once([ledger] * 8, lambda one, _: observe(one, seen(record)))
    at_once([ledger] * 8, lambda one, n: observe(one, seen(record, 10 + n)))
    assert (now(ledger, record.id).evidence_count, now(ledger, record.id).confidence) == (9, 0.9)


def test_a_narrower_belief_is_made_with_the_observation_as_its_evidence(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing", scope={"trade": "plumbing"})
    against = seen(record, supports=False)
    result = observe(ledger, against, narrower(record), span=SPAN)
    [receipt] = result.receipts
    made = now(ledger, receipt.record_id)
    assert (receipt.ruling, made.claim, made.scope) == (
        "accepted",
        {"vendor_id": "abraham"},
        {"problem": "toilet", "trade": "plumbing"},
    )
    assert (made.confidence, made.evidence_count, result.record.confidence) == (0.1, 1, 0.0)
    [piece] = ledger.evidence.of_record(WORKSPACE, made.id)
    assert (piece.supports, piece.weight, piece.salience, piece.note) == (
        True,
        0.4,
        0.5,
        "as it was seen",
    )
    assert piece.proposal_id == receipt.proposal_id


def test_an_attached_observation_strengthens_the_belief_that_is_there(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    [first] = observe(ledger, seen(record, 1, supports=False), narrower(record)).receipts

    def attach(proposed: Proposal, known: Known) -> Ruling:
        return Ruling(proposed, "attached", "same", record_id=known.same_slot[0].id)

    [second] = observe(
        ledger, seen(record, 2, supports=False), narrower(record, "again"), rule=attach
    ).receipts
    assert (second.ruling, second.record_id) == ("attached", first.record_id)
    strengthened = now(ledger, first.record_id)
    assert (strengthened.evidence_count, strengthened.confidence) == (2, 0.2)


def outweigh(proposed: Proposal, known: Known) -> Ruling:
    return Ruling(proposed, "rejected", "outweighed", against_id=known.same_slot[0].id)


def test_a_rejected_proposal_can_be_evidence_against_a_record(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    [made] = observe(ledger, seen(record, 1, supports=False), narrower(record)).receipts
    bob = narrower(record, "toilets go to Bob", claim={"vendor_id": "bob"})
    observe(ledger, seen(record, 2, supports=False), bob, rule=outweigh)
    pieces = ledger.evidence.of_record(WORKSPACE, made.record_id or "")
    assert [piece.supports for piece in pieces] == [True, False]
    assert [piece.proposal_id for piece in pieces] == [made.proposal_id, bob.id]
    assert now(ledger, made.record_id).status == "active"


def test_what_was_observed_of_a_record_is_not_counted_against_it_twice(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing", claim={"vendor_id": "yonic"})
    instead = narrower(record, scope={}, claim={"vendor_id": "bob"})
    observe(ledger, seen(record, supports=False), instead, rule=outweigh)
    assert now(ledger, record.id).evidence_count == 1


def test_the_gate_sees_the_record_as_the_observation_has_left_it(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing", claim={"vendor_id": "yonic"})
    held: list[float] = []

    def watch(proposed: Proposal, known: Known) -> Ruling:
        held.extend(r.confidence for r in known.same_slot)
        return accept(proposed, known)

    observe(ledger, seen(record), narrower(record, scope={}), rule=watch)
    assert held == [0.1]


def test_the_gate_is_shown_the_exception_that_was_made_the_last_time(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    shown: list[list[str]] = []

    def watch(proposed: Proposal, known: Known) -> Ruling:
        shown.append([near.id for near, cosine in known.near if cosine == 1.0])
        return accept(proposed, known)

    exceptions = [narrower(record, f"not here {n}", claim=None) for n in range(2)]
    elsewhere = narrower(record, "not there", claim=None, scope={"trade": "plumbing"})
    for number, exception in enumerate([*exceptions, elsewhere]):
        observe(ledger, seen(record, number, supports=False), exception, rule=watch)
    assert shown == [[], [exceptions[0].record_id], []]


def test_an_attached_write_moves_confidence_with_the_ordinary_weight(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    [receipt] = ledger.writes.settle(
        batch(proposal("NET of tax", turn_id="u_2")), gate, counted
    ).receipts
    assert receipt.ruling == "attached"
    assert now(ledger, record.id).confidence == 0.1
    [piece] = ledger.evidence.of_record(WORKSPACE, record.id)
    assert (piece.supports, piece.weight, piece.salience, piece.scope) == (True, 1.0, 0.5, {})


def test_what_contradicts_a_pin_is_kept_as_evidence_and_moves_nothing(ledger: SqlLedger) -> None:
    pinned = write(ledger, "the vendor is primex", claim={"vendor": "primex"}, pinned=True)
    against = proposal("the vendor is dever", claim={"vendor": "dever"})
    ledger.writes.settle(batch(against), outweigh, counted)
    assert now(ledger, pinned.id).confidence == 0.8
    assert [p.supports for p in ledger.evidence.of_record(WORKSPACE, pinned.id)] == [False]


@pytest.mark.parametrize("narrow", [True, False])
def test_when_the_gate_breaks_nothing_of_the_observation_stays(
    ledger: SqlLedger, narrow: bool
) -> None:
    record = write(ledger, "Yonic handles plumbing")

    def broken(*_: Any) -> Any:
        raise RuntimeError("broken")

    rule, weigh = (broken, counted) if narrow else (accept, broken)
    proposals = [narrower(record)] if narrow else []
    with pytest.raises(RuntimeError):
        ledger.writes.observe(seen(record), batch(*proposals), rule, weigh)
    assert ledger.evidence.of_record(WORKSPACE, record.id) == []
    assert now(ledger, record.id) == record


# ---------------------------------------------------------------- pins


def test_a_pin_freezes_confidence_and_letting_go_weighs_everything(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    observe(ledger, seen(record, 1))
    pinned = ledger.evidence.set_pinned(WORKSPACE, record.id, pinned=True, weigh=counted)
    assert (pinned.pinned, pinned.confidence) == (True, 0.1)
    for number in (2, 3):
        moved = observe(ledger, seen(record, number)).record
    assert (moved.confidence, moved.evidence_count) == (0.1, 3)
    free = ledger.evidence.set_pinned(WORKSPACE, record.id, pinned=False, weigh=counted)
    assert (free.pinned, free.confidence) == (False, 0.3)


def test_pinning_twice_changes_nothing_more(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    first = ledger.evidence.set_pinned(WORKSPACE, record.id, pinned=True, weigh=counted)
    assert ledger.evidence.set_pinned(WORKSPACE, record.id, pinned=True, weigh=counted) == first


@pytest.mark.parametrize("end", ["evicted", "superseded", "forgotten"])
def test_a_record_that_is_gone_takes_no_evidence_and_no_pin(ledger: SqlLedger, end: str) -> None:
    record = write(ledger, "the vendor is primex", claim={"vendor": "primex"})
    observe(ledger, seen(record, 1))
    if end == "evicted":
        ledger.records.set_status(WORKSPACE, record.id, "evicted", NOW)
    elif end == "forgotten":
        ledger.erasure.forget(WORKSPACE, record.id, "asked", NOW)
    else:
        write(ledger, "the vendor is dever", claim={"vendor": "dever"})
    rows = ledger.maintenance.statistics()["rows"]
    with pytest.raises(StoreError, match=f"is {end}, and nothing about it moves: use"):
        observe(ledger, seen(record, 2))
    with pytest.raises(StoreError, match=f"is {end}"):
        ledger.evidence.set_pinned(WORKSPACE, record.id, pinned=True)
    assert ledger.maintenance.statistics()["rows"] == rows
    assert observe(ledger, seen(record, 1)).receipts == ()  # counted before: no error


def test_another_workspaces_record_can_not_be_observed_or_pinned(ledger: SqlLedger) -> None:
    record = write(ledger, "theirs", workspace="ws_other")
    with pytest.raises(RecordNotFound):
        observe(ledger, seen(record))
    with pytest.raises(RecordNotFound):
        ledger.evidence.set_pinned(WORKSPACE, record.id, pinned=True)
    assert ledger.evidence.of_record("ws_other", record.id) == []


# ---------------------------------------------------------------- forgetting


def test_forgetting_erases_notes_and_the_exceptions_that_quote_the_record(
    ledger: SqlLedger,
) -> None:
    record = write(ledger, "Yonic handles plumbing")
    quoting = narrower(record, f"Not for toilets: {record.content}", claim=None)
    own_words = narrower(record, "toilets go to Abraham", id="p_own")
    [one] = observe(ledger, seen(record, 1, supports=False), quoting).receipts
    [two] = observe(ledger, seen(record, 2, supports=False), own_words).receipts
    deeper = narrower(
        record,
        f"Not at the Grand: {quoting.content}",
        id="p_deeper",
        claim=None,
        source=f"{INSTEAD_OF}{one.record_id}",
    )
    [three] = observe(ledger, seen(now(ledger, one.record_id), 3, supports=False), deeper).receipts
    ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    assert [now(ledger, r.record_id).status for r in (one, two, three)] == [
        "forgotten",
        "active",
        "forgotten",
    ]
    assert [p.note for p in ledger.evidence.of_record(WORKSPACE, record.id)] == [None, None]
    with connection_of(ledger) as connection:
        for table in ("memory_records", "proposals", "evidence"):
            for row in connection.execute(text(f"SELECT * FROM {table}")):
                assert "Yonic" not in str(tuple(row))


def test_evidence_carries_where_it_came_from(ledger: SqlLedger) -> None:
    record = write(ledger, "Yonic handles plumbing")
    ledger.writes.observe(seen(record), batch(context=context(), span=SPAN), accept)
    with connection_of(ledger) as connection:
        row = connection.execute(
            text("SELECT workspace_id, task_id, session_id, trace_id, span_id FROM evidence")
        ).one()
    assert tuple(row) == (WORKSPACE, "t_0417", "s_1", SPAN.trace_id, SPAN.span_id)
