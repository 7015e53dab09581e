"""Counterfactuals and judgements come back as they were, on every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from ledger_making import LATER, NOW, WORKSPACE, decision, write

from memplugin.records import Answered, Counterfactual, Judgement, Need, Runs
from memplugin.storage.sql.ledger import SqlLedger

TRIED = Counterfactual(
    id="x_1",
    workspace_id=WORKSPACE,
    task_id="t_0417",
    session_id="s_2",
    decision_id="d_1",
    record_id="m_1",
    verdict="load_bearing",
    flip=True,
    p_value=0.000155,
    detectable=None,
    deterministic=False,
    with_record=Runs((Answered({"b": "1 🦆", "a": [2, None]}, 7), Answered(None, 1)), 7, failed=1),
    without_record=Runs((Answered({"b": "2"}, 8),), 0),
    cited=True,
    model=None,
    created_at=NOW,
)
SAID = Judgement(
    workspace_id=WORKSPACE,
    task_id="t_0417",
    by="annotator 1",
    stage="retrieval",
    at=NOW,
    cause=None,
    should_use=False,
    rank=7,
    evidence=("it ranked 7",),
    need=Need(text="net of tax", claim={"basis": "net"}),
    note="hm",
)


def test_counterfactuals_come_back_as_they_were_oldest_first(ledger: SqlLedger) -> None:
    later = replace(TRIED, id="x_0", created_at=LATER, p_value=None, verdict="not", flip=False)
    other = replace(TRIED, id="x_2", task_id="t_2", created_at=LATER + timedelta(1))
    ledger.counterfactuals.save([later, TRIED, other])
    ledger.counterfactuals.save([])
    assert ledger.counterfactuals.of(WORKSPACE) == [TRIED, later, other]
    assert ledger.counterfactuals.of(WORKSPACE, "t_0417") == [TRIED, later]
    assert ledger.counterfactuals.of("ws_other") == []
    assert list(ledger.history.task_rows(WORKSPACE, "t_2").counterfactuals) == [other]


def test_a_judgement_replaces_that_of_the_same_task_by_the_same(ledger: SqlLedger) -> None:
    other = replace(SAID, by="annotator 2", need=None, note=None, should_use=None, at=LATER)
    elsewhere = replace(SAID, workspace_id="ws_other")
    ledger.judgements.save([SAID, other, elsewhere])
    assert ledger.judgements.of(WORKSPACE) == [SAID, other]
    changed = replace(SAID, stage="use", cause="ignored", evidence=())
    ledger.judgements.save([changed])
    assert ledger.judgements.of(WORKSPACE) == [changed, other]
    assert ledger.judgements.of("ws_other") == [elsewhere]


def test_forgetting_takes_a_text_out_of_both(ledger: SqlLedger) -> None:
    record = write(ledger, "reported net of tax")
    answered = Runs((Answered({"why": "it is reported net of tax"}, 4),), 4)
    ledger.counterfactuals.save([replace(TRIED, with_record=answered, without_record=answered)])
    quoting = replace(
        SAID,
        evidence=("it says 'reported net of tax'",),
        need=Need(text="reported net of tax"),
        note="reported net of tax!",
    )
    ledger.judgements.save([quoting])
    ledger.erasure.forget(WORKSPACE, record.id, "asked to", LATER)
    (tried,), (said,) = ledger.counterfactuals.of(WORKSPACE), ledger.judgements.of(WORKSPACE)
    assert tried.with_record.answers[0].answer == {"why": "it is [forgotten]"}
    assert tried.without_record == tried.with_record
    assert said.evidence == ("it says '[forgotten]'",)
    assert (said.need, said.note) == (Need(text="[forgotten]"), "[forgotten]!")


def test_counterfactuals_go_with_their_decision_and_no_sooner(ledger: SqlLedger) -> None:
    kept = decision()
    ledger.decisions.save(kept, "memory_on", 1)
    ledger.counterfactuals.save([replace(TRIED, decision_id=kept.id)])
    ledger.maintenance.prune(kept.created_at)
    assert len(ledger.counterfactuals.of(WORKSPACE)) == 1
    ledger.maintenance.prune(kept.created_at + timedelta(seconds=1))
    assert ledger.counterfactuals.of(WORKSPACE) == []
