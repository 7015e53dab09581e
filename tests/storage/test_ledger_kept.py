from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from ledger_making import (
    LATER,
    NOW,
    SPAN,
    WORKSPACE,
    candidate,
    connection_of,
    decision,
    proposal,
    retrieval,
    settle,
    write,
)
from pydantic import BaseModel
from sqlalchemy import text

from memplugin.errors import StoreError
from memplugin.records import Outcome, SpanRef
from memplugin.storage.sql.ledger import SqlLedger


def test_a_retrieval_comes_back_as_it_was(ledger: SqlLedger) -> None:
    record = write(
        ledger, "net of tax 🦆", scope={"b": "1", "a": "2"}, claim={"z": [1, {"y": None}]}
    )
    kept = retrieval(candidate(record, 1), candidate(record, 7, injected=False))
    ledger.retrievals.save(kept, "memory_on", 2)
    assert ledger.retrievals.get(WORKSPACE, "r_1") == kept
    assert ledger.retrievals.get("ws_other", "r_1") is None
    assert ledger.retrievals.get(WORKSPACE, "r_2") is None


def test_an_unsampled_or_missing_span_comes_back_too(ledger: SqlLedger) -> None:
    bare = retrieval(id="r_2", span=None, degraded=())
    unsampled = retrieval(id="r_3", span=replace(SPAN, sampled=False))
    for kept in (bare, unsampled):
        ledger.retrievals.save(kept, "memory_on", 1)
        assert ledger.retrievals.get(WORKSPACE, kept.id) == kept


def test_each_injected_candidate_has_a_row_to_join_credit_on(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax")
    kept = retrieval(candidate(record, 1), candidate(record, 7, injected=False))
    ledger.retrievals.save(kept, "memory_off", 2)
    with connection_of(ledger) as connection:
        rows = connection.execute(
            text(
                "SELECT workspace_id, task_id, session_id, trace_id, span_id, retrieval_id,"
                " record_id, rank, score, arm, attempt FROM injections"
            )
        ).all()
    hop = (WORKSPACE, "t_0417", "s_2", SPAN.trace_id, SPAN.span_id)
    assert [tuple(row) for row in rows] == [(*hop, "r_1", record.id, 1, 0.71, "memory_off", 2)]


def test_a_decision_comes_back_as_it_was(ledger: SqlLedger) -> None:
    kept = decision()
    ledger.decisions.save(kept, "memory_on", 1)
    assert ledger.decisions.get(WORKSPACE, "d_1") == kept
    assert ledger.decisions.get("ws_other", "d_1") is None


def test_a_decision_without_anything_optional_comes_back_too(ledger: SqlLedger) -> None:
    kept = decision(
        retrieval_id=None,
        status="error",
        answer=None,
        reasoning=None,
        considered=None,
        chosen_support=None,
        order_preserved=None,
        raw=None,
        model=None,
        usage=None,
        span=None,
        detail="the model did not answer",
    )
    ledger.decisions.save(kept, "memory_on", 1)
    assert ledger.decisions.get(WORKSPACE, "d_1") == kept


def test_keys_of_messages_and_replies_keep_their_order(ledger: SqlLedger) -> None:
    kept = decision()
    ledger.decisions.save(kept, "memory_on", 1)
    read = ledger.decisions.get(WORKSPACE, "d_1")
    assert read is not None
    for name in ("sent", "raw", "answer", "answer_schema"):
        assert json.dumps(getattr(read, name)) == json.dumps(getattr(kept, name)), name
    with connection_of(ledger) as connection:
        sent = connection.execute(text("SELECT sent FROM decisions")).scalar_one()
    assert sent == '[{"type":"human","data":{"z":"last first","a":["é","🦆"]}}]'


def test_an_answer_that_is_a_model_is_kept_as_plain_json(ledger: SqlLedger) -> None:
    class Vendor(BaseModel):
        vendor_id: str
        since: datetime

    answer = Vendor(vendor_id="primex", since=NOW)
    ledger.decisions.save(decision(answer=answer), "memory_on", 1)
    read = ledger.decisions.get(WORKSPACE, "d_1")
    assert read is not None
    assert read.answer == {"vendor_id": "primex", "since": "2026-03-02T09:14:11Z"}


def outcome(**fields: object) -> Outcome:
    kept = Outcome(
        id="o_1",
        workspace_id=WORKSPACE,
        task_id="t_0417",
        session_id="s_2",
        attempt=1,
        succeeded=False,
        value=0.0,
        confidence=1.0,
        failure_mode="gross",
        action="sent the pack",
        arm="memory_on",
        created_at=LATER,
    )
    return replace(kept, **fields)  # pyright: ignore[reportArgumentType] -- any field


def test_reporting_an_attempt_again_replaces_it(ledger: SqlLedger) -> None:
    ledger.outcomes.save(outcome(), SPAN)
    better = outcome(id="o_2", succeeded=True, value=1.0, failure_mode=None)
    ledger.outcomes.save(better, None)
    assert ledger.history.task_rows(WORKSPACE, "t_0417").outcomes == [better]


def test_attempts_arms_and_workspaces_have_outcomes_of_their_own(ledger: SqlLedger) -> None:
    kept = [
        outcome(),
        outcome(id="o_2", attempt=2),
        outcome(id="o_3", arm="memory_off"),
    ]
    for each in (*kept, outcome(id="o_4", workspace_id="ws_other")):
        ledger.outcomes.save(each, SPAN)
    assert ledger.history.task_rows(WORKSPACE, "t_0417").outcomes == kept


def test_a_time_without_a_zone_is_refused(ledger: SqlLedger) -> None:
    naive = datetime(2026, 3, 2)
    with pytest.raises(StoreError, match="has no time zone"):
        settle(ledger, proposal("net of tax", occurred_at=naive))
    with pytest.raises(StoreError, match="has no time zone"):
        ledger.decisions.save(decision(created_at=naive), "memory_on", 1)


def test_times_come_back_in_utc(ledger: SqlLedger) -> None:
    zone = timezone(timedelta(hours=-7))
    record = write(ledger, "net of tax", occurred_at=datetime(2026, 3, 2, 20, 30, tzinfo=zone))
    assert record.occurred_at.isoformat() == "2026-03-03T03:30:00+00:00"


def test_microseconds_are_kept(ledger: SqlLedger) -> None:
    exact = NOW + timedelta(microseconds=123_457)
    assert write(ledger, "net of tax", occurred_at=exact).occurred_at == exact


def test_a_span_ref_has_the_w3c_form() -> None:
    assert SpanRef("a" * 32, "b" * 16, sampled=False).traceparent.endswith("-00")
