"""A stored decision, run with and without one record: through the front door."""

from __future__ import annotations

import random
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from pydantic import BaseModel, Field

from memplugin import Memory, MemoryConfig, MemoryContext, Need
from memplugin.errors import ConfigError
from memplugin.records import Judgement
from memplugin.testing import ScriptedChatModel
from memplugin.text import MEMORY_OPEN

CONTEXT = MemoryContext("ws", "s_1", task_id="t_1")


class Choice(BaseModel):
    vendor: str


class Tempered(ScriptedChatModel):
    """A model that says its temperature, as those of providers do."""

    temperature: float = Field(default=0.0)


def reply(vendor: str, *cited: str, why: str = "…") -> dict[str, Any]:
    return {
        "memory_reasoning": why,
        "considered": "…",
        "cited_record_ids": list(cited),
        "vendor": vendor,
    }


def said(messages: list[BaseMessage]) -> str:
    return str(messages[-1].content)


def heeding(text: str) -> ScriptedChatModel:
    """Answers ``primex`` when it is shown a text, else ``dever``."""
    return ScriptedChatModel(lambda m: reply("primex" if text in said(m) else "dever"))


@pytest.fixture
def shown(memory: Memory) -> list[str]:
    """Two records, both shown to a decision that cites the second; their ids."""
    receipts = memory.write_many(
        ["Primex does the wasps.", "The gate code is <4711> & changes."], context=CONTEXT
    )
    ids = [str(receipt.record_id) for receipt in receipts]
    model = ScriptedChatModel([reply("primex", ids[1])])
    memory.decide("wasps at the gate?", context=CONTEXT, answer=Choice, model=model)
    memory.report(context=CONTEXT, succeeded=False)
    return ids


def verdicts(memory: Memory, model: ScriptedChatModel, **more: Any) -> list[Any]:
    return [one.verdict for one in memory.counterfactual(context=CONTEXT, model=model, **more)]


def test_a_record_that_is_heeded_bears_the_answer_and_one_that_is_not_does_not(
    memory: Memory, shown: list[str]
) -> None:
    model = heeding("Primex")
    used, ignored = memory.counterfactual(context=CONTEXT, model=model)
    assert [used.record_id, ignored.record_id] == shown
    assert (used.verdict, used.flip, used.cited) == ("load_bearing", True, False)
    assert (ignored.verdict, ignored.flip, ignored.cited) == ("not", False, True)
    assert used.p_value is not None
    assert used.p_value < 0.05
    assert (used.with_record.total, used.without_record.total) == (8, 8)
    assert used.without_record.answers[0].answer == {"vendor": "dever"}
    # Eight runs with both, then eight without each of the two.
    assert len(model.calls) == 24


def test_everything_but_the_record_is_byte_for_byte_the_same(
    memory: Memory, shown: list[str]
) -> None:
    model = heeding("Primex")
    memory.counterfactual(context=CONTEXT, model=model, record_ids=[shown[1]], runs=4)
    (decision,) = memory.backend.ledger.history.task_rows("ws", "t_1").decisions
    as_stored = [message["data"]["content"] for message in decision.sent]
    with_it, without_it = model.calls[0], model.calls[-1]
    assert [m.content for m in with_it] == as_stored
    assert [m.content for m in without_it][:-1] == as_stored[:-1]
    line = next(line for line in as_stored[-1].splitlines() if shown[1] in line)
    assert "&lt;4711&gt; &amp; changes" in line
    assert said(without_it) == as_stored[-1].replace(line + "\n", "")
    assert MEMORY_OPEN in said(without_it)


@pytest.mark.parametrize("choices", [2, 5])
def test_a_model_that_answers_at_random_is_not_taken_to_heed_a_record(
    memory: Memory, shown: list[str], choices: int
) -> None:
    found = []
    for seed in range(100):
        throw = random.Random(seed)
        model = ScriptedChatModel(lambda _, t=throw: reply(f"v{t.randrange(choices)}"))
        found += memory.counterfactual(context=CONTEXT, model=model, record_ids=shown[:1])
    assert sum(one.verdict != "load_bearing" for one in found) >= 95
    assert sum((one.p_value or 0.0) < 0.05 for one in found) <= 5


def test_a_deterministic_model_is_checked_with_a_repeat_and_run_few_times(
    memory: Memory, shown: list[str]
) -> None:
    script = heeding("Primex").script
    model = Tempered(script)
    used, ignored = memory.counterfactual(context=CONTEXT, model=model)
    assert (used.verdict, ignored.verdict) == ("load_bearing", "not")
    assert used.deterministic
    assert used.p_value is None
    # Two with, one without: they differ, so a third with and three without confirm it. The
    # second record: one without, which is the same.
    assert len(model.calls) == 3 + 3 + 1
    warm = Tempered(script, temperature=0.7)
    memory.counterfactual(context=CONTEXT, model=warm, record_ids=shown[:1])
    assert len(warm.calls) == 16
    told = heeding("Primex")
    memory.counterfactual(context=CONTEXT, model=told, record_ids=shown[1:], deterministic=True)
    assert len(told.calls) == 3


def test_a_model_that_is_only_said_to_be_deterministic_is_run_often_after_all(
    memory: Memory, shown: list[str]
) -> None:
    count = iter(range(100))
    model = Tempered(lambda _: reply(f"v{next(count) % 2}"))
    (found,) = memory.counterfactual(context=CONTEXT, model=model, record_ids=shown[:1])
    assert (found.deterministic, len(model.calls)) == (False, 16)
    assert found.verdict != "load_bearing"


def test_calls_that_fail_count_for_nothing_and_are_told(memory: Memory, shown: list[str]) -> None:
    count = iter(range(1_000))

    def often_down(messages: list[BaseMessage]) -> Any:
        down = next(count) % 3 != 2  # each run is tried twice, so that a third of them fails
        return ConnectionError("down") if down else reply("primex")

    (found,) = memory.counterfactual(
        context=CONTEXT, model=ScriptedChatModel(often_down), record_ids=shown[:1], runs=12
    )
    assert found.with_record.failed > 0
    assert found.with_record.total + found.with_record.failed == 12
    nothing = ScriptedChatModel(lambda _: ConnectionError("down"))
    (none,) = memory.counterfactual(context=CONTEXT, model=nothing, record_ids=shown[:1])
    assert (none.verdict, none.p_value, none.with_record.failed) == ("uncertain", None, 8)


def test_the_callers_equality_counts(memory: Memory, shown: list[str]) -> None:
    model = heeding("Primex")
    (found,) = memory.counterfactual(
        context=CONTEXT, model=model, record_ids=shown[:1], same=lambda one, other: True
    )
    assert found.verdict == "not"


def test_other_words_for_the_same_answer_are_no_difference(
    memory: Memory, shown: list[str]
) -> None:
    count = iter(range(100))
    model = ScriptedChatModel(lambda _: reply("primex", why=f"reason {next(count)}"))
    assert verdicts(memory, model) == ["not", "not"]


def test_it_is_kept_and_stands_in_the_tasks_record(memory: Memory, shown: list[str]) -> None:
    before = memory.task_record("t_1", workspace_id="ws").use
    assert (before.counterfactual_flip, before.counterfactuals) == (None, ())
    memory.counterfactual(context=CONTEXT, model=heeding("gate"), record_ids=shown[:1])
    one_tried = memory.task_record("t_1", workspace_id="ws").use
    assert one_tried.counterfactual_flip is False
    memory.counterfactual(context=CONTEXT, model=heeding("Primex"))
    use = memory.task_record("t_1", workspace_id="ws").use
    assert use.counterfactual_flip is True
    assert [(one.record_id, one.verdict) for one in use.counterfactuals] == [
        (shown[0], "load_bearing"),
        (shown[1], "not"),
    ]


def test_the_verdict_of_a_needed_record_follows_its_own_counterfactual(
    memory: Memory, shown: list[str]
) -> None:
    def cause(record_id: str) -> str:
        return memory.diagnose(
            "t_1", workspace_id="ws", need=Need(record_ids=(record_id,), corrected=True)
        ).cause

    assert cause(shown[0]) == "ignored"
    memory.counterfactual(context=CONTEXT, model=heeding("Primex"))
    assert cause(shown[0]) == "misapplied"
    memory.counterfactual(context=CONTEXT, model=heeding("gate"))
    verdict = memory.diagnose("t_1", workspace_id="ws", need=Need(record_ids=(shown[0],)))
    assert verdict.cause == "ignored"
    assert "counterfactual: leaving it out changes nothing" in verdict.evidence
    assert cause(shown[1]) == "misapplied"  # it is cited


def test_forgetting_a_record_takes_it_out_of_what_was_answered(
    memory: Memory, shown: list[str]
) -> None:
    told = "Primex does the wasps."
    model = ScriptedChatModel(lambda _: reply(told))
    memory.counterfactual(context=CONTEXT, model=model)
    memory.diagnose("t_1", workspace_id="ws", need=Need(text=told, corrected=True))
    memory.forget(shown[0], context=CONTEXT, reason="asked to")
    kept = memory.backend.ledger.counterfactuals.of("ws")
    assert kept
    assert all(told not in str(one.to_json()) for one in kept)
    assert all(told not in str(j.to_json()) for j in memory.backend.ledger.judgements.of("ws"))
    with pytest.raises(ConfigError, match="forgotten since"):
        memory.counterfactual(context=CONTEXT, model=model, record_ids=shown)
    assert [c.record_id for c in memory.counterfactual(context=CONTEXT, model=model)] == shown[1:]


def test_pruning_a_decision_takes_its_counterfactuals_along(
    memory: Memory, shown: list[str]
) -> None:
    memory.counterfactual(context=CONTEXT, model=heeding("Primex"))
    memory.prune(before=memory.backend.clock.now())
    assert memory.backend.ledger.counterfactuals.of("ws") == []


def test_what_can_not_be_tried_is_refused_before_any_call(memory: Memory, shown: list[str]) -> None:
    model = ScriptedChatModel([])

    def refused(match: str, **more: Any) -> None:
        with pytest.raises(ConfigError, match=match):
            memory.counterfactual(**{"context": CONTEXT, "model": model, **more})

    refused("was not shown", record_ids=["m_other"])
    refused("give a list", record_ids=shown[0])
    refused("fewer than 4", runs=3)
    refused("no decision 'd_9'", decision_id="d_9")
    refused("has no decision", context=MemoryContext("ws", "s_9"))
    refused("has no decision", context=MemoryContext("other", "s_1", task_id="t_1"))
    with pytest.raises(ConfigError, match="counterfactual_runs"):
        MemoryConfig(counterfactual_runs=0)


async def test_the_async_twin_does_the_same(memory: Memory, shown: list[str]) -> None:
    found = await memory.acounterfactual(context=CONTEXT, model=heeding("Primex"))
    assert [one.verdict for one in found] == ["load_bearing", "not"]
    assert list(found) == memory.backend.ledger.counterfactuals.of("ws", "t_1")


def test_judgements_are_kept_once_for_each_task_and_person(memory: Memory) -> None:
    at = memory.backend.clock.now()
    first = Judgement("ws", "t_1", "annotator 1", "write", at, note="hm", should_use=True)
    changed = Judgement("ws", "t_1", "annotator 1", "use", at)
    other = Judgement("ws", "t_1", "annotator 2", "use", at)
    memory.backend.ledger.judgements.save([first, other])
    assert memory.backend.ledger.judgements.of("ws") == [first, other]
    memory.backend.ledger.judgements.save([changed])
    assert memory.backend.ledger.judgements.of("ws") == [changed, other]
    assert memory.backend.ledger.judgements.of("other") == []
