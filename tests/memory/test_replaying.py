"""Replay: a stored decision run again, byte for byte or with something changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field, field_validator

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.chat.messages import message_to_json
from memplugin.errors import ConfigError
from memplugin.testing import ScriptedChatModel, SpanCapture, memory_for_tests
from memplugin.text import MEMORY_CLOSE, MEMORY_OPEN
from memplugin.use.prompt import render

CONTEXT = MemoryContext("ws", "s_1", task_id="t_1")
QUESTION = "Wasps: whom to send?"

Opened = Callable[..., Memory]


class VendorChoice(BaseModel):
    """Whom to send."""

    vendor_id: Literal["primex", "dever"] = Field(description="The vendor's id")
    urgent: bool = False


def reply(vendor_id: str = "primex", **changed: Any) -> dict[str, Any]:
    return {
        "memory_reasoning": f"{vendor_id} does pests.",
        "considered": "nobody",
        "cited_record_ids": [],
        "vendor_id": vendor_id,
        "urgent": None,
        **changed,
    }


class Recording(ScriptedChatModel):
    """Keeps the schema and options it was bound with, too."""

    bound: list[Any] = Field(default_factory=list[Any])

    def with_structured_output(self, schema: Any, **options: Any) -> Any:
        self.bound.append((json.dumps(schema), options))
        return super().with_structured_output(schema, **options)


def fill(memory: Memory, texts: int = 4) -> list[str]:
    """Writes memories that rank in their order; returns their ids."""
    words = ["wasps", "whom", "to", "send"]
    contents = [" ".join(words[: 4 - n] + [f"note{n}"] * (n + 1)) for n in range(texts)]
    return [str(r.record_id) for r in memory.write_many(contents, context=CONTEXT)]


def decide(memory: Memory, *script: Any, **more: Any) -> tuple[Any, Recording]:
    model = Recording(list(script) or [reply()])
    decision = memory.decide(QUESTION, context=CONTEXT, answer=VendorChoice, model=model, **more)
    return decision, model


def replay(memory: Memory, decision: Any, *script: Any, **more: Any) -> tuple[Any, Recording]:
    model = Recording(list(script) or [reply()])
    return memory.replay(decision.id, context=CONTEXT, model=model, **more), model


def texts(messages: Any) -> list[Any]:
    return [m.content for m in messages]


# ---------------------------------------------------------------- nothing changed


def test_what_is_sent_again_is_byte_for_byte_what_was_sent(opened: Opened) -> None:
    memory = opened(
        cite_by_enum=True, max_reasoning_chars=90, structured_output={"method": "function_calling"}
    )
    memory.write("Primex “does” <wasps> & \r\n 🦆 nests", context=CONTEXT)
    decision, first = decide(memory)
    done, again = replay(memory, decision)
    assert again.bound == first.bound
    assert again.calls == first.calls
    assert [json.dumps(message_to_json(m)) for m in again.calls[0]] == [
        json.dumps(m) for m in decision.sent
    ]
    assert done.exact is True
    assert (done.same_answer, done.differences, done.notes) == (True, (), ())
    assert replace(done.original, raw=None) == replace(done.replayed, raw=None)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(max_size=60).filter(lambda t: t.strip()), max_size=4), st.text(max_size=80))
def test_any_texts_are_sent_again_as_they_were(contents: list[str], question: str) -> None:
    with memory_for_tests() as memory:
        memory.write_many(contents, context=CONTEXT)
        decision = memory.decide(
            question, context=CONTEXT, answer=VendorChoice, model=ScriptedChatModel([reply()])
        )
        model = ScriptedChatModel([reply()])
        done = memory.replay(decision.id, context=CONTEXT, model=model)
        assert tuple(message_to_json(m) for m in model.calls[0]) == decision.sent
        assert done.exact


def test_another_answer_is_shown_beside_the_first(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory, reply("primex"))
    done, _ = replay(memory, decision, reply("dever", cited_record_ids=["m_x"]))
    assert (done.original.answer, done.replayed.answer) == (
        {"vendor_id": "primex", "urgent": None},
        {"vendor_id": "dever", "urgent": None},
    )
    assert (done.exact, done.same_answer) == (True, False)
    assert [d.what for d in done.differences] == [
        "reasoning",
        "cited_record_ids",
        "answer.vendor_id",
    ]
    (*_, last) = done.differences
    assert (last.original, last.replayed) == ("primex", "dever")


def test_other_words_for_the_same_answer_are_the_same_answer(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    done, _ = replay(memory, decision, reply(memory_reasoning="Because."))
    assert done.same_answer is True
    assert [d.what for d in done.differences] == ["reasoning"]


def test_a_replay_leaves_the_ledger_and_the_traces_as_they_are(opened: Opened) -> None:
    capture = SpanCapture()
    memory = opened(tracer_provider=capture.provider)
    fill(memory)
    decision, _ = decide(memory)
    rows, record = memory.statistics()["rows"], memory.task_record("t_1", workspace_id="ws")
    capture.clear()
    replay(memory, decision, k=2)
    replay(memory, decision, policy="similarity")
    assert memory.statistics()["rows"] == rows
    assert memory.task_record("t_1", workspace_id="ws") == record
    assert capture.spans == []


async def test_an_async_replay_is_the_same(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    done = await memory.areplay(decision.id, context=CONTEXT, model=ScriptedChatModel([reply()]))
    assert (done.exact, done.same_answer, done.differences) == (True, True, ())


def test_a_replay_is_plain_json(opened: Opened) -> None:
    memory = opened()
    done, _ = replay(memory, decide(memory)[0])
    assert type(done).from_json(json.loads(json.dumps(done.to_json()))) == done


# ---------------------------------------------------------------- replies


@pytest.mark.parametrize(
    ("script", "status", "calls"),
    [
        (["no JSON", reply()], "decided", 2),
        ([reply("acme"), reply("acme")], "invalid", 2),
        ([{"memory_reasoning": "…"}, reply()], "decided", 2),
        ([AIMessage("", response_metadata={"finish_reason": "length"})], "truncated", 1),
        ([RuntimeError("down"), RuntimeError("down")], "error", 2),
    ],
)
def test_replies_are_held_against_the_stored_schema_and_retried_as_in_a_decision(
    opened: Opened, script: list[Any], status: str, calls: int
) -> None:
    memory = opened()
    decision, _ = decide(memory)
    done, model = replay(memory, decision, *script)
    assert (done.replayed.status, len(model.calls)) == (status, calls)
    assert (done.replayed.answer is None) is (status != "decided")
    assert done.same_answer is (True if status == "decided" else None)
    assert bool(done.replayed.detail) is (status != "decided")


def test_a_field_with_a_default_may_be_left_out_as_in_a_decision(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    short = {k: v for k, v in reply().items() if k not in ("urgent", "considered")}
    done, _ = replay(memory, decision, {**short, "unasked": 1})
    assert (done.replayed.status, done.same_answer) == ("decided", True)


def test_with_the_class_its_validators_and_defaults_count(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    done, _ = replay(memory, decision, reply(urgent=False), answer=VendorChoice)
    assert done.original.answer == {"vendor_id": "primex", "urgent": False}
    assert (done.same_answer, done.notes) == (True, ())

    class Picky(VendorChoice):
        @field_validator("vendor_id")
        @classmethod
        def _not_dever(cls, value: str) -> str:
            if value == "dever":
                raise ValueError("closed")
            return value

    done, _ = replay(memory, decision, reply("dever"), reply("dever"), answer=Picky)
    assert (done.replayed.status, done.notes) == ("invalid", ())


def test_a_class_that_has_changed_since_is_said(opened: Opened) -> None:
    class Later(BaseModel):
        vendor_id: str

    memory = opened()
    done, _ = replay(memory, decide(memory)[0], answer=Later)
    assert done.exact is True
    assert done.notes == ("Later has changed since: the model was sent the schema that is stored",)


def test_the_order_of_the_keys_is_proven_again(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    done, _ = replay(memory, decision, dict(reversed(reply().items())))
    assert (done.original.order_preserved, done.replayed.order_preserved) == (True, False)


def test_a_decision_that_failed_can_be_replayed(opened: Opened) -> None:
    memory = opened(decide_retries=0)
    decision, _ = decide(memory, "no JSON")
    done, _ = replay(memory, decision, reply())
    assert (done.original.status, done.replayed.status) == ("no_decision", "decided")
    assert done.same_answer is None


# ---------------------------------------------------------------- without


def test_without_a_record_only_its_entry_is_gone(opened: Opened) -> None:
    memory = opened(cite_by_enum=True)
    ids = fill(memory)
    found = memory.recall(QUESTION, context=CONTEXT)
    decision, first = decide(memory, retrieval=found)
    done, again = replay(memory, decision, without=[ids[1]])
    left = [c for c in found.injected if c.record_id != ids[1]]
    assert texts(again.calls[0]) == [
        first.calls[0][0].content,
        str(first.calls[0][1].content).replace(found.text, render(left)),
    ]
    schema = json.loads(again.bound[0][0])
    assert schema["properties"]["cited_record_ids"]["items"]["enum"] == [c.record_id for c in left]
    assert (done.exact, done.changes.without) == (False, (ids[1],))
    assert [d.what for d in done.differences] == ["messages[1]"]


def test_without_the_only_record_the_frame_is_left(opened: Opened) -> None:
    memory = opened(cite_by_enum=True)
    (only,) = fill(memory, 1)
    decision, _ = decide(memory)
    _, model = replay(memory, decision, without=[only])
    text = str(model.calls[0][1].content)
    assert text.startswith(render([]))
    cited = json.loads(model.bound[0][0])["properties"]["cited_record_ids"]
    assert (cited["maxItems"], cited["items"]) == (0, {"type": "string"})


def test_a_record_that_was_not_shown_can_not_be_left_out(opened: Opened) -> None:
    memory = opened()
    *_, cut = fill(memory)
    decision, _ = decide(memory)
    with pytest.raises(ConfigError, match="was not shown to this decision"):
        replay(memory, decision, without=[cut])
    with pytest.raises(ConfigError, match="without is the text"):
        replay(memory, decision, without="m_1")


# ---------------------------------------------------------------- k and policy


@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_another_k_shows_what_that_k_would_have_shown(opened: Opened, k: int) -> None:
    memory = opened(cite_by_enum=True)
    fill(memory, 6)
    memory.write("Net of tax.", context=CONTEXT, kind="preference")
    decision, _ = decide(memory)
    wanted = memory.recall(QUESTION, context=CONTEXT, k=k)
    done, model = replay(memory, decision, k=k)
    assert f"{wanted.text}\n\nThe present request" in str(model.calls[0][1].content)
    schema = json.loads(model.bound[0][0])
    offered = schema["properties"]["cited_record_ids"]["items"]["enum"]
    assert offered == [c.record_id for c in wanted.injected]
    assert done.changes.k == k


def test_the_same_k_changes_nothing(opened: Opened) -> None:
    memory = opened()
    fill(memory)
    decision, _ = decide(memory)
    assert replay(memory, decision, k=3)[0].exact is True


def test_a_floor_holds_for_another_k_too(opened: Opened) -> None:
    memory = opened(floor=0.3)
    fill(memory)
    memory.write("something else entirely", context=CONTEXT)
    decision, _ = decide(memory)
    wanted = memory.recall(QUESTION, context=CONTEXT, k=5)
    assert any(c.cut == "floor" for c in wanted.candidates)
    _, model = replay(memory, decision, k=5)
    assert wanted.text in str(model.calls[0][1].content)


def test_more_than_is_stored_can_not_be_shown_and_that_is_said(opened: Opened) -> None:
    memory = opened()
    fill(memory, 2)
    done, _ = replay(memory, decide(memory)[0], k=9)
    assert done.notes == ("only 2 candidates are stored, so that no more can be shown",)


def test_settings_that_have_changed_since_are_said(opened: Opened) -> None:
    memory = opened()
    fill(memory)
    decision, _ = decide(memory)
    object.__setattr__(memory.backend, "config", MemoryConfig(floor=-1.0, token_budget=1))
    done, _ = replay(memory, decision, k=2)
    assert done.notes[0].startswith("with the store's present settings the same k would not")


def test_k_and_without_go_together(opened: Opened) -> None:
    memory = opened()
    ids = fill(memory)
    decision, _ = decide(memory)
    _, model = replay(memory, decision, k=4, without=[ids[3]])
    text = str(model.calls[0][1].content)
    assert [i for i in ids if f'"{i}"' in text] == ids[:3]


def test_another_policy_recalls_again_as_of_then(opened: Opened) -> None:
    memory = opened(policy="similarity")
    fill(memory)
    memory.write("Net of tax.", context=CONTEXT, kind="preference")
    decision, _ = decide(memory)
    wanted = memory.recall(QUESTION, context=CONTEXT, policy="balanced")
    memory.write("wasps whom to send, later", context=CONTEXT)
    done, model = replay(memory, decision, policy="balanced")
    assert "Net of tax." in wanted.text
    assert wanted.text in str(model.calls[0][1].content)
    assert done.notes == ("1 records written since were left out of the recall",)


def test_a_policy_sees_records_as_sure_as_they_were(opened: Opened) -> None:
    memory = opened()
    (only,) = fill(memory, 1)
    decision, _ = decide(memory)
    memory.observe(only, context=CONTEXT, supports=False, weight=9.0)
    done, _ = replay(memory, decision, policy="similarity")
    assert done.exact is True


def test_what_was_retired_since_is_said(opened: Opened) -> None:
    memory = opened()
    ids = fill(memory)
    decision, _ = decide(memory)
    memory.backend.ledger.records.set_status("ws", ids[0], "evicted", memory.backend.clock.now())
    done, _ = replay(memory, decision, policy="similarity")
    assert done.notes == (f"no longer active, and so not recalled again: {ids[0]}",)
    assert replay(memory, decision, k=3)[0].exact is True


def test_k_and_policy_are_checked_and_need_the_retrieval(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    with pytest.raises(ConfigError, match="k is 0"):
        replay(memory, decision, k=0)
    with pytest.raises(ConfigError, match="no policy 'best'"):
        replay(memory, decision, policy="best")
    with memory.backend.ledger._database.writing() as connection:  # pyright: ignore[reportAttributeAccessIssue] -- as pruning would
        connection.exec_driver_sql("DELETE FROM retrievals")
    with pytest.raises(ConfigError, match="may have been pruned"):
        replay(memory, decision, k=2)
    assert replay(memory, decision)[0].exact is True


def test_a_longest_reasoning_is_asked_for_where_it_is_wanted(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    done, model = replay(memory, decision, max_reasoning_chars=160)
    properties = json.loads(model.bound[0][0])["properties"]
    assert [properties[n].get("maxLength") for n in ("memory_reasoning", "considered")] == [160] * 2
    assert (done.exact, done.changes.max_reasoning_chars) == (False, 160)
    with pytest.raises(ConfigError, match="give at least 1"):
        replay(memory, decision, max_reasoning_chars=0)


# ---------------------------------------------------------------- what happened since


def test_an_unknown_decision_is_refused_and_so_is_another_workspaces(opened: Opened) -> None:
    memory = opened()
    decision, _ = decide(memory)
    for place in (MemoryContext("ws_2", "s"), MemoryContext("w", "s")):
        with pytest.raises(ConfigError, match="there is no decision"):
            memory.replay(decision.id, context=place, model=ScriptedChatModel([]))


def test_a_record_forgotten_since_makes_a_replay_inexact_and_is_named(opened: Opened) -> None:
    memory = opened()
    ids = fill(memory)
    decision, _ = decide(memory)
    memory.forget(ids[0], context=CONTEXT, reason="asked to")
    done, _ = replay(memory, decision)
    assert done.exact is False
    assert done.notes[0].startswith(f"{ids[0]} was forgotten since")


def test_after_an_override_the_call_that_asked_again_is_replayed(opened: Opened) -> None:
    memory = opened(on_override="ask_again")
    written = memory.write(
        "Primex handles wasps.", context=CONTEXT, claim={"vendor_id": "primex"}, pinned=True
    )
    decision, first = decide(memory, reply("dever"), reply("primex"))
    done, again = replay(memory, decision, reply("primex"))
    assert again.calls == [first.calls[1]]
    assert (done.exact, done.same_answer) == (True, True)
    assert "asked again" in done.notes[0]
    _, model = replay(memory, decision, without=[str(written.record_id)])
    assert str(written.record_id) not in str(texts(model.calls[0]))
    sent = str(model.calls[0][-1].content)
    assert (sent.count(MEMORY_OPEN), sent.count(MEMORY_CLOSE)) == (1, 1)


def test_where_the_second_reply_was_useless_the_first_call_is_replayed(opened: Opened) -> None:
    memory = opened(on_override="ask_again")
    memory.write("Primex.", context=CONTEXT, claim={"vendor_id": "primex"}, pinned=True)
    decision, first = decide(memory, reply("dever"), "no JSON")
    _, again = replay(memory, decision, reply("dever"))
    assert again.calls == [first.calls[0]]


def test_after_enforcement_the_models_own_answers_are_compared(opened: Opened) -> None:
    memory = opened(on_override="enforce")
    memory.write("Primex.", context=CONTEXT, claim={"vendor_id": "primex"}, pinned=True)
    decision, _ = decide(memory, reply("dever"))
    assert decision.answer.vendor_id == "primex"
    done, _ = replay(memory, decision, reply("dever"))
    assert (done.original.answer["vendor_id"], done.same_answer) == ("dever", True)
    assert "was set to what" in done.notes[0]


def test_a_model_that_hands_out_parsed_values_leaves_the_kept_answer_to_compare(
    opened: Opened,
) -> None:
    class Parsed(ScriptedChatModel):
        def with_structured_output(self, schema: Any, **_: Any) -> Any:
            from langchain_core.runnables import RunnableLambda

            return RunnableLambda(lambda _: reply("dever", urgent=False))

    memory = opened(on_override="enforce")
    memory.write("Primex.", context=CONTEXT, claim={"vendor_id": "primex"}, pinned=True)
    model: BaseChatModel = Parsed([])
    decision = memory.decide(QUESTION, context=CONTEXT, answer=VendorChoice, model=model)
    done = memory.replay(decision.id, context=CONTEXT, model=model)
    assert done.original.answer == {"vendor_id": "dever", "urgent": False}
    assert (done.same_answer, done.replayed.order_preserved) == (True, None)
