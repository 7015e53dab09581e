from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from graph_parts import (
    CONTEXT,
    PRIMEX,
    QUESTION,
    State,
    TalkState,
    VendorChoice,
    chained,
    choosing_model,
    rewording_extractor,
)
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Send
from pydantic import BaseModel

from memplugin import Memory, MemoryContext
from memplugin.errors import ConfigError, ContextError, SchemaError, StoreError
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_remember_node,
    create_report_node,
)
from memplugin.testing import ScriptedChatModel, memory_for_tests

ASKED = {"question": QUESTION}


def example(memory: Memory) -> StateGraph[Any, Any, Any, Any]:
    """The front door's example."""
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node(
        "recall",
        create_recall_node(memory, query=lambda state: state["question"], k=3, output_key="memory"),
    )
    builder.add_node(
        "decide",
        create_decide_node(memory, choosing_model(), answer=VendorChoice, output_key="decision"),
    )
    builder.add_node("remember", create_remember_node(memory, rewording_extractor(QUESTION)))
    return chained(builder, "recall", "decide", "remember")


def one_node(node: Any, schema: Any = State, context_schema: Any = MemoryContext) -> Any:
    builder = StateGraph(schema, context_schema=context_schema)
    builder.add_node("node", node)
    return chained(builder, "node").compile()


def contents(memory: Memory, context: MemoryContext = CONTEXT) -> list[str]:
    return [c.content for c in memory.recall("tea", context=context, k=20).candidates]


# ---------------------------------------------------------------- the example


def test_the_example_recalls_decides_and_remembers(memory: Memory):
    record_id = memory.write(PRIMEX, context=CONTEXT, claim={"vendor_id": "primex"}).record_id
    end = example(memory).compile().invoke(ASKED, context=CONTEXT)
    assert end.keys() == {"question", "memory", "decision"}
    assert [m["record_id"] for m in end["memory"]["injected"]] == [record_id]
    assert end["decision"]["status"] == "decided"
    assert end["decision"]["answer"] == {"vendor_id": "primex"}
    assert end["decision"]["chosen_support"]["id"] == record_id
    assert end["decision"]["retrieval_id"] == end["memory"]["retrieval_id"]
    assert contents(memory)


def test_what_a_decision_went_against_is_in_the_state_as_plain_json(memory: Memory):
    claim = {"vendor_id": "orkin"}
    written = memory.write("Orkin does pests.", context=CONTEXT, claim=claim, pinned=True)
    decision = example(memory).compile().invoke(ASKED, context=CONTEXT)["decision"]
    assert decision["flags"] == ["memory_override"]
    (override,) = json.loads(json.dumps(decision["overrides"]))
    assert (override["field"], override["answer"], override["claimed"]) == (
        "vendor_id",
        "primex",
        "orkin",
    )
    assert (override["record_id"], override["shown"]) == (written.record_id, True)
    assert decision["overrides"] == [override]


async def test_the_example_is_the_same_when_it_is_awaited(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    end = await example(memory).compile().ainvoke(ASKED, context=CONTEXT)
    assert end["memory"]["injected"][0]["content"] == PRIMEX
    assert end["decision"]["answer"] == {"vendor_id": "primex"}
    assert contents(memory)


def test_streaming_gives_each_nodes_update_in_order(memory: Memory):
    updates = list(example(memory).compile().stream(ASKED, context=CONTEXT, stream_mode="updates"))
    assert [next(iter(update)) for update in updates] == ["recall", "decide", "remember"]
    assert updates[0]["recall"]["memory"]["shown"] == 0


async def test_streaming_can_be_awaited(memory: Memory):
    graph = example(memory).compile()
    names = [
        next(iter(update))
        async for update in graph.astream(ASKED, context=CONTEXT, stream_mode="updates")
    ]
    assert names == ["recall", "decide", "remember"]


def test_the_nodes_have_names_of_their_own_and_can_be_drawn(memory: Memory):
    builder = StateGraph(State)
    builder.add_node(create_recall_node(memory))
    builder.add_node(create_decide_node(memory, choosing_model(), answer=VendorChoice))
    builder.add_node(create_remember_node(memory, rewording_extractor()))
    builder.add_node(create_report_node(memory))
    graph = chained(builder, "recall", "decide", "remember", "report").compile()
    assert "decide --> remember" in graph.get_graph(xray=True).draw_mermaid()


# ---------------------------------------------------------------- where nodes may stand


def test_a_subgraph_gets_the_context_of_its_parent(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    child = one_node(create_recall_node(memory))
    end = one_node(child).invoke(ASKED, context=CONTEXT)
    assert end["memory"]["shown"] == 1


def added(old: list[Any], new: Any) -> list[Any]:
    return [*old, new] if isinstance(new, dict) else old


class Found(TypedDict, total=False):
    found: Annotated[list[Any], added]


async def test_send_gives_each_branch_its_own_question(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)

    builder = StateGraph(Found, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(memory, output_key="found"))
    builder.add_conditional_edges(
        START, lambda _: [Send("recall", {"question": q}) for q in ("pest control", "Elm St")]
    )
    builder.add_edge("recall", END)
    for end in (
        builder.compile().invoke({}, context=CONTEXT),
        await builder.compile().ainvoke({}, context=CONTEXT),
    ):
        assert [found["shown"] for found in end["found"]] == [1, 1]
        assert len({found["retrieval_id"] for found in end["found"]}) == 2


def test_a_node_can_be_called_from_a_thread_of_the_hosts_own(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    recall = create_recall_node(memory)

    def host(state: State, config: RunnableConfig) -> Any:
        with ThreadPoolExecutor() as pool:  # loses the ambient context; the config is handed on
            return pool.submit(recall.invoke, state, config).result()

    assert one_node(host).invoke(ASKED, context=CONTEXT)["memory"]["shown"] == 1


def test_a_node_works_outside_a_graph_with_the_ids_in_its_config(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    config = {"configurable": {"workspace_id": "ws_8841", "session_id": "s_1"}}
    assert create_recall_node(memory).invoke(ASKED, config)["memory"]["shown"] == 1
    with pytest.raises(ContextError, match="no workspace_id"):
        create_recall_node(memory).invoke(ASKED)


class HostContext(TypedDict):
    workspace_id: str
    tone: str


@pytest.mark.parametrize(
    ("schema", "context", "configurable"),
    [
        (HostContext, {"workspace_id": "ws_8841", "tone": "warm"}, {"thread_id": "th_1"}),
        (MemoryContext, {"workspace_id": "ws_8841", "session_id": "th_1"}, {}),
        (MemoryContext, None, {"workspace_id": "ws_8841", "thread_id": "th_1"}),
        (None, None, {"workspace_id": "ws_8841", "thread_id": "th_1"}),
    ],
    ids=["own schema", "a dict for ours", "schema but no context", "no schema"],
)
async def test_the_ids_are_found_wherever_the_host_puts_them(
    memory: Memory, schema: Any, context: Any, configurable: dict[str, str]
):
    memory.write(PRIMEX, context=CONTEXT)
    graph = one_node(create_recall_node(memory), context_schema=schema)
    config = {"configurable": configurable}
    ends = [
        graph.invoke(ASKED, config, context=context),
        await graph.ainvoke(ASKED, config, context=context),
    ]
    assert [end["memory"]["shown"] for end in ends] == [1, 1]
    stored = memory.backend.ledger.retrievals.get("ws_8841", ends[0]["memory"]["retrieval_id"])
    assert stored is not None
    assert stored.session_id == "th_1"


def test_another_workspaces_memory_is_never_recalled(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    other = MemoryContext("ws_8841x", "s_1")
    end = one_node(create_recall_node(memory)).invoke(ASKED, context=other)
    assert (end["memory"]["injected"], end["memory"]["total"]) == ([], 0)


def test_the_context_may_come_from_a_function_of_the_state(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    node = create_recall_node(
        memory, context=lambda state, runtime, config: MemoryContext("ws_8841", state["question"])
    )
    assert one_node(node, context_schema=None).invoke(ASKED)["memory"]["shown"] == 1


class DataState(BaseModel):
    question: str
    memory: dict[str, Any] | None = None
    decision: dict[str, Any] | None = None


def test_the_state_may_be_a_pydantic_model(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    builder = StateGraph(DataState, context_schema=MemoryContext)
    builder.add_node(create_recall_node(memory))
    builder.add_node(create_decide_node(memory, choosing_model(), answer=VendorChoice))
    end = chained(builder, "recall", "decide").compile().invoke(ASKED, context=CONTEXT)
    assert end["decision"]["retrieval_id"] == end["memory"]["retrieval_id"]


# ---------------------------------------------------------------- recall


def test_recall_takes_the_query_from_a_key_and_the_kinds_of_an_iterator(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    memory.write("Pest control is a trade.", context=CONTEXT, kind="tip")
    node = create_recall_node(memory, query="topic", kinds=iter(["tip"]))

    class Topic(TypedDict, total=False):
        topic: str
        memory: dict[str, Any]

    graph = one_node(node, Topic)
    for _ in range(2):
        end = graph.invoke({"topic": "pest control"}, context=CONTEXT)
        assert [m["content"] for m in end["memory"]["injected"]] == ["Pest control is a trade."]


def test_recall_puts_what_it_shows_into_the_state_and_leaves_the_rest_in_the_store(
    memory: Memory,
):
    for n in range(6):
        memory.write(f"Pest control number {n}.", context=CONTEXT)
    end = one_node(create_recall_node(memory, k=2)).invoke(ASKED, context=CONTEXT)
    shown = end["memory"]
    assert shown.keys() == {
        "retrieval_id", "text", "injected", "total", "shown", "degraded", "traceparent",
    }  # fmt: skip
    assert [m["rank"] for m in shown["injected"]] == [1, 2]
    assert (shown["total"], shown["shown"], shown["degraded"]) == (6, 2, [])
    assert shown["injected"][0].keys() == {"record_id", "content", "rank", "score"}
    stored = memory.backend.ledger.retrievals.get("ws_8841", shown["retrieval_id"])
    assert stored is not None
    assert len(stored.candidates) == 6


@pytest.mark.parametrize("query", ["subject", lambda state: 7], ids=["no such key", "no text"])
def test_a_query_that_is_no_text_is_an_error(memory: Memory, query: Any):
    with pytest.raises(ConfigError, match=r"^query=.* instead of a text: name the state's key"):
        one_node(create_recall_node(memory, query=query)).invoke(ASKED, context=CONTEXT)


def test_without_an_output_key_the_state_stays_as_it_is(memory: Memory):
    graph = one_node(create_recall_node(memory, output_key=None))
    assert graph.invoke(ASKED, context=CONTEXT) == ASKED


def test_kinds_given_as_one_text_are_an_error_and_not_a_list_of_letters(memory: Memory):
    with pytest.raises(ConfigError, match=r"give a list, such as \['tip'\]"):
        one_node(create_recall_node(memory, kinds="tip")).invoke(ASKED, context=CONTEXT)


# ---------------------------------------------------------------- decide


def test_an_answer_that_cannot_be_asked_for_fails_while_the_graph_is_built(memory: Memory):
    class Free(BaseModel):
        anything: dict[str, Any]

    with pytest.raises(SchemaError):
        create_decide_node(memory, choosing_model(), answer=Free)


def test_decide_recalls_by_itself_where_nothing_was_recalled(memory: Memory):
    record_id = memory.write(PRIMEX, context=CONTEXT, claim={"vendor_id": "primex"}).record_id
    node = create_decide_node(memory, choosing_model(), answer=VendorChoice)
    end = one_node(node).invoke(ASKED, context=CONTEXT)
    assert end["decision"]["chosen_support"]["id"] == record_id


def test_decide_finds_a_retrieval_that_another_opening_of_the_store_made(
    memory: Memory, tmp_path: Path
):
    memory.write(PRIMEX, context=CONTEXT)
    state = one_node(create_recall_node(memory)).invoke(ASKED, context=CONTEXT)
    with memory_for_tests(f"sqlite:///{tmp_path / 'ledger.db'}") as elsewhere:
        node = create_decide_node(elsewhere, choosing_model(), answer=VendorChoice)
        end = one_node(node).invoke(state, context=CONTEXT)
    assert end["decision"]["retrieval_id"] == state["memory"]["retrieval_id"]


@pytest.mark.parametrize("held", [{"text": "mine"}, ["mine"]], ids=["a dict", "a list"])
def test_something_else_under_the_retrievals_key_is_an_error(memory: Memory, held: Any):
    node = create_decide_node(memory, choosing_model(), answer=VendorChoice)
    with pytest.raises(ConfigError, match="without a retrieval_id: name the recall node's"):
        one_node(node).invoke({**ASKED, "memory": held}, context=CONTEXT)


def test_a_retrieval_of_another_workspace_is_not_used(memory: Memory):
    state = one_node(create_recall_node(memory)).invoke(ASKED, context=CONTEXT)
    node = create_decide_node(memory, choosing_model(), answer=VendorChoice)
    with pytest.raises(ConfigError, match="no retrieval 'r_1' in workspace 'other'"):
        one_node(node).invoke(state, context=MemoryContext("other", "s_1"))


def test_a_model_that_fails_is_a_status_in_the_state_and_no_answer(memory: Memory):
    model = ScriptedChatModel(lambda _: ConnectionError("no route"))
    node = create_decide_node(memory, model, answer=VendorChoice)
    decision = one_node(node).invoke(ASKED, context=CONTEXT)["decision"]
    assert (decision["status"], decision["answer"]) == ("error", None)
    assert decision["detail"]


# ---------------------------------------------------------------- remember


def test_remember_reads_the_messages(memory: Memory):
    graph = one_node(create_remember_node(memory, rewording_extractor()), TalkState)
    end = graph.invoke({"messages": [HumanMessage("I like tea")]}, context=CONTEXT)
    assert [receipt["ruling"] for receipt in end["remembered"]] == ["accepted"]
    assert len(contents(memory)) == 1


def test_remember_takes_the_question_where_no_message_was_given(memory: Memory):
    class Both(MessagesState):
        question: str

    graph = one_node(create_remember_node(memory, rewording_extractor("I like tea")), Both)
    graph.invoke({"question": "I like tea, what else?"}, context=CONTEXT)
    assert len(contents(memory)) == 1


def test_remember_with_messages_of_its_own_never_takes_the_question(memory: Memory):
    model = rewording_extractor()
    node = create_remember_node(memory, model, messages=lambda state: [])
    one_node(node).invoke(ASKED, context=CONTEXT)
    assert model.calls == []


def test_nothing_to_remember_at_all_is_an_error(memory: Memory):
    node = create_remember_node(memory, rewording_extractor(), messages="chat")
    with pytest.raises(ConfigError, match=r"^messages='chat' gave nothing to remember"):
        one_node(node).invoke(ASKED, context=CONTEXT)


def test_a_failed_extraction_is_a_failed_receipt_in_the_state(memory: Memory):
    node = create_remember_node(memory, ScriptedChatModel(lambda _: ConnectionError("no route")))
    end = one_node(node, TalkState).invoke({"messages": [HumanMessage("hi")]}, context=CONTEXT)
    assert [receipt["ruling"] for receipt in end["remembered"]] == ["failed"]


async def test_a_failing_store_never_looks_like_success(memory: Memory, tmp_path: Path):
    graph = one_node(create_remember_node(memory, rewording_extractor()), TalkState)
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        connection.execute("ALTER TABLE proposals RENAME TO gone")
    connection.close()
    said = {"messages": [HumanMessage("I like tea")]}
    with pytest.raises(StoreError):
        graph.invoke(said, context=CONTEXT)
    with pytest.raises(StoreError):
        await graph.ainvoke(said, context=CONTEXT)


def test_the_extractors_tokens_stay_out_of_the_message_stream(memory: Memory):
    builder = StateGraph(State, context_schema=MemoryContext)
    builder.add_node(create_decide_node(memory, choosing_model(), answer=VendorChoice))
    builder.add_node(create_remember_node(memory, rewording_extractor(QUESTION)))
    graph = chained(builder, "decide", "remember").compile()
    parts = list(graph.stream(ASKED, context=CONTEXT, stream_mode="messages"))
    assert {metadata["langgraph_node"] for _, metadata in parts} == {"decide"}


# ---------------------------------------------------------------- report


class Ending(TypedDict, total=False):
    succeeded: Any
    mode: str | None
    sure: float
    outcome: dict[str, Any]


def test_report_reads_how_it_ended_from_the_state(memory: Memory):
    node = create_report_node(
        memory,
        failure_mode="mode",
        action=lambda state: "booked Orkin",
        confidence="sure",
    )
    state = {"succeeded": False, "mode": "wrong_vendor", "sure": 0.5}
    outcome = one_node(node, Ending).invoke(state, context=CONTEXT)["outcome"]
    names = ("task_id", "succeeded", "value", "failure_mode", "action", "confidence")
    assert [outcome[name] for name in names] == [
        "t_0417", False, 0.0, "wrong_vendor", "booked Orkin", 0.5,
    ]  # fmt: skip


async def test_reporting_an_attempt_again_replaces_it(memory: Memory):
    graph = one_node(create_report_node(memory), Ending)
    graph.invoke({"succeeded": False}, context=CONTEXT)
    await graph.ainvoke({"succeeded": True}, context=CONTEXT)
    outcomes = memory.backend.ledger.history.task_rows("ws_8841", "t_0417").outcomes
    assert [outcome.succeeded for outcome in outcomes] == [True]


@pytest.mark.parametrize("said", ["failed", 1, None])
def test_an_outcome_that_is_not_true_or_false_is_an_error(memory: Memory, said: Any):
    with pytest.raises(ConfigError, match="it must give True or False"):
        one_node(create_report_node(memory), Ending).invoke({"succeeded": said}, context=CONTEXT)
