"""Deciding through ``Memory``: every reply ends in its own status or flag, and is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from langchain_core.messages import AIMessage
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext, decision_schema
from memplugin.errors import ConfigError, SchemaError
from memplugin.testing import ScriptedChatModel, memory_for_tests

CONTEXT = MemoryContext("ws", "s_1", task_id="t_1")


class VendorChoice(BaseModel):
    """Whom to send."""

    vendor_id: str


def reply(**changed: Any) -> dict[str, Any]:
    return {
        "memory_reasoning": "Primex handles pests.",
        "considered": "Dever",
        "cited_record_ids": [],
        "vendor_id": "primex",
        **changed,
    }


def decide(memory: Memory, *script: Any, **arguments: Any) -> Any:
    return memory.decide(
        "Wasps: whom to send?",
        context=CONTEXT,
        answer=VendorChoice,
        model=ScriptedChatModel(list(script)),
        **arguments,
    )


def test_a_decision_has_an_answer_of_the_callers_model(memory: Memory) -> None:
    decision = decide(memory, reply())
    assert decision.status == "decided"
    assert decision.answer == VendorChoice(vendor_id="primex")
    assert (decision.reasoning, decision.considered) == ("Primex handles pests.", "Dever")
    assert decision.order_preserved is True
    assert decision.flags == ()


CUT_OFF = AIMessage(
    "",
    tool_calls=[{"name": "x", "args": reply(vendor_id="pri"), "id": "1"}],
    response_metadata={"finish_reason": "length"},
)
REFUSED = AIMessage("", additional_kwargs={"refusal": "I can't."})


@pytest.mark.parametrize(
    ("script", "status", "calls"),
    [
        ([CUT_OFF], "truncated", 1),
        ([REFUSED], "refused", 1),
        (["", ""], "no_decision", 2),
        (["Send Primex.", "Send Primex."], "no_decision", 2),
        ([reply(vendor_id=7), reply(vendor_id=7)], "invalid", 2),
        ([RuntimeError("down"), RuntimeError("down")], "error", 2),
    ],
    ids=["cut off", "refused", "empty", "no call", "invalid", "error"],
)
def test_a_reply_that_is_none_has_its_status_no_answer_and_is_kept(
    memory: Memory, script: list[Any], status: str, calls: int
) -> None:
    decision = decide(memory, *script)
    assert (decision.status, decision.answer, len(decision.replies)) == (status, None, calls)
    assert decision.detail
    kept = memory.backend.ledger.decisions.get("ws", decision.id)
    assert kept is not None
    assert (kept.status, kept.raw, kept.sent) == (status, decision.raw, decision.sent)


def test_a_second_try_that_works_is_a_decision_and_both_replies_are_kept(memory: Memory) -> None:
    decision = decide(memory, "Send Primex.", reply())
    assert decision.status == "decided"
    assert [one.status for one in decision.replies] == ["no_decision", "decided"]


def test_a_reply_with_the_answer_first_is_flagged(memory: Memory) -> None:
    late = {"vendor_id": "primex", **{k: v for k, v in reply().items() if k != "vendor_id"}}
    decision = decide(memory, late)
    assert decision.status == "decided"
    assert decision.order_preserved is False
    assert decision.flags == ("reasoning_after_answer",)


def test_a_citation_that_was_not_shown_is_flagged(memory: Memory) -> None:
    decision = decide(memory, reply(cited_record_ids=["m_made_up"]))
    assert decision.flags == ("unknown_citation",)


def test_a_memory_forgotten_between_recall_and_decision_is_flagged(memory: Memory) -> None:
    written = memory.write("Primex handles wasps", context=CONTEXT)
    retrieval = memory.recall("wasps", context=CONTEXT)
    memory.forget(written.record_id or "", context=CONTEXT, reason="asked to")
    decision = decide(memory, reply(cited_record_ids=[written.record_id]), retrieval=retrieval)
    assert "stale_memory" in decision.flags


def test_the_right_record_that_was_cut_is_told_with_its_rank(memory: Memory) -> None:
    memory.write_many([f"wasps whom to send {n}" for n in range(3)], context=CONTEXT)
    right = memory.write("pests", context=CONTEXT, claim={"vendor_id": "primex"})
    retrieval = memory.recall("wasps whom to send", context=CONTEXT, policy="similarity")
    decision = decide(memory, reply(), retrieval=retrieval)
    support = decision.chosen_support
    assert support is not None
    assert (support.id, support.rank, support.shown) == (right.record_id, 4, False)
    assert decision.flags == ("support_not_shown",)
    assert (decision.memory_total, decision.memory_shown) == (4, 3)


def test_what_was_sent_is_kept_exactly_and_holds_what_was_shown(memory: Memory) -> None:
    memory.write("Primex handles wasps", context=CONTEXT)
    model = ScriptedChatModel([reply()])
    decision = memory.decide(
        "Wasps?", context=CONTEXT, answer=VendorChoice, model=model, retrieval=None
    )
    assert [m["data"]["content"] for m in decision.sent] == [m.content for m in model.calls[0]]
    assert "Primex handles wasps" in decision.sent[-1]["data"]["content"]


def test_the_raw_reply_keeps_the_order_of_its_keys_in_the_ledger(memory: Memory) -> None:
    late = {"vendor_id": "primex", **{k: v for k, v in reply().items() if k != "vendor_id"}}
    decision = decide(memory, late)
    kept = memory.backend.ledger.decisions.get("ws", decision.id)
    assert kept is not None
    assert kept.raw is not None
    arguments = kept.raw["data"]["additional_kwargs"]["tool_calls"][0]["function"]["arguments"]
    assert list(json.loads(arguments)) == list(late)


def test_a_retrieval_is_taken_by_its_id_and_an_unknown_one_is_refused(memory: Memory) -> None:
    retrieval = memory.recall("wasps", context=CONTEXT)
    assert decide(memory, reply(), retrieval=retrieval.id).retrieval_id == retrieval.id
    with pytest.raises(ConfigError, match="no retrieval 'r_none'"):
        decide(memory, reply(), retrieval="r_none")
    other = MemoryContext("other", "s_1")
    with pytest.raises(ConfigError, match="of workspace 'ws'"):
        memory.decide(
            "?",
            context=other,
            answer=VendorChoice,
            model=ScriptedChatModel([reply()]),
            retrieval=retrieval,
        )


def test_reasoning_after_the_answer_is_refused_before_anything_is_asked(memory: Memory) -> None:
    class Late(BaseModel):
        """Reasons too late."""

        vendor_id: str
        reasoning: str

    model = ScriptedChatModel([])
    with pytest.raises(SchemaError, match="reasoning"):
        memory.decide("?", context=CONTEXT, answer=Late, model=model)
    assert model.calls == []


async def test_an_async_decision_is_the_same(memory: Memory) -> None:
    decision = await memory.adecide(
        "Wasps?", context=CONTEXT, answer=VendorChoice, model=ScriptedChatModel([reply()])
    )
    assert decision.answer == VendorChoice(vendor_id="primex")
    assert memory.backend.ledger.decisions.get("ws", decision.id) is not None


# ---------------------------------------------------------------- a real, small model


class Basis(BaseModel):
    """How revenue is reported."""

    basis: Literal["gross", "net of tax"]


@pytest.fixture(scope="module")
def small() -> Iterator[Any]:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: make install")
    from memplugin.cli.models import local_chat_model

    with local_chat_model(max_tokens=300) as model:
        yield model


def test_a_real_model_decides_in_the_schemas_order_and_cites_what_was_shown(small: Any) -> None:
    config = MemoryConfig(floor=-1.0, max_reasoning_chars=120, cite_by_enum=True)
    with memory_for_tests(config=config) as memory:
        memory.write("Revenue is reported net of tax.", context=CONTEXT, kind="preference")
        decision = memory.decide(
            "How is revenue reported?", context=CONTEXT, answer=Basis, model=small
        )
    assert decision.status == "decided"
    assert decision.order_preserved is True
    assert "unknown_citation" not in decision.flags
    assert decision.answer is not None
    assert decision.answer.basis in ("gross", "net of tax")


def test_a_real_reply_cut_by_the_token_limit_is_truncated_and_kept(small: Any) -> None:
    short = small.model_copy(update={"max_tokens": 12})
    with memory_for_tests() as memory:
        decision = memory.decide("How?", context=CONTEXT, answer=Basis, model=short)
        kept = memory.backend.ledger.decisions.get("ws", decision.id)
    assert (decision.status, decision.answer) == ("truncated", None)
    assert kept is not None
    assert kept.raw is not None


def test_a_real_model_without_tool_calls_makes_no_decision(small: Any) -> None:
    config = MemoryConfig(structured_output={"method": "function_calling"}, decide_retries=0)
    with memory_for_tests(config=config) as memory:
        decision = memory.decide("How?", context=CONTEXT, answer=Basis, model=small)
    assert decision.status in ("no_decision", "truncated")
    assert decision.answer is None


def test_a_schema_made_by_the_caller_is_taken_as_it_is(memory: Memory) -> None:
    schema: Any = decision_schema(VendorChoice, max_reasoning_chars=50)
    decision = memory.decide(
        "?", context=CONTEXT, answer=schema, model=ScriptedChatModel([reply()])
    )
    assert decision.answer == VendorChoice(vendor_id="primex")
    assert decision.answer_schema["properties"]["memory_reasoning"]["maxLength"] == 50
