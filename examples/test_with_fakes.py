"""A first test of an agent with memory: no key, no network, no model to load.

Run it: ``pytest examples/test_with_fakes.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import pytest
from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from memplugin import Memory, MemoryContext
from memplugin.integrations.langgraph import create_decide_node, create_recall_node
from memplugin.testing import ScriptedChatModel, SpanCapture, memory_for_tests

CONTEXT = MemoryContext(workspace_id="ws_1", session_id="s_1", task_id="t_1")


class Reply(BaseModel):
    """What the agent under test decides."""

    drink: str


class State(TypedDict, total=False):
    """State of the agent under test."""

    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]


def agent(memory: Memory, model: ScriptedChatModel) -> Any:
    """The agent under test; in your project it is imported."""
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(memory))
    builder.add_node("decide", create_decide_node(memory, model, answer=Reply))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "decide")
    return builder.compile()


def reply(drink: str) -> dict[str, Any]:
    """One reply of the scripted model, in the form that every decision has."""
    return {
        "memory_reasoning": "It says so.",
        "considered": "water",
        "cited_record_ids": [],
        "drink": drink,
    }


@pytest.fixture
def spans() -> SpanCapture:
    return SpanCapture()


@pytest.fixture
def memory(spans: SpanCapture) -> Iterator[Memory]:
    with memory_for_tests(tracer_provider=spans.provider) as memory:
        yield memory


def test_what_was_stored_is_shown_to_the_model(memory: Memory) -> None:
    memory.write("The guest prefers tea.", context=CONTEXT)
    model = ScriptedChatModel([reply("tea")])
    state = agent(memory, model).invoke({"question": "What will you drink?"}, context=CONTEXT)
    assert "The guest prefers tea." in model.calls[0][-1].text
    assert state["decision"]["answer"] == {"drink": "tea"}


def test_every_hop_leaves_a_span(memory: Memory, spans: SpanCapture) -> None:
    model = ScriptedChatModel([reply("water")])
    agent(memory, model).invoke({"question": "What will you drink?"}, context=CONTEXT)
    assert {"search_memory", "use_memory"} <= {span.name for span in spans.spans}
