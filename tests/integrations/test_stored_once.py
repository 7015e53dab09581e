"""LangGraph runs a node again on resume, retry and replay: nothing may be stored twice.

The extractor here words the memory differently at every call, as models do.
"""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from graph_parts import CONTEXT, TalkState, rewording_extractor
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, RetryPolicy, Send, interrupt

from memplugin import Memory, MemoryContext
from memplugin.errors import StoreError
from memplugin.integrations.langgraph import create_remember_node
from memplugin.storage.vector.chroma import ChromaIndex
from memplugin.testing import InMemoryIndex, ScriptedChatModel, memory_for_tests

SAID = {"messages": [HumanMessage("I like tea"), HumanMessage("What time is it?")]}
THREAD: RunnableConfig = {"configurable": {"thread_id": "th_1"}}
TRY_THREE_TIMES = RetryPolicy(max_attempts=3, initial_interval=0.0, jitter=False)


@pytest.fixture(params=["in memory", "chroma"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    """Ledger in a file; both kinds of index."""
    index = (
        ChromaIndex.open(tmp_path / "chroma", dimension=64, store_id="st")
        if request.param == "chroma"
        else InMemoryIndex()
    )
    with memory_for_tests(f"sqlite:///{tmp_path / 'ledger.db'}", index=index) as opened:
        yield opened


def assert_stored_once(memory: Memory) -> None:
    rows = memory.statistics()["rows"]
    assert (rows["memory_records"], rows["proposals"], rows["turns"]) == (1, 1, 2)
    assert memory.recall("tea", context=CONTEXT).shown == 1


def graph_of(node: Any, **options: Any) -> Any:
    builder = StateGraph(TalkState, context_schema=MemoryContext)
    builder.add_node("node", node, **options)
    builder.add_edge(START, "node")
    builder.add_edge("node", END)
    return builder.compile(checkpointer=InMemorySaver())


class LosingAnswers:
    """A ledger's ``settle`` whose answer is lost for the first calls, after the commit."""

    def __init__(self, memory: Memory, monkeypatch: pytest.MonkeyPatch, losses: int) -> None:
        self.losses, self.calls = losses, 0
        self._settle = memory.backend.ledger.writes.settle
        monkeypatch.setattr(memory.backend.ledger.writes, "settle", self)

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        receipts = self._settle(*args)
        if self.calls <= self.losses:
            raise StoreError("the connection was lost: try again.")
        return receipts


async def test_a_node_retried_three_times_stores_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    lossy = LosingAnswers(memory, monkeypatch, losses=2)
    graph = graph_of(
        create_remember_node(memory, rewording_extractor()), retry_policy=TRY_THREE_TIMES
    )
    end = await graph.ainvoke(SAID, THREAD, context=CONTEXT)
    assert lossy.calls == 1  # the second attempt sees what the first stored
    assert [receipt["ruling"] for receipt in end["remembered"]] == ["accepted"]
    assert_stored_once(memory)


async def test_a_node_that_timed_out_and_goes_on_in_its_thread_stores_once(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
):
    settle, late, done = memory.backend.ledger.writes.settle, threading.Event(), threading.Event()
    first = iter([True])

    def slow(*args: Any) -> Any:
        if next(first, False):
            late.wait(20)
            try:
                return settle(*args)
            finally:
                done.set()
        return settle(*args)

    monkeypatch.setattr(memory.backend.ledger.writes, "settle", slow)
    remember = create_remember_node(memory, rewording_extractor())
    graph = graph_of(remember, timeout=0.5, retry_policy=TRY_THREE_TIMES)
    end = await graph.ainvoke(SAID, THREAD, context=CONTEXT)
    late.set()
    assert await asyncio.to_thread(done.wait, 20)
    assert [receipt["ruling"] for receipt in end["remembered"]] == ["accepted"]
    assert_stored_once(memory)


def test_a_node_that_fails_after_storing_stores_once(memory: Memory):
    remember = create_remember_node(memory, rewording_extractor())
    attempts: list[Any] = []

    def host(state: TalkState) -> Any:
        attempts.append(remember.invoke(state)["remembered"])
        if len(attempts) < 3:
            raise ConnectionError("the host's own service is down")
        return {"remembered": attempts[-1]}

    end = graph_of(host, retry_policy=TRY_THREE_TIMES).invoke(SAID, THREAD, context=CONTEXT)
    assert attempts[0] == attempts[1] == end["remembered"]
    assert_stored_once(memory)


async def test_a_node_that_is_interrupted_and_resumed_stores_once(memory: Memory):
    remember = create_remember_node(memory, rewording_extractor())

    async def host(state: TalkState) -> Any:
        update = await remember.ainvoke(state)
        interrupt("go on?")
        return update

    graph = graph_of(host)
    paused = await graph.ainvoke(SAID, THREAD, context=CONTEXT)
    assert paused["__interrupt__"][0].value == "go on?"
    end = await graph.ainvoke(Command(resume="yes"), THREAD, context=CONTEXT)
    assert len(end["remembered"]) == 1
    assert_stored_once(memory)


def test_a_node_after_an_interrupt_finds_its_context_again(memory: Memory):
    builder = StateGraph(TalkState, context_schema=MemoryContext)
    builder.add_node("ask", lambda state: interrupt("may I?") and {})
    builder.add_node("remember", create_remember_node(memory, rewording_extractor()))
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "remember")
    graph = builder.compile(checkpointer=InMemorySaver())
    graph.invoke(SAID, THREAD, context=CONTEXT)
    end = graph.invoke(Command(resume="yes"), THREAD, context=CONTEXT)
    assert len(end["remembered"]) == 1
    assert_stored_once(memory)


def test_a_replay_from_every_checkpoint_stores_once(memory: Memory):
    graph = graph_of(create_remember_node(memory, rewording_extractor()))
    first = graph.invoke(SAID, THREAD, context=CONTEXT)
    for snapshot in list(graph.get_state_history(THREAD)):
        again = graph.invoke(None, snapshot.config, context=CONTEXT)
        assert again.get("remembered", first["remembered"]) == first["remembered"]
    assert_stored_once(memory)


def test_a_conversation_that_has_grown_is_read_only_where_it_is_new(memory: Memory):
    model = rewording_extractor()
    graph = graph_of(create_remember_node(memory, model))
    graph.invoke({"messages": SAID["messages"][:1]}, THREAD, context=CONTEXT)
    graph.invoke(SAID, THREAD, context=CONTEXT)
    graph.invoke(SAID, THREAD, context=CONTEXT)
    assert len(model.calls) == 2
    assert memory.recall("tea", context=CONTEXT).shown == 1


# ---------------------------------------------------------------- two branches at once


class Branches(TypedDict, total=False):
    messages: list[Any]
    remembered: Annotated[list[Any], operator.add]


def together(extractor: ScriptedChatModel) -> ScriptedChatModel:
    """The same model, whose calls wait until both branches have made theirs."""
    both = threading.Barrier(2, timeout=20)

    def reply(messages: Any) -> Any:
        both.wait()
        return extractor.script(messages)

    return ScriptedChatModel(reply)


def two_edges(memory: Memory, model: ScriptedChatModel) -> Any:
    builder = StateGraph(Branches, context_schema=MemoryContext)
    for name in ("left", "right"):
        builder.add_node(name, create_remember_node(memory, model))
        builder.add_edge(START, name)
    return builder.compile()


def two_sends(memory: Memory, model: ScriptedChatModel) -> Any:
    builder = StateGraph(Branches, context_schema=MemoryContext)
    builder.add_node("remember", create_remember_node(memory, model))
    builder.add_conditional_edges(START, lambda state: [Send("remember", state)] * 2, ["remember"])
    return builder.compile()


@pytest.mark.parametrize("make", [two_edges, two_sends])
def test_two_branches_at_once_store_once(memory: Memory, make: Any):
    end = make(memory, together(rewording_extractor())).invoke(SAID, context=CONTEXT)
    first, second = end["remembered"]
    assert first["record_id"] == second["record_id"]
    assert_stored_once(memory)


@pytest.mark.parametrize("make", [two_edges, two_sends])
async def test_two_awaited_branches_at_once_store_once(memory: Memory, make: Any):
    graph = make(memory, together(rewording_extractor()))
    end = await graph.ainvoke(SAID, context=CONTEXT)
    first, second = end["remembered"]
    assert first["record_id"] == second["record_id"]
    assert_stored_once(memory)


def test_branches_without_a_reducer_may_leave_the_state_alone(memory: Memory):
    builder = StateGraph(TalkState, context_schema=MemoryContext)
    for name in ("left", "right"):
        node = create_remember_node(memory, rewording_extractor(), output_key=None)
        builder.add_node(name, node)
        builder.add_edge(START, name)
    assert "remembered" not in builder.compile().invoke(SAID, context=CONTEXT)
    assert_stored_once(memory)
