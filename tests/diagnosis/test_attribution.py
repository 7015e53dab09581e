"""For every row of the attribution table: plant exactly that fault, get exactly that verdict.

Each fault goes through the real pipeline (turns, gate, ledger, index, ranking, decision); the
scripted model stands for the extractor and for whoever decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext, Need, Verdict
from memplugin.testing import ScriptedChatModel, memory_for_tests

W = "ws_8841"
TASK = "t_0417"
SAID = "can you do these net of tax going forward?"
NEEDED = "revenue is reported net of tax"
CORRECTION = Need(text="report net of tax", corrected=True)


class Pack(BaseModel):
    """What is decided."""

    basis: str


@dataclass
class Story:
    """One task in two sessions, with a place for a fault in each hop."""

    memory: Memory
    query: str = "board pack with revenue by region"
    k: int = 3
    ids: dict[str, str] = field(default_factory=dict)

    def context(self, session: str, **fields: Any) -> MemoryContext:
        return MemoryContext(workspace_id=W, session_id=session, task_id=TASK, **fields)

    def say(self, text: str = SAID, extracted: Any = None, **fields: Any) -> None:
        reply = {"memories": []} if extracted is None else extracted
        self.memory.remember(
            [{"role": "user", "content": text}],
            context=self.context("s_1", **fields),
            model=ScriptedChatModel([reply]),
        )

    def write(self, content: str = NEEDED, name: str = "needed", **fields: Any) -> str:
        context = self.context("s_1")
        receipt = self.memory.write(content, context=context, **fields)
        assert receipt.record_id is not None
        self.ids[name] = receipt.record_id
        return receipt.record_id

    def recall(self, **fields: Any) -> Any:
        scope = fields.pop("scope", {})
        return self.memory.recall(
            fields.pop("query", self.query),
            context=self.context("s_2", scope=scope),
            k=fields.pop("k", self.k),
            **fields,
        )

    def decide(self, retrieval: Any, basis: str = "gross", cited: list[str] | None = None) -> None:
        self.memory.decide(
            self.query,
            context=self.context("s_2"),
            answer=Pack,
            model=ScriptedChatModel([answer(basis, cited or [])]),
            retrieval=retrieval,
        )

    def fail(self) -> None:
        self.memory.report(context=self.context("s_2"), succeeded=False)

    def verdict(self, need: Need = CORRECTION) -> Verdict:
        return self.memory.diagnose(TASK, workspace_id=W, need=need)


def answer(basis: str, cited: list[str]) -> dict[str, Any]:
    return {
        "memory_reasoning": "read",
        "considered": "the other basis",
        "cited_record_ids": cited,
        "basis": basis,
    }


def proposed(content: str = NEEDED, **changed: Any) -> dict[str, Any]:
    memory = {
        "quote": "net of tax going forward",
        "speech_act": "request",
        "content": content,
        "kind": "preference",
        "polarity": "positive",
        "scope": [],
        "claim": [],
        "confidence": 0.9,
        "occurred_at": None,
        "time_phrase": None,
        "turn_index": 0,
    }
    return {"memories": [{**memory, **changed}]}


@pytest.fixture
def story() -> Iterator[Story]:
    with memory_for_tests() as memory:
        yield Story(memory)


def shown(verdict: Verdict) -> tuple[str, str]:
    return verdict.stage, verdict.cause


# ---------------------------------------------------------------- write


def test_said_in_a_turn_and_never_proposed(story: Story) -> None:
    story.say()
    story.decide(story.recall())
    story.fail()
    assert shown(story.verdict()) == ("write", "never_proposed")


def test_not_said_by_anyone(story: Story) -> None:
    story.say("good morning")
    story.decide(story.recall())
    story.fail()
    assert shown(story.verdict()) == ("none", "never_said")


def test_said_only_after_the_task_had_asked(story: Story) -> None:
    story.say("good morning")
    story.decide(story.recall())
    story.fail()
    story.say(SAID, proposed())
    verdict = story.verdict()
    assert shown(verdict) == ("none", "never_said")
    assert "only written at" in verdict.evidence[-1]


def test_said_before_and_extracted_only_after_the_task_had_asked(story: Story) -> None:
    story.say()
    story.decide(story.recall())
    story.fail()
    story.write()
    assert shown(story.verdict()) == ("write", "never_proposed")


def test_a_proposal_that_the_gate_rejected(story: Story) -> None:
    story.say(extracted=proposed(confidence=0.2))
    story.decide(story.recall())
    story.fail()
    verdict = story.verdict()
    assert shown(verdict) == ("write", "rejected")
    assert "low_confidence" in verdict.evidence[0]


def test_an_extraction_that_failed(story: Story) -> None:
    story.say(extracted=RuntimeError("the provider is down"))
    story.decide(story.recall())
    story.fail()
    assert shown(story.verdict()) == ("write", "failed")


def test_a_record_that_does_not_carry_what_was_said(story: Story) -> None:
    story.say(extracted=proposed("the board pack is about tax"))
    story.decide(story.recall())
    story.fail()
    verdict = story.verdict()
    assert shown(verdict) == ("write", "distorted")
    assert verdict.record_id is not None


def test_a_record_about_another_thing_said_in_the_same_turn_distorts_nothing(story: Story) -> None:
    story.say(
        SAID + " And I prefer bar charts.",
        proposed("prefers bar charts", quote="I prefer bar charts"),
    )
    story.decide(story.recall())
    story.fail()
    assert shown(story.verdict()) == ("write", "never_proposed")


def test_a_record_superseded_before_the_query(story: Story) -> None:
    needed = story.write(kind="belief", claim={"basis": "net"})
    story.write("revenue is reported gross", "new", kind="belief", claim={"basis": "gross"})
    story.decide(story.recall())
    story.fail()
    verdict = story.verdict(Need(record_ids=(needed,)))
    assert (*shown(verdict), verdict.record_id) == ("write", "retired", needed)


def test_a_record_forgotten_before_the_query(story: Story) -> None:
    needed = story.write()
    story.memory.forget(needed, context=story.context("s_1"), reason="asked to")
    story.decide(story.recall())
    story.fail()
    assert shown(story.verdict(Need(record_ids=(needed,)))) == ("write", "retired")


# ---------------------------------------------------------------- retrieval


def test_a_task_without_a_recall(story: Story) -> None:
    story.write()
    story.fail()
    assert shown(story.verdict()) == ("retrieval", "not_queried")


def test_a_record_the_index_did_not_hold_yet(story: Story, monkeypatch: Any) -> None:
    def down(*_: object) -> None:
        raise OSError("the index is down")

    monkeypatch.setattr(story.memory.backend.index, "upsert", down)
    needed = story.write()
    retrieval = story.recall(policy="similarity")
    assert retrieval.pending_index == 1
    story.decide(retrieval)
    story.fail()
    monkeypatch.undo()
    story.memory.flush()
    verdict = story.verdict()
    assert (*shown(verdict), verdict.record_id) == ("retrieval", "not_indexed", needed)


def test_a_record_outside_the_requests_scope(story: Story) -> None:
    story.write(scope={"client": "acme"})
    story.decide(story.recall(scope={"client": "globex"}))
    story.fail()
    assert shown(story.verdict()) == ("retrieval", "filtered_out")


def test_a_record_of_a_kind_that_was_not_asked_for(story: Story) -> None:
    story.write(kind="preference")
    story.decide(story.recall(kinds=["fact"]))
    story.fail()
    verdict = story.verdict()
    assert shown(verdict) == ("retrieval", "filtered_out")
    assert "kinds" in verdict.evidence[0]


def test_a_record_beyond_the_depth_has_its_exact_rank(story: Story) -> None:
    needed = story.write("tax is taken off")
    story.memory.write_many(
        [f"board pack with revenue by region number {n}" for n in range(30)],
        context=story.context("s_1"),
    )
    story.decide(story.recall(policy="similarity"))
    story.fail()
    verdict = story.verdict(Need(record_ids=(needed,)))
    assert (*shown(verdict), verdict.rank) == ("retrieval", "beyond_depth", 31)


def test_a_record_below_the_cut_off(story: Story) -> None:
    needed = story.write("the pack is net of tax")
    story.memory.write_many(
        [f"board pack with revenue by region number {n}" for n in range(6)],
        context=story.context("s_1"),
    )
    story.decide(story.recall(policy="similarity"))
    story.fail()
    verdict = story.verdict(Need(record_ids=(needed,)))
    assert (*shown(verdict), verdict.rank) == ("retrieval", "below_cutoff", 7)


def test_a_record_cut_for_space() -> None:
    config = MemoryConfig(floor=-1.0, token_budget=5)
    with memory_for_tests(config=config) as memory:
        story = Story(memory)
        needed = story.write("board pack with revenue by region is net of tax, always and for all")
        story.decide(story.recall())
        story.fail()
        verdict = story.verdict(Need(record_ids=(needed,)))
    assert shown(verdict) == ("retrieval", "cut")
    assert "budget" in verdict.evidence[1]


def test_a_record_cut_by_the_floor() -> None:
    with memory_for_tests(config=MemoryConfig(floor=0.99)) as memory:
        story = Story(memory)
        needed = story.write()
        story.decide(story.recall(query="pack of something"))
        story.fail()
        verdict = story.verdict(Need(record_ids=(needed,)))
    assert shown(verdict) == ("retrieval", "cut")
    assert "floor" in verdict.evidence[1]


# ---------------------------------------------------------------- use


def test_shown_and_no_sign_of_use(story: Story) -> None:
    needed = story.write()
    story.decide(story.recall())
    story.fail()
    verdict = story.verdict()
    assert (*shown(verdict), verdict.record_id, verdict.rank) == ("use", "ignored", needed, 1)


def test_shown_and_the_answer_names_another_value(story: Story) -> None:
    story.write(kind="belief", claim={"basis": "net"})
    story.decide(story.recall(), basis="gross")
    story.fail()
    verdict = story.verdict()
    assert shown(verdict) == ("use", "overridden")
    assert "'net'" in verdict.evidence[0]
    assert "'gross'" in verdict.evidence[0]


def test_cited_and_the_answer_is_still_wrong(story: Story) -> None:
    needed = story.write()
    story.decide(story.recall(), cited=[needed])
    story.fail()
    assert shown(story.verdict()) == ("use", "misapplied")


def test_not_cited_and_the_answer_hangs_on_it_all_the_same(story: Story) -> None:
    needed = story.write()
    story.write("The pack has twelve pages.", name="other")
    story.decide(story.recall())
    story.fail()
    story.memory.counterfactual(
        context=story.context("s_2"),
        model=ScriptedChatModel(
            lambda sent: answer("gross" if needed in str(sent[-1].content) else "net", [])
        ),
    )
    assert shown(story.verdict()) == ("use", "misapplied")


def test_shown_and_leaving_it_out_changes_nothing(story: Story) -> None:
    story.write()
    story.decide(story.recall())
    story.fail()
    model = ScriptedChatModel(lambda _: answer("gross", []))
    story.memory.counterfactual(context=story.context("s_2"), model=model, deterministic=True)
    verdict = story.verdict()
    assert shown(verdict) == ("use", "ignored")
    assert "counterfactual: leaving it out changes nothing" in verdict.evidence


def test_shown_and_the_model_gave_no_answer(story: Story) -> None:
    story.write()
    story.memory.decide(
        story.query,
        context=story.context("s_2"),
        answer=Pack,
        model=ScriptedChatModel(["I would rather not say."] * 2),
        retrieval=story.recall(),
    )
    story.fail()
    assert shown(story.verdict()) == ("use", "no_answer")


# ---------------------------------------------------------------- neither


def test_a_record_that_was_not_to_be_used_is_rightly_ignored(story: Story) -> None:
    needed = story.write()
    story.decide(story.recall())
    story.fail()
    need = Need(record_ids=(needed,), should_use=False)
    assert shown(story.verdict(need)) == ("none", "rightly_ignored")


def test_a_passing_task_gets_no_verdict(story: Story) -> None:
    needed = story.write()
    story.decide(story.recall(), basis="net", cited=[needed])
    story.memory.report(context=story.context("s_2"), succeeded=True)
    assert shown(story.verdict(Need(record_ids=(needed,)))) == ("none", "passed")


def test_without_turns_never_said_cannot_be_told_from_never_proposed() -> None:
    with memory_for_tests(config=MemoryConfig(keep_turns="off", floor=-1.0)) as memory:
        story = Story(memory)
        story.say()
        story.decide(story.recall())
        story.fail()
        verdict = story.verdict()
    assert shown(verdict) == ("undetermined", "turns_not_kept")


def test_without_a_need_nothing_is_blamed(story: Story) -> None:
    story.write()
    story.decide(story.recall())
    story.fail()
    assert shown(story.verdict(Need())) == ("undetermined", "no_need")


def test_a_task_that_failed_for_two_reasons_counts_at_the_earliest(story: Story) -> None:
    unsaid = story.write("revenue is reported net of tax", name="first")
    story.memory.forget(unsaid, context=story.context("s_1"), reason="mistake")
    cut = story.write("the pack has bar charts", name="second")
    story.memory.write_many(
        [f"board pack with revenue by region number {n}" for n in range(6)],
        context=story.context("s_1"),
    )
    story.decide(story.recall(policy="similarity"))
    story.fail()
    verdict = story.verdict(Need(record_ids=(cut, unsaid)))
    assert (*shown(verdict), verdict.record_id) == ("write", "retired", unsaid)


def test_every_verdict_says_what_to_do_next(story: Story) -> None:
    makers: list[Callable[[], None]] = [story.say, story.fail]
    for make in makers:
        make()
    assert story.verdict().next_step
