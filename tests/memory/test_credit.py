"""Credit through ``Memory``: what it does to a ranking, and who is audited, retired, taken back."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.config import BINARY_GRADES, LearnConfig
from memplugin.diagnosis.writes_from_spans import TracedWrites
from memplugin.errors import ConfigError, RecordNotFound, StoreError
from memplugin.testing import InMemoryIndex, ScriptedChatModel, SpanCapture, memory_for_tests
from tests.memory.test_learning import pair

CONTEXT = MemoryContext("ws", "s_0", task_id="t_0")


class Choice(BaseModel):
    way: str


def tip(memory: Memory, content: str, **fields: Any) -> str:
    receipt = memory.write(content, context=CONTEXT, **{"kind": "tip", **fields})
    assert receipt.ruling == "accepted", receipt
    return str(receipt.record_id)


def tried(
    memory: Memory,
    query: str,
    *outcomes: bool,
    k: int = 3,
    mode: str | None = None,
    task: str = "t",
) -> None:
    """Attempts one after the other, each of them with what was recalled for the query."""
    for number, passed in enumerate(outcomes, 1):
        context = MemoryContext("ws", "s_1", task_id=f"{task}_{number}")
        memory.recall(query, context=context, k=k)
        memory.report(
            context=context,
            succeeded=passed,
            action=f"did {number}",
            failure_mode=None if passed else mode,
        )


def judging(*followed: str) -> ScriptedChatModel:
    """A judge that finds these contents followed, and no others."""

    def reply(messages: list[BaseMessage]) -> dict[str, Any]:
        return {"reasoning": "looked", "followed": pair(messages)[0] in followed}

    return ScriptedChatModel(reply)


def credit_of(memory: Memory, record_id: str, query: str) -> float:
    found = memory.recall(query, context=CONTEXT, k=5)
    return next(c.parts["credit"] for c in found.candidates if c.record_id == record_id)


# ---------------------------------------------------------------- outcomes


def test_report_grades_by_the_configured_table() -> None:
    def value(memory: Memory, attempt: int, **fields: Any) -> float:
        context = MemoryContext("ws", "s", task_id="t", attempt=attempt)
        return memory.report(context=context, **{"succeeded": True, **fields}).value

    with memory_for_tests() as memory:
        assert [value(memory, attempt) for attempt in (1, 2, 3, 4)] == [1.0, 0.8, 0.8, 0.5]
        assert value(memory, 5, succeeded=False) == 0.0
        assert value(memory, 6, succeeded=False, failure_mode="health_failure") == -0.2
    binary = MemoryConfig(learn=LearnConfig(grades=BINARY_GRADES))
    with memory_for_tests(config=binary) as memory:
        assert [value(memory, attempt) for attempt in (1, 4)] == [1.0, 1.0]
        assert value(memory, 5, succeeded=False, failure_mode="health_failure") == 0.0


# ---------------------------------------------------------------- ranking


def test_a_tip_followed_to_success_passes_one_that_is_as_relevant(memory: Memory) -> None:
    first, second = tip(memory, "use alpha here"), tip(memory, "use beta here")
    before = memory.recall("use here", context=CONTEXT, k=2)
    last = before.candidates[-1]
    tried(memory, "use here", *[True] * 4, k=2)
    memory.learn(model=judging(last.content))
    after = memory.recall("use here", context=CONTEXT, k=2)
    assert after.candidates[0].record_id == last.record_id
    # 4 first-try wins, followed: 4 / (4 + 4); ignored: 0 / 8
    assert [c.parts["credit"] for c in after.candidates] == [0.5, 0.0]
    assert after.policy == "balanced@2"
    assert {first, second} == {c.record_id for c in after.candidates}


def test_credit_is_a_part_of_the_score_and_no_history_is_none(memory: Memory) -> None:
    known = tip(memory, "use alpha here")
    assert credit_of(memory, known, "alpha") == 0.0
    tried(memory, "alpha", True, k=1)
    memory.learn(model=judging("use alpha here"))
    unknown = tip(memory, "use beta here")
    found = memory.recall("use", context=CONTEXT, k=2)
    parts = {c.record_id: c.parts["credit"] for c in found.candidates}
    assert parts == {known: pytest.approx(0.2), unknown: 0.0}  # 1 / (1 + 4)


def test_a_first_try_win_raises_a_tip_more_than_a_fourth_try_win(memory: Memory) -> None:
    early, late = tip(memory, "alpha alpha"), tip(memory, "beta beta")
    for record, attempt, query in ((early, 1, "alpha"), (late, 4, "beta")):
        context = MemoryContext("ws", "s_1", task_id=record, attempt=attempt)
        memory.recall(query, context=context, k=1, policy="similarity")
        memory.report(context=context, succeeded=True, action="did it")
    memory.learn(model=judging("alpha alpha", "beta beta"))
    assert credit_of(memory, early, "alpha") == pytest.approx(0.2)  # 1.0 / 5
    assert credit_of(memory, late, "beta") == pytest.approx(0.1)  # 0.5 / 5


def test_a_tip_that_was_followed_into_harm_ranks_below_an_unknown_one(memory: Memory) -> None:
    harmful = tip(memory, "use alpha here")
    tried(memory, "use here", *[False] * 5, k=1, mode="health_failure")
    memory.learn(model=judging("use alpha here"))
    unknown = tip(memory, "use beta here")
    found = memory.recall("use here", context=CONTEXT, k=2)
    parts = {c.record_id: c.parts["credit"] for c in found.candidates}
    assert parts == {harmful: pytest.approx(-1.0 / 9), unknown: 0.0}  # 5 * -0.2 / (5 + 4)


def test_a_candidate_that_was_not_shown_neither_earns_nor_loses(memory: Memory) -> None:
    ids = {tip(memory, "use alpha here"), tip(memory, "use beta here")}
    context = MemoryContext("ws", "s_1", task_id="t_1")
    found = memory.recall("use here", context=context, k=1)
    (shown,) = found.injected
    (hidden,) = ids - {shown.record_id}
    assert hidden in {c.record_id for c in found.candidates}
    memory.report(context=context, succeeded=False, failure_mode="health_failure", action="x")
    memory.learn(model=judging("use alpha here", "use beta here"))
    assert credit_of(memory, hidden, "use here") == 0.0
    assert credit_of(memory, shown.record_id, "use here") == pytest.approx(-0.04)  # -0.2 / 5


def test_policies_without_credit_do_not_look_it_up(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip(memory, "use alpha here")
    asked: list[str] = []
    real = memory.backend.ledger.credit.of_records
    monkeypatch.setattr(
        memory.backend.ledger.credit,
        "of_records",
        lambda workspace, *rest: asked.append(workspace) or real(workspace, *rest),
    )
    for policy in ("similarity", "evidence_bonus", "balanced@1"):
        memory.recall("alpha", context=CONTEXT, policy=policy)
    assert asked == []
    memory.recall("alpha", context=CONTEXT)
    assert asked == ["ws"]


# ---------------------------------------------------------------- evict


def harmed(memory: Memory) -> str:
    """A tip that was followed into harm five times."""
    harmful = tip(memory, "use alpha here")
    tried(memory, "use here", *[False] * 5, k=1, mode="health_failure")
    memory.learn(model=judging("use alpha here"))
    return harmful


def test_a_dry_run_changes_nothing_and_says_who_would_go(memory: Memory) -> None:
    harmful = harmed(memory)
    (eviction,) = memory.evict(workspace_id="ws", dry_run=True)
    assert (eviction.record_id, eviction.reason, eviction.done) == (
        harmful,
        "negative_utility",
        False,
    )
    assert memory.get(harmful, context=CONTEXT).status == "active"


def test_an_evicted_record_is_not_retrieved_until_it_is_taken_back(memory: Memory) -> None:
    harmful = harmed(memory)
    (eviction,) = memory.evict(workspace_id="ws")
    assert eviction.done
    assert memory.get(harmful, context=CONTEXT).status == "evicted"
    assert memory.recall("use alpha here", context=CONTEXT).candidates == ()
    assert memory.evict(workspace_id="ws") == []
    assert memory.restore(harmful, context=CONTEXT).status == "active"
    found = memory.recall("use alpha here", context=CONTEXT)
    assert [(c.record_id, "dense" in c.sources) for c in found.injected] == [(harmful, True)]


def test_a_record_that_is_taken_back_and_pinned_stays(memory: Memory) -> None:
    harmful = harmed(memory)
    memory.evict(workspace_id="ws")
    memory.restore(harmful, context=CONTEXT)
    memory.pin(harmful, context=CONTEXT)
    assert memory.evict(workspace_id="ws") == []


def test_a_preference_is_never_evicted(memory: Memory) -> None:
    tip(memory, "use alpha here", kind="preference")
    tried(memory, "use here", *[False] * 6, k=1, mode="health_failure")
    memory.learn(model=judging("use alpha here"))
    assert memory.evict(workspace_id="ws") == []


def test_only_what_is_evicted_can_be_taken_back(memory: Memory) -> None:
    active = tip(memory, "use alpha here")
    with pytest.raises(StoreError, match="is active: only a record that is evicted"):
        memory.restore(active, context=CONTEXT)
    with pytest.raises(RecordNotFound):
        memory.restore("m_none", context=CONTEXT)
    with pytest.raises(RecordNotFound):
        memory.restore(active, context=MemoryContext("ws_2", "s"))


def test_eviction_and_its_undoing_are_on_spans_under_the_task_that_wrote_the_record() -> None:
    capture = SpanCapture()
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        harmful = harmed(memory)
        capture.clear()
        memory.evict(workspace_id="ws")
        memory.restore(harmful, context=CONTEXT)
    (deleted,) = capture.attributes("delete_memory")
    (upserted,) = capture.attributes("upsert_memory")
    names = ("gen_ai.memory.record.id", "memplugin.record.status", "memplugin.task.id")
    assert [deleted[name] for name in names] == [harmful, "evicted", "t_0"]
    assert [upserted[name] for name in names] == [harmful, "active", "t_0"]


# ---------------------------------------------------------------- audit


def test_the_audit_names_a_tip_whose_successes_did_without_it(memory: Memory) -> None:
    lucky, useful = tip(memory, "use alpha here"), tip(memory, "use beta here")
    tried(memory, "use here", *[True] * 3, k=2)
    assert memory.audit(workspace_id="ws").misleading == ()
    memory.learn(model=judging("use beta here"))
    (found,) = memory.audit(workspace_id="ws").misleading
    assert (found.record_id, found.attempts, found.successes, found.known, found.followed) == (
        lucky,
        3,
        3,
        3,
        0,
    )
    assert (found.outcome, found.utility, found.sign) == (1.0, 0.0, "judge")
    assert useful != lucky


def test_the_audit_lists_duplicates_contradictions_and_what_was_never_shown() -> None:
    config = MemoryConfig(floor=-1.0, near_duplicate=0.95)
    with memory_for_tests(config=config) as memory:
        one = tip(
            memory, "send pests to primex", claim={"vendor": "primex"}, scope={"trade": "pest"}
        )
        near = tip(memory, "to primex send pests", kind="fact", scope={"trade": "pest"})
        other = tip(memory, "elm street uses dever", claim={"vendor": "dever"}, scope={"at": "elm"})
        tip(
            memory,
            "pests at elm go to wasp",
            claim={"vendor": "wasp"},
            scope={"trade": "pest", "at": "elm"},
        )
        tip(memory, "drains go to yonic", claim={"vendor": "yonic"}, scope={"trade": "drains"})
        audit = memory.audit(workspace_id="ws")
    assert [set(d.record_ids) for d in audit.duplicates] == [{one, near}]
    # Pests at elm are a special case of pests and of elm; drains are no pests.
    assert {(c.field, frozenset(c.values)) for c in audit.contradictions} == {
        ("vendor", frozenset({"primex", "dever"})),
        ("vendor", frozenset({"dever", "yonic"})),
    }
    assert {one, other} in [set(c.record_ids) for c in audit.contradictions]
    assert len(audit.never_shown) == audit.records == 5


def test_the_audit_lists_what_judge_and_cosine_disagree_on(memory: Memory) -> None:
    tip(memory, "alpha beta")
    context = MemoryContext("ws", "s_1", task_id="t_1")
    memory.recall("alpha", context=context)
    memory.report(context=context, succeeded=True, action="alpha beta")
    memory.learn(model=judging())
    (row,) = memory.audit(workspace_id="ws").far_apart
    assert (row.followed, row.cosine, row.reasoning) == (False, 1.0, "looked")


class _Down(InMemoryIndex):
    def fetch(self, workspace_id: str, keys: Any) -> Any:
        raise StoreError("the index is down.")


def test_without_its_index_the_audit_says_what_it_did_not_look_for() -> None:
    with memory_for_tests(index=_Down()) as memory:
        tip(memory, "use alpha here")
        audit = memory.audit(workspace_id="ws")
    assert audit.notes == ("duplicates were not looked for: StoreError",)
    assert len(audit.never_shown) == 1


def test_an_empty_workspace_has_nothing_to_look_at(memory: Memory) -> None:
    audit = memory.audit(workspace_id="ws_none")
    assert (audit.records, audit.found, audit.notes) == (0, False, ())


async def test_the_async_twins_do_the_same(memory: Memory) -> None:
    harmful = harmed(memory)
    assert (await memory.aaudit(workspace_id="ws")).records == 1
    assert [e.record_id for e in await memory.aevict(workspace_id="ws")] == [harmful]
    assert (await memory.arestore(harmful, context=CONTEXT)).status == "active"


# ---------------------------------------------------------------- calibrate


def _decider() -> ScriptedChatModel:
    """Goes by alpha's word when it is shown, and never heeds beta."""

    def reply(messages: list[BaseMessage]) -> dict[str, Any]:
        way = "alpha" if "use alpha here" in str(messages[-1].text) else "own"
        return {
            "memory_reasoning": "looked",
            "considered": "other",
            "cited_record_ids": [],
            "way": way,
        }

    return ScriptedChatModel(reply)


def decided(memory: Memory) -> None:
    """One decision that was shown both tips, reported and judged: both found followed."""
    context = MemoryContext("ws", "s_1", task_id="t_1")
    tip(memory, "use alpha here")
    tip(memory, "use beta here")
    found = memory.recall("use here", context=context, k=2)
    memory.decide("how?", context=context, answer=Choice, model=_decider(), retrieval=found)
    memory.report(context=context, succeeded=True, action="zeta")
    memory.learn(model=judging("use alpha here", "use beta here"))


def test_calibration_holds_both_signs_against_counterfactual_runs(memory: Memory) -> None:
    decided(memory)
    found = memory.calibrate(10, workspace_id="ws", model=_decider(), deterministic=True)
    assert (found.sampled, found.of, found.uncertain) == (2, 2, 0)
    judge = found.judge
    assert (judge.followed_load_bearing, judge.followed_not) == (1, 1)
    assert (judge.agreement, judge.compared) == (0.5, 2)
    assert judge.kappa == 0.0  # followed always: it agrees as often as chance would
    assert found.cosine.compared == 2
    assert (found.cosine.ignored_load_bearing, found.cosine.ignored_not) == (1, 1)


async def test_a_record_that_was_tried_is_not_tried_again(memory: Memory) -> None:
    decided(memory)
    first = memory.calibrate(10, workspace_id="ws", model=_decider(), deterministic=True)
    model = _decider()
    again = await memory.acalibrate(10, workspace_id="ws", model=model, deterministic=True)
    assert model.calls == []
    assert again == first


def test_calibration_needs_something_scored(memory: Memory) -> None:
    with pytest.raises(ConfigError, match="run `memplugin learn` first"):
        memory.calibrate(5, workspace_id="ws", model=_decider())
    decided(memory)
    with pytest.raises(ConfigError, match="sample is 0"):
        memory.calibrate(0, workspace_id="ws", model=_decider())


def test_traces_alone_tell_that_a_record_was_evicted_and_taken_back() -> None:
    capture = SpanCapture()
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        harmful = harmed(memory)
        memory.evict(workspace_id="ws")
        gone = TracedWrites.on(capture.read()).of_record(harmful)
        memory.restore(harmful, context=CONTEXT)
        back = TracedWrites.on(capture.read()).of_record(harmful)
    assert gone is not None
    assert back is not None
    assert (gone.status, gone.retired_at is None) == ("evicted", False)
    assert (back.status, back.retired_at) == ("active", None)
