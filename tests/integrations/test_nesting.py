"""Where our spans stand beside other instrumentations of LangChain, with the real packages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from graph_parts import (
    ASKED,
    CONTEXT,
    QUESTION,
    Everything,
    VendorChoice,
    chained,
    choosing_model,
    whole_graph,
)
from langgraph.graph import StateGraph
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from memplugin import Memory, MemoryContext
from memplugin.integrations.langgraph import create_decide_node
from memplugin.testing import SpanCapture, memory_for_tests

OPENINFERENCE = "openinference.instrumentation.langchain"
OPENLLMETRY = "opentelemetry.instrumentation.langchain"
PACKAGES = {
    OPENINFERENCE: ("LangChainInstrumentor", "openinference-instrumentation-langchain"),
    OPENLLMETRY: ("LangchainInstrumentor", "opentelemetry-instrumentation-langchain"),
}
NODES = {
    "search_memory": "recall",
    "use_memory": "decide",
    "upsert_memory": "remember",
    "report_outcome": "report",
}

# The other packages' own business, at import and in their use of LangChain:
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


def instrumentor(module: str) -> Any:
    name, package = PACKAGES[module]
    found = pytest.importorskip(
        module, reason=f"{package} is not installed: pip install 'memplugin[dev]'"
    )
    return getattr(found, name)


@pytest.fixture(scope="module", params=PACKAGES)
def runs(request: pytest.FixtureRequest) -> tuple[str, dict[str, list[Any]]]:
    """The spans of each way to run a graph, under each instrumentation, in its own process."""
    name = instrumentor(request.param).__name__
    script = Path(__file__).with_name("nested_run.py")
    done = subprocess.run(
        [sys.executable, script, request.param, name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return request.param, json.loads(done.stdout)


@pytest.fixture
def openinference(spans: SpanCapture) -> Iterator[None]:
    """At work for one test, in this process: it can be taken out again."""
    package = instrumentor(OPENINFERENCE)()
    package.instrument(tracer_provider=spans.provider)
    try:
        yield
    finally:
        package.uninstrument()


def parent_of(span: ReadableSpan, spans: SpanCapture) -> ReadableSpan:
    assert span.parent
    wanted = span.parent.span_id
    return next(one for one in spans.spans if one.get_span_context().span_id == wanted)


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
def test_each_hop_is_a_child_of_its_nodes_span(
    runs: tuple[str, dict[str, list[Any]]], how: str
) -> None:
    module, seen = runs
    assert {span["trace"] for span in seen[how]} == {seen[how][0]["trace"]}
    theirs = {span["name"] for span in seen[how] if span["scope"] == module}
    for hop, node in NODES.items():
        (parent,) = {span["parent"] for span in seen[how] if span["name"] == hop}
        assert parent in theirs
        assert parent.split()[-1] == node


def test_the_task_of_others_is_never_set_by_us(runs: tuple[str, dict[str, list[Any]]]) -> None:
    _, seen = runs
    hops = [span for spans in seen.values() for span in spans if span["scope"] == "memplugin"]
    assert len(hops) == 4 * len(NODES)
    assert all("memplugin.task.id" in span["keys"] for span in hops)
    assert not any("gen_ai.task.id" in span["keys"] for span in hops)


def test_a_recall_that_a_decision_makes_is_a_child_of_the_decision(
    memory: Memory, spans: SpanCapture, openinference: None
):
    builder = StateGraph(Everything, context_schema=MemoryContext)
    builder.add_node(create_decide_node(memory, choosing_model(), answer=VendorChoice))
    chained(builder, "decide").compile().invoke(ASKED, context=CONTEXT)
    (search,), (use,) = spans.named("search_memory"), spans.named("use_memory")
    assert parent_of(search, spans) is use
    assert parent_of(use, spans).name == "decide"


def test_a_span_that_the_host_opens_inside_a_node_is_the_parent(
    memory: Memory, spans: SpanCapture, openinference: None
):
    def work(state: Any) -> dict[str, Any]:
        with spans.provider.get_tracer("host").start_as_current_span("work"):
            memory.recall(QUESTION, context=CONTEXT)
        return {}

    builder = StateGraph(Everything, context_schema=MemoryContext)
    builder.add_node("work", work)
    chained(builder, "work").compile().invoke(ASKED, context=CONTEXT)
    assert parent_of(spans.named("search_memory")[0], spans).name == "work"


def test_an_unsampled_nodes_span_is_followed_too() -> None:
    unsampled = SpanCapture(TracerProvider(sampler=ALWAYS_OFF))
    package = instrumentor(OPENINFERENCE)()
    package.instrument(tracer_provider=unsampled.provider)
    try:
        with memory_for_tests(tracer_provider=TracerProvider()) as memory:
            end = whole_graph(memory).invoke(ASKED, context=CONTEXT)
    finally:
        package.uninstrument()
    assert end["memory"]["traceparent"].endswith("-00")


@pytest.mark.parametrize(
    "suppress",
    [
        ("openinference.instrumentation", "suppress_tracing"),
        ("opentelemetry.instrumentation.utils", "suppress_instrumentation"),
    ],
)
def test_where_the_host_suppresses_instrumentation_there_are_no_spans_of_ours(
    memory: Memory, spans: SpanCapture, suppress: tuple[str, str]
):
    module, name = suppress
    block = getattr(pytest.importorskip(module, reason=f"{module} is not installed"), name)
    with spans.provider.get_tracer("host").start_as_current_span("request") as request:
        with block():
            found = memory.recall(QUESTION, context=CONTEXT)
            assert trace.get_current_span() is request
        memory.recall(QUESTION, context=CONTEXT)
    assert found.span is None
    assert len(spans.named("search_memory")) == 1


def test_installed_and_not_in_use_it_is_not_asked(
    memory: Memory, spans: SpanCapture, capsys: pytest.CaptureFixture[str]
):
    instrumentor(OPENINFERENCE)
    with spans.provider.get_tracer("host").start_as_current_span("request"):
        whole_graph(memory).invoke(ASKED, context=CONTEXT)
    assert parent_of(spans.named("search_memory")[0], spans).name == "request"
    assert capsys.readouterr().out == ""


def test_it_is_not_imported_for_its_own_sake(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, OPENINFERENCE, raising=False)
    memory.recall(QUESTION, context=CONTEXT)
    assert OPENINFERENCE not in sys.modules


def test_another_version_of_it_costs_no_span(
    memory: Memory, spans: SpanCapture, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, OPENINFERENCE, import_module("types"))
    memory.recall(QUESTION, context=CONTEXT)
    assert len(spans.named("search_memory")) == 1
