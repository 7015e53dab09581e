from __future__ import annotations

from dataclasses import replace

import pytest
from ledger_making import (
    LATER,
    NOW,
    SPAN,
    WORKSPACE,
    batch,
    connection_of,
    context,
    found,
    gate,
    proposal,
    refuse,
    settle,
    turn,
    write,
)
from sqlalchemy import text

from memplugin.errors import StoreError
from memplugin.records import Known, MemoryRecord, Proposal, Ruling, WriteReceipt
from memplugin.storage.sql.ledger import SqlLedger


def test_an_accepted_proposal_becomes_a_record_with_everything_it_said(ledger: SqlLedger) -> None:
    proposed = proposal(
        "revenue reported net of tax",
        kind="preference",
        scope={"trade": "pest", "property": "12 Elm St"},
        claim={"basis": "net"},
        confidence=0.81,
        pinned=True,
        source="board pack",
        around="what was said before",
        turn_id="u_1",
    )
    [receipt] = settle(ledger, proposed, span=SPAN)
    assert receipt == WriteReceipt(proposed.id, proposed.record_id, "accepted")
    assert ledger.records.get_many(WORKSPACE, [proposed.record_id]) == {
        proposed.record_id: MemoryRecord(
            id=proposed.record_id,
            workspace_id=WORKSPACE,
            kind="preference",
            content="revenue reported net of tax",
            scope={"trade": "pest", "property": "12 Elm St"},
            claim={"basis": "net"},
            status="active",
            confidence=0.81,
            pinned=True,
            evidence_count=0,
            occurred_at=NOW,
            created_at=NOW,
            source_session="s_1",
            task_id="t_0417",
            seq=1,
            source="board pack",
            source_turn="u_1",
            around="what was said before",
            traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        )
    }


def test_a_record_keeps_the_confidence_it_was_written_with_as_a_seed_of_strength_four(
    ledger: SqlLedger,
) -> None:
    write(ledger, "the office closes at six", confidence=0.75)
    with connection_of(ledger) as connection:
        row = connection.execute(
            text("SELECT seed_confidence, seed_strength FROM memory_records")
        ).one()
    assert tuple(row) == (0.75, 4.0)


def test_settling_the_same_twice_gives_the_same_receipts_and_no_second_row(
    ledger: SqlLedger,
) -> None:
    proposed = [proposal("net of tax"), proposal("Net  of tax", turn_id="u_2"), proposal("gross")]
    first = settle(ledger, *proposed)
    assert [r.ruling for r in first] == ["accepted", "attached", "accepted"]
    before = ledger.maintenance.statistics()["rows"]
    assert settle(ledger, *proposed) == first
    assert ledger.maintenance.statistics()["rows"] == before
    assert ledger.search.state(WORKSPACE).seq == 1


def test_a_proposal_twice_in_one_batch_is_one_proposal(ledger: SqlLedger) -> None:
    proposed = proposal("net of tax")
    first, second = settle(ledger, proposed, proposed)
    assert first == second
    assert ledger.maintenance.statistics()["rows"]["proposals"] == 1


def test_a_receipt_says_whether_the_record_is_indexed_by_now(ledger: SqlLedger) -> None:
    proposed = proposal("net of tax")
    assert settle(ledger, proposed)[0].indexed is False
    ledger.records.mark_indexed(WORKSPACE, [proposed.record_id], LATER)
    assert settle(ledger, proposed)[0].indexed is True


def test_a_repetition_in_other_words_is_evidence_for_the_record(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    [receipt] = settle(ledger, proposal("NET of tax", turn_id="u_2"), span=SPAN)
    assert (receipt.ruling, receipt.record_id) == ("attached", record.id)
    attached = ledger.records.get_many(WORKSPACE, [record.id])[record.id]
    assert (attached.evidence_count, attached.seq) == (1, 2)
    with connection_of(ledger) as connection:
        row = connection.execute(
            text("SELECT record_id, supports, weight, salience, trace_id, span_id FROM evidence")
        ).one()
    assert tuple(row) == (record.id, True, 1.0, 0.5, SPAN.trace_id, SPAN.span_id)


def test_superseding_closes_the_old_and_adds_the_new_in_one_step(ledger: SqlLedger) -> None:
    old = write(ledger, "the vendor is primex", claim={"vendor": "primex"})
    new = write(ledger, "the vendor is wasp", claim={"vendor": "wasp"})
    old = ledger.records.get_many(WORKSPACE, [old.id])[old.id]
    assert (old.status, old.replaced_by, old.retired_at) == ("superseded", new.id, NOW)
    assert (old.content, old.seq, new.seq) == ("the vendor is primex", 2, 2)
    assert found(ledger, "vendor") == [new.id]
    [made] = ledger.history.proposals_of(WORKSPACE, [new.id])
    assert (made.ruling, made.replaced_id) == ("superseded", old.id)


def test_a_claim_with_another_scope_is_another_slot(ledger: SqlLedger) -> None:
    broad = write(ledger, "the vendor is primex", claim={"vendor": "primex"})
    write(ledger, "for pests it is wasp", claim={"vendor": "wasp"}, scope={"trade": "pest"})
    assert ledger.records.get_many(WORKSPACE, [broad.id])[broad.id].status == "active"


def test_later_proposals_of_a_batch_see_what_earlier_ones_did(ledger: SqlLedger) -> None:
    receipts = settle(
        ledger,
        proposal("a is one", claim={"a": 1}),
        proposal("a is two", claim={"a": 2}),
        proposal("A is two", claim={"a": 2}, turn_id="u_9"),
        proposal("a is three", claim={"a": 3}),
    )
    assert [r.ruling for r in receipts] == ["accepted", "superseded", "attached", "superseded"]
    assert [r.replaced_id for r in receipts] == [
        None,
        receipts[0].record_id,
        None,
        receipts[1].record_id,
    ]
    held = ledger.records.get_many(WORKSPACE, [r.record_id for r in receipts if r.record_id])
    assert {r.content: (r.status, r.evidence_count) for r in held.values()} == {
        "a is one": ("superseded", 0),
        "a is two": ("superseded", 1),
        "a is three": ("active", 0),
    }
    assert found(ledger, "three two one") == [receipts[3].record_id]


def test_the_rule_sees_near_records_that_are_active_best_first(ledger: SqlLedger) -> None:
    near, other = write(ledger, "reports are net of tax"), write(ledger, "likes charts")
    gone = write(ledger, "old news")
    ledger.records.set_status(WORKSPACE, gone.id, "evicted", NOW)
    foreign = write(ledger, "net of tax", workspace="ws_other")
    seen: list[Known] = []

    def watch(proposed: Proposal, known: Known) -> Ruling:
        seen.append(known)
        return gate(proposed, known)

    new = proposal("figures net of tax")
    hits = [(near.id, 0.97), (gone.id, 0.9), (foreign.id, 0.9), (other.id, 0.2), ("m_none", 0.1)]
    ledger.writes.settle(batch(new, near={new.id: hits}), watch)
    assert [(r.id, c) for r, c in seen[0].near] == [(near.id, 0.97), (other.id, 0.2)]
    assert seen[0].session_id == "s_1"


def test_near_may_name_a_record_that_the_same_batch_makes(ledger: SqlLedger) -> None:
    first, second = proposal("net of tax"), proposal("taxes are left out")

    def attach_near(proposed: Proposal, known: Known) -> Ruling:
        if known.near:
            return Ruling(proposed, "attached", "near", record_id=known.near[0][0].id)
        return gate(proposed, known)

    receipts = ledger.writes.settle(
        batch(first, second, near={second.id: [(first.record_id, 0.96)]}), attach_near
    ).receipts
    assert receipts[1].record_id == first.record_id


def test_an_amended_proposal_is_stored_as_amended_under_its_own_id(ledger: SqlLedger) -> None:
    proposed = proposal("net of tax", scope={})

    def amend(original: Proposal, known: Known) -> Ruling:
        amended = replace(original, scope={"user": "ana"})
        return Ruling(amended, "accepted", record_id=original.record_id)

    [receipt] = ledger.writes.settle(batch(proposed), amend).receipts
    assert receipt.proposal_id == proposed.id
    assert ledger.records.get_many(WORKSPACE, [proposed.record_id])[proposed.record_id].scope == {
        "user": "ana"
    }


def test_a_rejected_proposal_keeps_its_reason_and_makes_no_record(ledger: SqlLedger) -> None:
    [receipt] = ledger.writes.settle(batch(proposal("maybe net")), refuse).receipts
    assert (receipt.ruling, receipt.record_id) == ("rejected", None)
    [stored] = ledger.history.find_proposals(WORKSPACE, ["maybe"], 5)
    assert (stored.ruling, stored.reason) == ("rejected", "confidence: 0.2 is below 0.5")
    assert ledger.search.state(WORKSPACE).seq == 0


def test_a_rule_that_fails_leaves_nothing_behind(ledger: SqlLedger) -> None:
    def broken(proposed: Proposal, known: Known) -> Ruling:
        if proposed.content == "second":
            raise RuntimeError("screen is down")
        return gate(proposed, known)

    with pytest.raises(RuntimeError, match="screen is down"):
        ledger.writes.settle(
            batch(proposal("first"), proposal("second"), turns=[turn("hi")]), broken
        )
    rows = ledger.maintenance.statistics()["rows"]
    assert (rows["proposals"], rows["memory_records"], rows["turns"]) == (0, 0, 0)


def test_a_ruling_on_a_record_it_was_not_shown_is_refused(ledger: SqlLedger) -> None:
    foreign = write(ledger, "theirs", workspace="ws_other")

    def attach(proposed: Proposal, known: Known) -> Ruling:
        return Ruling(proposed, "attached", record_id=foreign.id)

    with pytest.raises(StoreError, match="not among the records"):
        ledger.writes.settle(batch(proposal("ours")), attach)


def test_turns_that_were_read_make_the_batch_a_repetition(ledger: SqlLedger) -> None:
    said = turn("can you do these net of tax going forward?")
    read = batch(
        proposal("net of tax", turn_id=said.id), turns=[said], extractor="x@1", context=context()
    )
    first = ledger.writes.settle(read, gate).receipts
    other_reading = replace(read, proposals=[proposal("taxes excluded", turn_id=said.id)])
    assert ledger.writes.settle(other_reading, gate).receipts == first
    assert ledger.turns.already_read(WORKSPACE, "s_1", [said.id, "u_x"], "x@1") == {said.id}
    assert ledger.turns.receipts(WORKSPACE, "s_1", [said.id], "x@1") == first
    assert ledger.turns.already_read(WORKSPACE, "s_1", [said.id], "x@2") == frozenset()
    assert ledger.turns.already_read(WORKSPACE, "s_2", [said.id], "x@1") == frozenset()


def test_a_new_extractor_reads_again_and_is_then_asked_about_what_it_confirmed(
    ledger: SqlLedger,
) -> None:
    said = turn("net of tax, please")
    read = batch(proposal("net of tax", turn_id=said.id), turns=[said], extractor="x@1")
    first = ledger.writes.settle(read, gate).receipts
    newer = replace(read, extractor="x@2")
    assert ledger.writes.settle(newer, gate).receipts == first
    assert ledger.turns.receipts(WORKSPACE, "s_1", [said.id], "x@2") == first


def test_a_failed_extraction_is_kept_once_and_its_turns_stay_unread(ledger: SqlLedger) -> None:
    said = [turn("net of tax, please"), turn("thanks")]
    failed = batch(turns=said, extractor="x@1", failure="timeout")
    [receipt] = ledger.writes.settle(failed, gate).receipts
    assert (receipt.ruling, receipt.reason, receipt.record_id) == ("failed", "timeout", None)
    [again] = ledger.writes.settle(replace(failed, failure="refused"), gate).receipts
    assert again.proposal_id == receipt.proposal_id
    [stored] = ledger.history.proposals_of_turn(WORKSPACE, said[1].id)
    assert (stored.ruling, stored.reason, stored.content) == ("failed", "refused", None)
    assert ledger.turns.already_read(WORKSPACE, "s_1", [t.id for t in said], "x@1") == frozenset()
    done = replace(failed, failure=None, proposals=[proposal("net of tax", turn_id=said[0].id)])
    accepted = ledger.writes.settle(done, gate).receipts
    assert [r.ruling for r in accepted] == ["accepted"]
    assert ledger.writes.settle(done, gate).receipts == accepted


@pytest.mark.parametrize(
    ("keep", "kept_text", "kept_hash"),
    [("full", "net of tax", True), ("hash", None, True), ("off", None, False)],
)
def test_turns_are_kept_as_configured_and_still_known_to_be_read(
    ledger: SqlLedger, keep: str, kept_text: str | None, kept_hash: bool
) -> None:
    said = turn("net of tax")
    ledger.writes.settle(batch(turns=[said], extractor="x@1", keep_turns=keep), gate)
    with connection_of(ledger) as connection:
        row = connection.execute(text("SELECT text, text_hash FROM turns")).one()
    assert (row.text, row.text_hash is not None) == (kept_text, kept_hash)
    assert ledger.history.turns_kept(WORKSPACE, None) is (keep == "full")
    assert ledger.turns.already_read(WORKSPACE, "s_1", [said.id], "x@1") == {said.id}


def test_rows_without_a_valid_span_have_null_for_it(ledger: SqlLedger) -> None:
    settle(ledger, proposal("net of tax"), turns=[turn("hi")])
    with connection_of(ledger) as connection:
        for table in ("proposals", "turns", "memory_records"):
            row = connection.execute(text(f"SELECT trace_id, span_id FROM {table}")).one()
            assert tuple(row) == (None, None)


def test_a_claim_that_is_no_json_is_an_error_of_ours(ledger: SqlLedger) -> None:
    with pytest.raises(StoreError):
        write(ledger, "not a number", claim={"x": float("nan")})
    assert ledger.maintenance.statistics()["rows"]["memory_records"] == 0


def test_an_id_that_another_workspace_has_is_refused(ledger: SqlLedger) -> None:
    write(ledger, "ours", id="p_same")
    with pytest.raises(StoreError, match="ids are not shared"):
        write(ledger, "theirs", workspace="ws_other", id="p_same")
