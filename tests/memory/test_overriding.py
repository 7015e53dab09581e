"""Decisions that go against memory: flagged, asked again or enforced, and told apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext, Need
from memplugin.errors import ConfigError
from memplugin.testing import ScriptedChatModel, SpanCapture

ELM = MemoryContext("ws", "s_1", task_id="t_1", scope={"trade": "pest", "property": "12 Elm St"})

Opened = Callable[..., Memory]


class VendorChoice(BaseModel):
    """Whom to send."""

    vendor_id: Literal["primex", "dever", "acme"]


def reply(vendor_id: str = "dever", **changed: Any) -> dict[str, Any]:
    return {
        "memory_reasoning": f"{vendor_id} does pests.",
        "considered": "nobody",
        "cited_record_ids": [],
        "vendor_id": vendor_id,
        **changed,
    }


def claim(memory: Memory, vendor: str = "primex", **more: Any) -> str:
    """Stores a claim; returns its record's id."""
    content = more.pop("content", f"{vendor} handles wasps at this property.")
    written = memory.write(content, context=ELM, claim={"vendor_id": vendor}, **more)
    return str(written.record_id)


def decide(memory: Memory, *script: Any, context: MemoryContext = ELM, **more: Any) -> Any:
    model = ScriptedChatModel(list(script))
    decision = memory.decide(
        "Wasps: whom to send?", context=context, answer=VendorChoice, model=model, **more
    )
    assert len(model.calls) == len(script)
    return decision


EVERY_POLICY = pytest.mark.parametrize("policy", ["flag", "ask_again", "enforce"])


# ---------------------------------------------------------------- flag


def test_an_answer_against_a_pinned_claim_is_flagged_and_stands(opened: Opened) -> None:
    memory = opened()
    record_id = claim(memory, pinned=True, confidence=0.5, scope={"trade": "pest"})
    decision = decide(memory, reply("dever"))
    assert (decision.answer, decision.flags) == (
        VendorChoice(vendor_id="dever"),
        ("memory_override",),
    )
    (override,) = decision.overrides
    assert (override.field, override.answer, override.claimed) == ("vendor_id", "dever", "primex")
    assert (override.record_id, override.pinned, override.scope) == (
        record_id,
        True,
        {"trade": "pest"},
    )
    assert (override.rank, override.shown, override.enforced) == (1, True, False)


@EVERY_POLICY
def test_an_answer_in_line_with_the_narrowest_claim_is_not_flagged(
    opened: Opened, policy: Any
) -> None:
    memory = opened(on_override=policy)
    claim(memory, "primex", pinned=True)
    claim(memory, "dever", scope={"property": "12 Elm St"}, confidence=0.6)
    decision = decide(memory, reply("dever"))
    assert (decision.flags, decision.overrides) == ((), ())


@EVERY_POLICY
def test_where_no_claim_applies_nothing_is_flagged(opened: Opened, policy: Any) -> None:
    memory = opened(on_override=policy)
    claim(memory, "primex", pinned=True, scope={"trade": "drains"})
    claim(memory, "primex", confidence=0.79, scope={"trade": "pest"})
    memory.write("primex", context=ELM, kind="fact")
    elsewhere = MemoryContext("ws_2", "s", scope=ELM.scope)
    memory.write("x", context=elsewhere, claim={"vendor_id": "primex"}, pinned=True)
    decision = decide(memory, reply("dever"))
    assert (decision.answer.vendor_id, decision.flags) == ("dever", ())


def test_a_retired_claim_no_longer_counts(opened: Opened) -> None:
    memory = opened()
    record_id = claim(memory, pinned=True)
    memory.forget(record_id, context=ELM, reason="asked to")
    assert decide(memory, reply("dever")).flags == ()


def test_a_users_claim_counts_for_that_user_alone(opened: Opened) -> None:
    memory = opened()
    jo = MemoryContext("ws", "s_2", user_id="jo")
    memory.write("Jo wants primex.", context=jo, claim={"vendor_id": "primex"}, pinned=True)
    assert decide(memory, reply("dever"), context=jo).flags == ("memory_override",)
    other = MemoryContext("ws", "s_3", user_id="kim")
    assert decide(memory, reply("dever"), context=other).flags == ()


def test_claims_that_the_recall_did_not_bring_count_too(opened: Opened) -> None:
    memory = opened()
    claim(memory, pinned=True, content="entirely unrelated words")
    facts = memory.recall("wasps", context=ELM, kinds=["tip"])
    (override,) = decide(memory, reply("dever"), retrieval=facts).overrides
    assert (override.rank, override.shown) == (None, False)


def test_how_sure_a_claim_must_be_is_configured(opened: Opened) -> None:
    memory = opened(override_confidence=0.95)
    claim(memory, confidence=0.9)
    assert decide(memory, reply("dever")).flags == ()


def test_a_decision_without_an_answer_goes_against_nothing(opened: Opened) -> None:
    memory = opened(on_override="ask_again", decide_retries=0)
    claim(memory, pinned=True)
    decision = decide(memory, "no JSON")
    assert (decision.status, decision.overrides) == ("no_decision", ())


def test_a_policy_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match="use one of flag, ask_again, enforce"):
        MemoryConfig(on_override="forbid")  # pyright: ignore[reportArgumentType] -- that is the test


# ---------------------------------------------------------------- ask again


def test_asked_again_the_model_sees_the_claim_and_may_follow_it(opened: Opened) -> None:
    memory = opened(on_override="ask_again", k_standing=0)
    record_id = claim(memory, pinned=True, content="Primex <handles> wasps.")
    model = ScriptedChatModel([reply("dever"), reply("primex", cited_record_ids=[record_id])])
    found = memory.recall("x", context=ELM, kinds=["tip"])
    decision = memory.decide(
        "Wasps?", context=ELM, answer=VendorChoice, model=model, retrieval=found
    )
    first, second = model.calls
    assert [m.content for m in second[: len(first)]] == [m.content for m in first]
    own, asking = second[len(first) :]
    assert '"vendor_id": "dever"' in str(own.content)
    assert f'<memory id="{record_id}"' in str(asking.content)
    assert "Primex &lt;handles&gt; wasps." in str(asking.content)
    assert decision.answer == VendorChoice(vendor_id="primex")
    assert (decision.flags, decision.overrides) == ((), ())  # also no unknown_citation
    assert [r.status for r in decision.replies] == ["decided", "decided"]
    assert [[m["data"]["content"] for m in r.asked] for r in decision.replies] == [
        [],
        [own.content, asking.content],
    ]
    assert decision.raw == decision.replies[1].raw


def test_an_answer_that_still_differs_is_flagged_after_one_more_call(opened: Opened) -> None:
    memory = opened(on_override="ask_again")
    claim(memory, pinned=True)
    decision = decide(memory, reply("dever"), reply("acme", memory_reasoning="They asked for it."))
    assert (decision.answer.vendor_id, decision.flags) == ("acme", ("memory_override",))
    assert (decision.reasoning, decision.overrides[0].answer) == ("They asked for it.", "acme")


@pytest.mark.parametrize(
    "second",
    [
        "plain text",
        AIMessage("", response_metadata={"finish_reason": "length"}),
        AIMessage("", additional_kwargs={"refusal": "no"}),
        RuntimeError("down"),
    ],
    ids=["no decision", "truncated", "refused", "error"],
)
def test_when_the_second_reply_is_useless_the_first_answer_stands_flagged(
    opened: Opened, second: Any
) -> None:
    memory = opened(on_override="ask_again")
    claim(memory, pinned=True)
    decision = decide(memory, reply("dever"), second)
    assert (decision.status, decision.answer.vendor_id) == ("decided", "dever")
    assert (decision.flags, len(decision.replies)) == (("memory_override",), 2)
    assert decision.raw == decision.replies[0].raw


def test_where_citations_are_offered_the_claims_shown_again_are_among_them(opened: Opened) -> None:
    memory = opened(on_override="ask_again", cite_by_enum=True)
    record_id = claim(memory, pinned=True)
    found = memory.recall("x", context=ELM, kinds=["tip"])
    decision = decide(memory, reply("dever"), reply("primex"), retrieval=found)
    offered = decision.answer_schema["properties"]["cited_record_ids"]["items"]["enum"]
    assert offered == [record_id]


async def test_asking_again_works_async_too(opened: Opened) -> None:
    memory = opened(on_override="ask_again")
    claim(memory, pinned=True)
    model = ScriptedChatModel([reply("dever"), reply("primex")])
    decision = await memory.adecide("Wasps?", context=ELM, answer=VendorChoice, model=model)
    assert (decision.answer, decision.flags) == (VendorChoice(vendor_id="primex"), ())


# ---------------------------------------------------------------- enforce


def test_enforced_the_claims_value_stands_and_both_flags_say_so(opened: Opened) -> None:
    memory = opened(on_override="enforce")
    claim(memory, confidence=0.8)
    decision = decide(memory, reply("dever"))
    assert decision.answer == VendorChoice(vendor_id="primex")
    assert decision.flags == ("memory_override", "memory_enforced")
    (override,) = decision.overrides
    assert (override.answer, override.claimed, override.enforced) == ("dever", "primex", True)
    assert decision.chosen_support.id == override.record_id
    assert "dever" in str(decision.raw)


def test_a_claimed_value_that_the_answer_does_not_take_leaves_the_models_answer(
    opened: Opened,
) -> None:
    memory = opened(on_override="enforce")
    record_id = claim(memory, "nobody", pinned=True)
    decision = decide(memory, reply("dever"))
    assert (decision.answer.vendor_id, decision.flags) == ("dever", ("memory_override",))
    assert decision.detail.startswith(f"what {record_id} claims could not be enforced")


# ---------------------------------------------------------------- where it is seen


@EVERY_POLICY
def test_what_went_against_memory_is_kept_in_the_ledger(opened: Opened, policy: Any) -> None:
    memory = opened(on_override=policy)
    claim(memory, pinned=True)
    script = [reply("dever")] * (2 if policy == "ask_again" else 1)
    decision = decide(memory, *script)
    kept = memory.backend.ledger.decisions.get("ws", decision.id)
    assert kept is not None
    assert kept.overrides == decision.overrides
    assert kept.replies == decision.replies
    assert memory.task_record("t_1", workspace_id="ws").use.overrides == decision.overrides


def test_the_flag_and_the_records_are_on_the_span_and_no_value_is(opened: Opened) -> None:
    capture = SpanCapture()
    memory = opened(tracer_provider=capture.provider)
    record_id = claim(memory, "primex", pinned=True)
    decide(memory, reply("dever"))
    (attributes,) = capture.attributes("use_memory")
    assert attributes["memplugin.decision.flags"] == ("memory_override",)
    assert attributes["memplugin.use.override.record_ids"] == (record_id,)
    assert '"shown":true' in attributes["memplugin.use.overrides"]
    assert "primex" not in attributes["memplugin.use.overrides"]


@pytest.mark.parametrize("policy", ["flag", "ask_again"])
def test_forgetting_a_record_leaves_nothing_of_its_claim(opened: Opened, policy: Any) -> None:
    memory = opened(on_override=policy)
    record_id = claim(memory, "primex", pinned=True, content="Nobody but 'Primex' & co.")
    script = [reply("dever", memory_reasoning="…")] * (2 if policy == "ask_again" else 1)
    decision = decide(memory, *script)
    memory.forget(record_id, context=ELM, reason="asked to")
    kept = memory.backend.ledger.decisions.get("ws", decision.id)
    assert kept is not None
    assert [o.claimed for o in kept.overrides] == [None]
    assert "primex" not in str(kept.replies).casefold()
    assert "primex" not in str(kept.sent).casefold()


# ---------------------------------------------------------------- the two bugs of the seed


def fill(memory: Memory) -> None:
    memory.write_many([f"wasps whom to send note {n}" for n in range(3)], context=ELM)


def test_the_right_record_cut_and_the_right_record_ignored_are_told_apart(opened: Opened) -> None:
    memory = opened(policy="similarity")
    fill(memory)
    record_id = claim(memory, pinned=True, content="pests")
    need = Need(record_ids=(record_id,))

    cut = decide(memory, reply("dever"))
    memory.report(context=ELM, succeeded=False)
    verdict = memory.diagnose("t_1", workspace_id="ws", need=need)
    assert (verdict.stage, verdict.cause, verdict.rank) == ("retrieval", "below_cutoff", 4)
    assert (cut.overrides[0].rank, cut.overrides[0].shown) == (4, False)
    assert any("memory_override" in e and "not shown at rank 4" in e for e in verdict.evidence)

    found = memory.recall("Wasps: whom to send?", context=ELM, k=4)
    shown = decide(memory, reply("dever"), retrieval=found)
    verdict = memory.diagnose("t_1", workspace_id="ws", need=need)
    assert (verdict.stage, verdict.cause) == ("use", "overridden")
    assert (shown.flags, shown.overrides[0].shown) == (("memory_override",), True)
    assert any("flagged memory_override" in e for e in verdict.evidence)


def test_the_right_answer_without_its_record_is_flagged_with_the_records_rank(
    opened: Opened,
) -> None:
    memory = opened(policy="similarity")
    fill(memory)
    record_id = claim(memory, content="pests")
    decision = decide(memory, reply("primex"))
    assert decision.flags == ("support_not_shown",)
    assert (decision.chosen_support.id, decision.chosen_support.rank) == (record_id, 4)
    need = Need(record_ids=(record_id,), corrected=True)
    verdict = memory.diagnose("t_1", workspace_id="ws", need=need)
    assert (verdict.stage, verdict.cause, verdict.rank) == ("retrieval", "below_cutoff", 4)
    assert any("support_not_shown" in e for e in verdict.evidence)


def test_without_a_need_diagnose_names_what_the_decision_went_against(opened: Opened) -> None:
    memory = opened()
    record_id = claim(memory, pinned=True)
    decide(memory, reply("dever"))
    memory.report(context=ELM, succeeded=False)
    verdict = memory.diagnose("t_1", workspace_id="ws", need=Need())
    assert (verdict.stage, verdict.cause) == ("undetermined", "no_need")
    assert any(record_id in e and "pinned, shown at rank 1" in e for e in verdict.evidence)


def test_an_enforced_memory_that_was_wrong_was_misapplied(opened: Opened) -> None:
    memory = opened(on_override="enforce")
    record_id = claim(memory, pinned=True)
    decide(memory, reply("dever"))
    memory.report(context=ELM, succeeded=False)
    need = Need(record_ids=(record_id,))
    verdict = memory.diagnose("t_1", workspace_id="ws", need=need)
    assert (verdict.stage, verdict.cause) == ("use", "misapplied")
    assert "it was enforced, and the answer is still wrong" in verdict.evidence
