from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ChatMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.write.turns import numbered_turns

CONTEXT = MemoryContext("ws_1", "s_1", task_id="t_9")
NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def turns_of(*messages, context=CONTEXT):
    return numbered_turns(messages, context=context, now=NOON)


def said(*messages):
    return [(turn.role, turn.text) for turn in turns_of(*messages)]


def test_messages_and_dicts_become_turns_with_the_same_roles():
    assert said(
        HumanMessage("a"),
        AIMessage("b"),
        ToolMessage("c", tool_call_id="1"),
        AIMessageChunk(content="d"),
        ChatMessage(content="e", role="user"),
        {"role": "human", "content": "f"},
        {"role": "assistant", "content": "g"},
    ) == [
        ("user", "a"),
        ("assistant", "b"),
        ("tool", "c"),
        ("assistant", "d"),
        ("user", "e"),
        ("user", "f"),
        ("assistant", "g"),
    ]


def test_the_application_s_own_words_are_left_out():
    assert said(
        SystemMessage("Be brief."),
        {"role": "developer", "content": "Be kind."},
        {"role": "user", "content": "hi"},
    ) == [("user", "hi")]


def test_text_blocks_are_joined_and_images_left_out():
    blocks = [
        {"type": "text", "text": "look:"},
        {"type": "image_url", "image_url": {"url": "data:…"}},
        {"type": "reasoning", "text": "hmm"},
        "here",
    ]

    assert said({"role": "user", "content": blocks}) == [("user", "look:\nhere")]


def test_an_assistant_message_that_only_calls_tools_is_no_turn():
    call = {"name": "f", "args": {}, "id": "1"}

    assert said(AIMessage("", tool_calls=[call])) == []
    assert said({"role": "assistant", "content": None, "tool_calls": [call]}) == []


def test_recalled_memories_are_left_out_and_a_turn_of_nothing_else_with_them():
    block = "<memory-context>The user likes tea.</memory-context>"

    assert said(
        {"role": "user", "content": f"{block}\nWhat now?"}, {"role": "user", "content": block}
    ) == [("user", "What now?")]


def test_text_is_cleaned_before_anything_is_hashed():
    (dirty,) = turns_of({"role": "user", "content": "a\x00b\ud800"})
    (clean,) = turns_of({"role": "user", "content": "ab\ufffd"})

    assert dirty.text == "ab\ufffd"
    assert dirty.id == clean.id


def test_a_turn_carries_session_task_and_time():
    (turn,) = turns_of({"role": "user", "content": "hi"})

    assert (turn.session_id, turn.task_id, turn.said_at) == ("s_1", "t_9", NOON)


def test_the_same_history_gives_the_same_ids_and_a_longer_one_keeps_them():
    first = turns_of(HumanMessage("yes"), AIMessage("ok"), HumanMessage("yes"))
    again = turns_of(HumanMessage("yes"), AIMessage("ok"), HumanMessage("yes"), HumanMessage("x"))

    assert [t.id for t in again[:3]] == [t.id for t in first]
    assert len({t.id for t in again}) == 4


def test_the_same_words_in_another_session_or_workspace_are_other_turns():
    message = HumanMessage("yes")
    ids = {
        turns_of(message, context=MemoryContext(workspace, session))[0].id
        for workspace in ("w1", "w2")
        for session in ("s1", "s2")
    }

    assert len(ids) == 4


@pytest.mark.parametrize(
    ("message", "says"),
    [
        ("hi", r"messages\[1\] is a str"),
        (("user", "hi"), r"messages\[1\] is a tuple"),
        ({"role": "narrator", "content": "hi"}, r"messages\[1\] has the role 'narrator'"),
        ({"content": "hi"}, r"messages\[1\] has the role None"),
        ({"role": "user"}, r"messages\[1\] has no content"),
        ({"role": "user", "content": 3}, r"messages\[1\] has int"),
    ],
)
def test_bad_input_is_an_error_that_names_the_place_and_what_is_expected(message, says):
    with pytest.raises(ConfigError, match=says):
        turns_of(HumanMessage("fine"), message)


@pytest.mark.parametrize("messages", ["hi", HumanMessage("hi"), {"role": "user", "content": "x"}])
def test_one_message_instead_of_a_list_is_an_error(messages):
    with pytest.raises(ConfigError, match="in a list"):
        numbered_turns(messages, context=CONTEXT, now=NOON)


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), st.text())))
def test_ids_are_unique_in_a_conversation_and_the_same_every_time(pairs):
    messages = [{"role": role, "content": text} for role, text in pairs]
    turns = turns_of(*messages)

    assert turns == turns_of(*messages)
    assert len({turn.id for turn in turns}) == len(turns)
    assert all(turn.text and turn.text.encode() for turn in turns)
