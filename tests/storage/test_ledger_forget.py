from __future__ import annotations

import json
from pathlib import Path

import pytest
from ledger_making import (
    LATER,
    NOW,
    SPAN,
    WORKSPACE,
    batch,
    candidate,
    connection_of,
    decision,
    everything_stored,
    found,
    gate,
    proposal,
    refuse,
    retrieval,
    settle,
    turn,
    write,
)
from sqlalchemy import text

from memplugin.errors import RecordNotFound
from memplugin.records import Known, MemoryRecord, Outcome, Proposal, Ruling, Tombstone
from memplugin.storage.sql.ledger import SqlLedger

SECRET = 'my "sister\'s" <number> is\n555-0199 & ünlisted'


def shown_everywhere(ledger: SqlLedger) -> MemoryRecord:
    """A memory that has left its text wherever a hop can leave one."""
    said = turn(f"Please note: {SECRET}. Thanks!")
    read = batch(
        proposal(SECRET, turn_id=said.id, quote=SECRET, claim={"phone": "555-0199"}, source="chat"),
        turns=[said, turn("ok")],
        extractor="x@1",
    )
    [receipt] = ledger.writes.settle(read, gate).receipts
    assert receipt.record_id
    record = ledger.records.get_many(WORKSPACE, [receipt.record_id])[receipt.record_id]
    settle(ledger, proposal(SECRET.upper(), turn_id="u_2", quote=SECRET.upper()))
    write(ledger, "has a sister", around=f"user: Please note: {SECRET}. Thanks!\nassistant: noted")
    other = write(ledger, "likes tea")
    escaped = SECRET.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    arguments = json.dumps({"answer": SECRET})
    ledger.retrievals.save(
        retrieval(
            candidate(record, 1),
            candidate(other, 2, injected=False),
            query=f"what is {SECRET}?",
            text=f"<memory>{escaped}</memory>",
        ),
        "memory_on",
        1,
    )
    ledger.decisions.save(
        decision(
            question=f"Is {SECRET} right?",
            answer={"vendor_id": SECRET},
            reasoning=f"It says {SECRET}.",
            considered=SECRET,
            sent=({"data": {"content": f"<memory>{escaped}</memory>"}},),
            raw={"data": {"tool_calls": [{"arguments": arguments}]}},
            replies=(),
        ),
        "memory_on",
        1,
    )
    outcome = Outcome(
        "o_1", WORKSPACE, "t_0417", "s_2", 1, True, 1.0, 1.0, None, f"said {SECRET}", "on", LATER
    )
    ledger.outcomes.save(outcome, SPAN)
    return record


def test_forgetting_erases_the_text_from_every_table(ledger: SqlLedger) -> None:
    record = shown_everywhere(ledger)
    with connection_of(ledger) as connection:
        assert any("555-0199" in value for value in everything_stored(connection))
    ledger.erasure.forget(WORKSPACE, record.id, "the user asked", LATER)
    with connection_of(ledger) as connection:
        left = [v for v in everything_stored(connection) if "555-0199" in v or "NLISTED" in v]
    assert left == []


def test_forgetting_keeps_what_says_nothing_of_it(ledger: SqlLedger) -> None:
    record = shown_everywhere(ledger)
    ledger.erasure.forget(WORKSPACE, record.id, "the user asked", LATER)
    kept = ledger.retrievals.get(WORKSPACE, "r_1")
    assert kept is not None
    first = kept.candidates[0]
    assert (first.record_id, first.rank, first.score) == (record.id, 1, 0.71)
    assert [c.content for c in kept.candidates] == ["[forgotten]", "likes tea"]
    assert kept.query == "what is [forgotten]?"
    assert kept.text == "<memory>[forgotten]</memory>"
    decided = ledger.decisions.get(WORKSPACE, "d_1")
    assert decided is not None
    assert decided.answer == {"vendor_id": "[forgotten]"}
    assert decided.raw == {"data": {"tool_calls": [{"arguments": '{"answer": "[forgotten]"}'}]}}
    assert [t.text for t in ledger.history.task_rows(WORKSPACE, "t_0417").turns] == [None, "ok"]


def test_a_forgotten_record_is_a_tombstone_without_content(ledger: SqlLedger) -> None:
    record = write(ledger, "my number is 555", claim={"phone": "555"}, around="a", source="b")
    gone = ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    assert (gone.status, gone.content, gone.claim, gone.around, gone.source) == (
        "forgotten",
        "",
        None,
        None,
        None,
    )
    assert (gone.retired_at, gone.kind, gone.confidence) == (LATER, "fact", 0.8)
    assert found(ledger, "number") == []
    assert ledger.history.find_claims(WORKSPACE, ["phone"], 5) == []


def test_forgetting_twice_changes_nothing(ledger: SqlLedger) -> None:
    record = shown_everywhere(ledger)
    first = ledger.erasure.forget(WORKSPACE, record.id, "asked", NOW)
    before = ledger.maintenance.statistics()
    assert ledger.erasure.forget(WORKSPACE, record.id, "again", LATER) == first
    assert ledger.maintenance.statistics() == before


def test_forgetting_what_another_workspace_has_is_an_error(ledger: SqlLedger) -> None:
    record = write(ledger, "ours")
    for workspace, id_ in (("ws_other", record.id), (WORKSPACE, "m_none")):
        with pytest.raises(RecordNotFound, match="check both ids"):
            ledger.erasure.forget(workspace, id_, "asked", LATER)
    assert ledger.records.get_many(WORKSPACE, [record.id])[record.id].content == "ours"


def test_a_forgotten_proposal_is_refused_when_it_comes_again(ledger: SqlLedger) -> None:
    proposed = proposal("my number is 555")
    settle(ledger, proposed)
    ledger.erasure.forget(WORKSPACE, proposed.record_id, "asked", LATER)
    [receipt] = settle(ledger, proposed)
    assert (receipt.ruling, receipt.reason, receipt.record_id) == ("rejected", "tombstoned", None)


def test_the_rule_is_told_of_tombstones_by_content_and_by_turn(ledger: SqlLedger) -> None:
    original = proposal("my number is 555", turn_id="u_1")
    settle(ledger, original)
    ledger.erasure.forget(WORKSPACE, original.record_id, "asked", LATER)
    seen: list[tuple[str, Known]] = []

    def watch(proposed: Proposal, known: Known) -> Ruling:
        seen.append((proposed.content, known))
        return gate(proposed, known)

    ledger.writes.settle(
        batch(
            proposal("My  number is 555", turn_id="u_2"),
            proposal("the number", turn_id="u_1"),
            proposal("the weather", turn_id="u_2"),
        ),
        watch,
    )
    stone = Tombstone("s_1", "u_1", LATER)
    assert [(content, list(known.tombstones)) for content, known in seen] == [
        ("My  number is 555", [stone]),
        ("the number", [stone]),
        ("the weather", []),
    ]


def test_a_refusal_of_forgotten_content_does_not_keep_it(ledger: SqlLedger) -> None:
    original = proposal("my number is 555")
    settle(ledger, original)
    ledger.erasure.forget(WORKSPACE, original.record_id, "asked", LATER)
    [receipt] = settle(ledger, proposal("MY number is 555", turn_id="u_9", quote="555"))
    assert receipt.ruling == "rejected"
    with connection_of(ledger) as connection:
        assert not [v for v in everything_stored(connection) if "555" in v]


def test_tombstones_of_one_workspace_say_nothing_in_another(ledger: SqlLedger) -> None:
    original = proposal("my number is 555", turn_id="u_1")
    settle(ledger, original)
    ledger.erasure.forget(WORKSPACE, original.record_id, "asked", LATER)
    assert write(ledger, "my number is 555", workspace="ws_other", turn_id="u_1").content


def test_forgetting_leaves_the_records_that_were_superseded_by_it(ledger: SqlLedger) -> None:
    old = write(ledger, "the vendor is primex", claim={"vendor": "primex"})
    new = write(ledger, "the vendor is wasp", claim={"vendor": "wasp"})
    ledger.erasure.forget(WORKSPACE, new.id, "asked", LATER)
    old = ledger.records.get_many(WORKSPACE, [old.id])[old.id]
    assert (old.status, old.content) == ("superseded", "the vendor is primex")


def test_records_indexed_with_a_forgotten_text_around_them_are_indexed_again(
    ledger: SqlLedger,
) -> None:
    record = write(ledger, "my number is 555-0199")
    beside = write(ledger, "has a sister", around="me: my number is 555-0199. ok?")
    other = write(ledger, "likes tea", around="me: tea")
    ids = [record.id, beside.id, other.id]
    ledger.records.mark_indexed(WORKSPACE, ids, NOW)
    seq = ledger.search.state(WORKSPACE).seq
    ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    held = ledger.records.get_many(WORKSPACE, ids)
    assert held[beside.id].around == "me: [forgotten]. ok?"
    assert [held[id_].indexed_at for id_ in ids] == [NOW, None, NOW]
    assert {e.record_id for e in ledger.search.changes(WORKSPACE, seq)} == {record.id, beside.id}
    assert {r.id for r in ledger.records.outbox(9)} == {record.id, beside.id}
    assert found(ledger, "number") == []


def test_forgetting_a_short_text_leaves_words_that_contain_it(ledger: SqlLedger) -> None:
    record = write(ledger, "tea")
    ledger.retrievals.save(
        retrieval(query="steam or tea, teapot", text="x\\ntea", id="r_2"), "memory_on", 1
    )
    ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    kept = ledger.retrievals.get(WORKSPACE, "r_2")
    assert kept is not None
    assert (kept.query, kept.text) == ("steam or [forgotten], teapot", "x\\n[forgotten]")


def test_forgetting_erases_the_bytes_from_the_file(tmp_path: Path) -> None:
    ledger = SqlLedger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    record = shown_everywhere(ledger)
    ledger.records.mark_indexed(WORKSPACE, [record.id], NOW)
    ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    for path in sorted(tmp_path.iterdir()):
        assert b"555-0199" not in path.read_bytes(), path.name
    ledger.close()


def test_rows_of_other_workspaces_are_left_alone(ledger: SqlLedger) -> None:
    record = write(ledger, "my number is 555-0199")
    write(ledger, "my number is 555-0199", workspace="ws_other", around="number 555-0199")
    ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    [kept] = ledger.history.find_records("ws_other", ["number"], 5)
    assert (kept.content, kept.around) == ("my number is 555-0199", "number 555-0199")
    with connection_of(ledger) as connection:
        stones = connection.execute(text("SELECT workspace_id, reason FROM tombstones")).all()
    assert [tuple(s) for s in stones] == [(WORKSPACE, "asked")]


def test_pruning_erases_the_words_that_the_full_text_index_still_holds(tmp_path: Path) -> None:
    ledger = SqlLedger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    for n in range(40):
        write(ledger, f"note {n}")
    record = write(ledger, "born in zanzibar")
    for n in range(40, 80):
        write(ledger, f"note {n}")
    ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    ledger.maintenance.prune(NOW)
    for path in sorted(tmp_path.iterdir()):
        assert b"zanzibar" not in path.read_bytes(), path.name
    assert len(found(ledger, "note")) == 20
    ledger.close()


def test_a_refused_proposal_that_contains_the_text_loses_it(ledger: SqlLedger) -> None:
    record = write(ledger, "my number is 555-0199")
    longer = proposal("she said my number is 555-0199 today")
    ledger.writes.settle(batch(longer), refuse)
    ledger.erasure.forget(WORKSPACE, record.id, "asked", LATER)
    [stored] = ledger.history.find_proposals(WORKSPACE, ["today"], 5)
    assert stored.content == "she said [forgotten] today"
