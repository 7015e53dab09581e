from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from ledger_making import (
    LATER,
    NOW,
    SPAN,
    WORKSPACE,
    batch,
    candidate,
    context,
    decision,
    gate,
    proposal,
    refuse,
    retrieval,
    settle,
    turn,
    write,
)

from memplugin.config import MemoryContext
from memplugin.records import Outcome, SpanRef
from memplugin.storage import migrations
from memplugin.storage.sql.ledger import SqlLedger

DAY = timedelta(days=1)


def test_a_task_has_every_row_that_its_hops_wrote_oldest_first(ledger: SqlLedger) -> None:
    said = [turn("net of tax, please"), turn("thanks", said_at=LATER)]
    settle(ledger, proposal("net of tax", turn_id=said[0].id), turns=said)
    settle(ledger, proposal("likes tea"), context=context(task="t_other"))
    kept = [retrieval(), retrieval(id="r_2", created_at=NOW)]
    for each in kept:
        ledger.retrievals.save(each, "memory_on", 1)
    decided = [decision(), decision(id="d_2", created_at=NOW)]
    for each in decided:
        ledger.decisions.save(each, "memory_on", 1)
    ended = Outcome(
        "o_1", WORKSPACE, "t_0417", "s_2", 1, True, 1.0, 1.0, None, None, "memory_on", LATER
    )
    ledger.outcomes.save(ended, SPAN)
    rows = ledger.history.task_rows(WORKSPACE, "t_0417")
    assert [t.text for t in rows.turns] == ["net of tax, please", "thanks"]
    assert [(p.content, p.ruling, p.operation) for p in rows.proposals] == [
        ("net of tax", "accepted", "write")
    ]
    assert rows.retrievals == kept[::-1]
    assert rows.decisions == decided[::-1]
    assert rows.outcomes == [ended]


def test_a_task_knows_in_which_spans_its_other_rows_were_written(ledger: SqlLedger) -> None:
    unsampled = replace(SPAN, sampled=False)
    ledger.sessions.enter(context(), unsampled, NOW)
    said = [turn("net of tax, please")]
    settle(ledger, proposal("net of tax", turn_id=said[0].id), turns=said, span=unsampled)
    settle(ledger, proposal("likes tea"), context=context(task="t_other"), span=unsampled)
    ended = Outcome(
        "o_1", WORKSPACE, "t_0417", "s_2", 1, True, 1.0, 1.0, None, None, "memory_on", LATER
    )
    ledger.outcomes.save(ended, None)
    found = ledger.history.row_spans(WORKSPACE, "t_0417")
    ids = (SPAN.trace_id, SPAN.span_id)
    assert {(r.table, r.session_id, r.trace_id, r.span_id, r.sampled) for r in found} == {
        ("sessions", "s_1", *ids, False),
        ("turns", "s_1", *ids, None),
        ("proposals", "s_1", *ids, None),
        ("attempts", "s_2", None, None, None),
    }
    assert (found[-1].id, found[-1].at) == ("o_1", LATER)
    assert ledger.history.row_spans("ws_other", "t_0417") == []


def test_a_session_without_a_task_is_its_own(ledger: SqlLedger) -> None:
    settle(ledger, proposal("net of tax"), context=MemoryContext(WORKSPACE, "s_7"))
    assert ledger.history.tasks(WORKSPACE) == ["s_7"]
    assert ledger.history.find_records(WORKSPACE, ["tax"], 1)[0].task_id == "s_7"


def test_tasks_are_listed_the_latest_first(ledger: SqlLedger) -> None:
    ledger.sessions.enter(context(task="t_1"), None, NOW)
    ledger.retrievals.save(retrieval(task_id="t_2", created_at=NOW + DAY), "memory_on", 1)
    settle(ledger, proposal("x"), context=context(task="t_3"), now=NOW + 2 * DAY)
    ledger.decisions.save(decision(task_id="t_1", created_at=NOW + 3 * DAY), "memory_on", 1)
    ledger.sessions.enter(context("ws_other", task="t_9"), None, NOW)
    assert ledger.history.tasks(WORKSPACE) == ["t_1", "t_3", "t_2"]
    assert ledger.history.tasks("ws_none") == []


def test_a_task_id_may_be_known_in_several_workspaces(ledger: SqlLedger) -> None:
    ledger.sessions.enter(context("ws_b"), None, NOW)
    settle(ledger, proposal("x", "ws_a"), workspace="ws_a")
    assert ledger.history.workspaces_of_task("t_0417") == ["ws_a", "ws_b"]
    assert ledger.history.workspaces_of_task("t_none") == []


def test_a_later_session_of_a_task_is_told_the_span_of_the_one_before(ledger: SqlLedger) -> None:
    spans = [SpanRef(f"{n}" * 32, f"{n}" * 16, sampled=n != 2) for n in (1, 2, 3)]
    sessions = [context(session=f"s_{n}") for n in (1, 2, 3)]
    assert ledger.sessions.enter(sessions[0], spans[0], NOW) is None
    assert ledger.sessions.enter(sessions[1], spans[1], NOW) == spans[0]
    assert ledger.sessions.enter(sessions[1], spans[2], NOW) is None
    assert ledger.sessions.enter(sessions[2], spans[2], NOW) == spans[1]
    other_task = context(session="s_4", task="t_other")
    assert ledger.sessions.enter(other_task, spans[0], NOW) is None
    assert ledger.sessions.enter(context("ws_other", "s_2"), spans[0], NOW) is None


def test_a_session_before_that_was_not_traced_gives_no_link(ledger: SqlLedger) -> None:
    assert ledger.sessions.enter(context(), None, NOW) is None
    assert ledger.sessions.enter(context(session="s_2"), SPAN, NOW) is None


def test_words_are_found_anywhere_in_any_case_and_as_they_stand(ledger: SqlLedger) -> None:
    write(ledger, "50% discount for user_1", occurred_at=NOW)
    write(ledger, "500 discounts for userX1 ÜBER", occurred_at=NOW + DAY)
    contents = [
        [r.content[:3] for r in ledger.history.find_records(WORKSPACE, words, 9)]
        for words in (["0%"], ["user_1"], ["DISCOUNT"], ["über"], ["none", "50"], [], [""])
    ]
    assert contents == [["50%"], ["50%"], ["500", "50%"], ["500"], ["500", "50%"], [], []]
    assert len(ledger.history.find_records(WORKSPACE, ["discount"], 1)) == 1
    assert ledger.history.find_records(WORKSPACE, ["x" * 60_000], 1) == []


def test_records_are_found_whatever_their_status(ledger: SqlLedger) -> None:
    old = write(ledger, "the vendor is primex", claim={"vendor": "primex"})
    new = write(ledger, "the vendor is wasp", claim={"vendor": "wasp"}, occurred_at=LATER)
    write(ledger, "two fields", claim={"vendor": "x", "city": "y"})
    assert [r.id for r in ledger.history.find_records(WORKSPACE, ["vendor"], 9)] == [new.id, old.id]
    assert [r.id for r in ledger.history.find_claims(WORKSPACE, ["vendor"], 9)] == [new.id, old.id]
    both = ledger.history.find_claims(WORKSPACE, ["vendor", "city"], 9)
    assert [r.content for r in both] == ["two fields"]
    assert ledger.history.find_claims(WORKSPACE, [], 9) == []
    assert ledger.history.find_claims("ws_other", ["vendor"], 9) == []


def test_proposals_are_found_by_content_and_quote_newest_first(ledger: SqlLedger) -> None:
    settle(ledger, proposal("net of tax"))
    ledger.writes.settle(batch(proposal("as she says", quote="no TAX at all"), now=LATER), refuse)
    hits = ledger.history.find_proposals(WORKSPACE, ["tax"], 9)
    assert [(p.content, p.ruling) for p in hits] == [
        ("as she says", "rejected"),
        ("net of tax", "accepted"),
    ]
    assert len(ledger.history.find_proposals(WORKSPACE, ["tax"], 1)) == 1
    assert ledger.history.find_proposals("ws_other", ["tax"], 9) == []


def test_a_failed_extraction_is_found_by_what_its_turns_said(ledger: SqlLedger) -> None:
    said = [turn("hello"), turn("net of tax, please")]
    failed = batch(turns=said, extractor="x@1", failure="timeout")
    ledger.writes.settle(failed, gate)
    [hit] = ledger.history.find_proposals(WORKSPACE, ["tax"], 9)
    assert (hit.ruling, hit.reason, hit.content) == ("failed", "timeout", None)
    assert ledger.history.find_proposals(WORKSPACE, ["gross"], 9) == []
    assert [p.id for p in ledger.history.proposals_of_turn(WORKSPACE, said[0].id)] == [hit.id]
    assert ledger.history.proposals_of_turn(WORKSPACE, said[0].id[:-1]) == []


def test_turns_are_found_newest_first(ledger: SqlLedger) -> None:
    said = [turn("net of tax"), turn("Tax again", said_at=LATER, role="assistant"), turn("tea")]
    ledger.writes.settle(batch(turns=said), gate)
    hits = ledger.history.find_turns(WORKSPACE, ["tax"], 9)
    assert [(t.text, t.role, t.task_id) for t in hits] == [
        ("Tax again", "assistant", "t_0417"),
        ("net of tax", "user", "t_0417"),
    ]
    assert ledger.history.find_turns("ws_other", ["tax"], 9) == []


def test_whether_turns_were_kept_can_be_asked_of_a_task(ledger: SqlLedger) -> None:
    assert ledger.history.turns_kept(WORKSPACE, None) is False
    ledger.writes.settle(batch(turns=[turn("hi")]), gate)
    assert ledger.history.turns_kept(WORKSPACE, None) is True
    assert ledger.history.turns_kept(WORKSPACE, "t_0417") is True
    assert ledger.history.turns_kept(WORKSPACE, "t_other") is False
    assert ledger.history.turns_kept("ws_other", None) is False


def test_proposals_of_records_are_those_that_made_or_confirmed_them(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    settle(ledger, proposal("Net of tax", turn_id="u_2"), now=LATER)
    write(ledger, "likes tea")
    made = ledger.history.proposals_of(WORKSPACE, [record.id, "m_none"])
    assert [(p.content, p.ruling) for p in made] == [
        ("net of tax", "accepted"),
        ("Net of tax", "attached"),
    ]
    assert ledger.history.proposals_of("ws_other", [record.id]) == []
    assert ledger.history.proposals_of(WORKSPACE, []) == []


def history_of(ledger: SqlLedger, workspace: str) -> None:
    record = write(ledger, "net of tax", workspace)
    for when, suffix in ((NOW, "old"), (LATER, "new")):
        said = turn(suffix, said_at=when)
        ledger.writes.settle(batch(turns=[said], workspace=workspace), gate)
        kept = retrieval(candidate(record), id=f"r_{suffix}", created_at=when)
        ledger.retrievals.save(replace(kept, workspace_id=workspace), "memory_on", 1)
        decided = decision(id=f"d_{suffix}", created_at=when, workspace_id=workspace)
        ledger.decisions.save(decided, "memory_on", 1)


@pytest.mark.parametrize("workspace", [None, WORKSPACE])
def test_pruning_drops_old_history_and_no_record(ledger: SqlLedger, workspace: str | None) -> None:
    history_of(ledger, WORKSPACE)
    history_of(ledger, "ws_other")
    pruned = 2 if workspace is None else 1
    assert ledger.maintenance.prune(LATER, workspace) == {
        "turns": pruned,
        "retrievals": pruned,
        "decisions": pruned,
    }
    assert ledger.retrievals.get(WORKSPACE, "r_old") is None
    assert ledger.decisions.get(WORKSPACE, "d_old") is None
    assert ledger.retrievals.get(WORKSPACE, "r_new") is not None
    assert (ledger.retrievals.get("ws_other", "r_old") is None) is (workspace is None)
    rows = ledger.maintenance.statistics()["rows"]
    assert (rows["memory_records"], rows["proposals"]) == (2, 2)
    assert rows["injections"] == 4 - pruned


def test_statistics_count_rows_and_name_the_schema(ledger: SqlLedger) -> None:
    write(ledger, "net of tax")
    write(ledger, "likes tea", "ws_other")
    counted = ledger.maintenance.statistics()
    assert counted["rows"]["memory_records"] == 2
    assert counted["records"] == {"active": 2}
    assert (counted["workspaces"], counted["outbox"], counted["schema"]) == (2, 2, migrations.HEAD)
