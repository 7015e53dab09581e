"""The hops of a graph stand in the host's trace, under the span that was open at ``invoke``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graph_parts import (
    ASKED,
    CONTEXT,
    PRIMEX,
    Everything,
    VendorChoice,
    chained,
    choosing_model,
    whole_graph,
)
from langgraph.graph import StateGraph
from opentelemetry.sdk.trace import ReadableSpan

from memplugin import Memory, MemoryContext
from memplugin.integrations.langgraph import create_decide_node, create_recall_node
from memplugin.testing import SpanCapture, memory_for_tests

HOPS = ["search_memory", "use_memory", "upsert_memory", "report_outcome"]


def parent_of(span: ReadableSpan) -> str | None:
    return f"{span.parent.span_id:016x}" if span.parent else None


def id_of(span: ReadableSpan) -> str:
    return f"{span.get_span_context().span_id:016x}"


async def run(graph: Any, how: str) -> None:
    if how == "invoke":
        graph.invoke(ASKED, context=CONTEXT)
    elif how == "ainvoke":
        await graph.ainvoke(ASKED, context=CONTEXT)
    elif how == "stream":
        list(graph.stream(ASKED, context=CONTEXT))
    else:
        [_ async for _ in graph.astream(ASKED, context=CONTEXT)]


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
async def test_each_hop_is_a_child_of_the_hosts_span_and_carries_the_task(
    memory: Memory, spans: SpanCapture, how: str
):
    graph = whole_graph(memory)
    with spans.provider.get_tracer("host").start_as_current_span("request"):
        await run(graph, how)
    host, hops = spans.named("request")[0], [s for s in spans.spans if s.name != "request"]
    assert [hop.name for hop in hops] == HOPS
    assert {parent_of(hop) for hop in hops} == {id_of(host)}
    assert {(hop.attributes or {})["memplugin.task.id"] for hop in hops} == {"t_0417"}


def test_a_subgraphs_hop_stands_in_the_hosts_trace(memory: Memory, spans: SpanCapture):
    child = StateGraph(Everything, context_schema=MemoryContext)
    child.add_node(create_recall_node(memory))
    parent = StateGraph(Everything, context_schema=MemoryContext)
    parent.add_node("child", chained(child, "recall").compile())
    graph = chained(parent, "child").compile()
    with spans.provider.get_tracer("host").start_as_current_span("request"):
        graph.invoke(ASKED, context=CONTEXT)
    (recall,) = spans.named("search_memory")
    assert parent_of(recall) == id_of(spans.named("request")[0])


def test_the_state_names_the_span_of_the_retrieval(memory: Memory, spans: SpanCapture):
    end = whole_graph(memory).invoke(ASKED, context=CONTEXT)
    (recall,) = spans.named("search_memory")
    trace_id = f"{recall.get_span_context().trace_id:032x}"
    assert end["memory"]["traceparent"] == f"00-{trace_id}-{id_of(recall)}-01"


def test_a_decision_in_another_process_links_the_retrieval_it_used(tmp_path: Path):
    ledger, first, second = f"sqlite:///{tmp_path / 'ledger.db'}", SpanCapture(), SpanCapture()
    with memory_for_tests(ledger, tracer_provider=first.provider) as memory:
        memory.write(PRIMEX, context=CONTEXT)
        state = whole_graph(memory, interrupt_after=["recall"]).invoke(ASKED, context=CONTEXT)
    with memory_for_tests(ledger, tracer_provider=second.provider) as memory:
        builder = StateGraph(Everything, context_schema=MemoryContext)
        builder.add_node(create_decide_node(memory, choosing_model(), answer=VendorChoice))
        chained(builder, "decide").compile().invoke(state, context=CONTEXT)
    (search,), (use,) = first.named("search_memory"), second.named("use_memory")
    assert search.get_span_context().trace_id != use.get_span_context().trace_id
    linked = {link.context.span_id: dict(link.attributes or {}) for link in use.links}
    assert linked[search.get_span_context().span_id] == {"memplugin.link.relation": "retrieved_by"}


def test_without_an_sdk_the_state_names_no_span():
    with memory_for_tests() as memory:
        end = whole_graph(memory).invoke(ASKED, context=CONTEXT)
    assert end["memory"]["traceparent"] is None
