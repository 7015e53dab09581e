"""Whatever becomes of spans, the hops return the same."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from threading import Event
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpExporter,
)
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from pydantic import BaseModel

from memplugin import MemoryContext
from memplugin.telemetry import attributes
from memplugin.testing import ScriptedChatModel, SpanCapture, memory_for_tests

CONTEXT = MemoryContext("ws_8841", "s_1", task_id="t_0417")
SAID = [{"role": "user", "content": "Could you do the pack net of tax going forward?"}]
PROPOSED = {
    "turn_index": 0,
    "quote": "do the pack net of tax going forward",
    "polarity": "positive",
    "content": "The pack is net of tax.",
    "kind": "instruction",
    "confidence": 0.9,
}


class Pack(BaseModel):
    """What is decided."""

    basis: str


def results(provider: Any) -> list[Any]:
    """What remember, write, recall, decide, report and forget return, but for their spans."""
    with memory_for_tests(tracer_provider=provider) as memory:
        model = ScriptedChatModel([{"memories": [PROPOSED]}])
        remembered = memory.remember(SAID, context=CONTEXT, model=model)
        written = memory.write_many(["gross of tax", "bar charts"], context=CONTEXT)
        retrieval = memory.recall("the pack's tax", context=CONTEXT)
        reply = {
            "memory_reasoning": "It says net.",
            "considered": "gross",
            "cited_record_ids": [remembered[0].record_id],
            "basis": "net",
        }
        decision = memory.decide(
            "net or gross?",
            context=CONTEXT,
            answer=Pack,
            model=ScriptedChatModel([reply]),
            retrieval=retrieval,
        )
        outcome = memory.report(context=CONTEXT, succeeded=True)
        gone = memory.forget(written[1].record_id or "", context=CONTEXT, reason="asked")
    candidates = tuple(replace(c, traceparent=None) for c in retrieval.candidates)
    return [
        remembered,
        written,
        replace(retrieval, span=None, candidates=candidates),
        replace(decision, span=None, raw=None, replies=()),  # a run's id is in the raw reply
        outcome,
        replace(gone, traceparent=None),
    ]


# ---------------------------------------------------------------- what may go wrong


class RaisingExporter(SpanExporter):
    """A vendor's exporter on a bad day."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("no spans today")


class StuckExporter(SpanExporter):
    """It takes what it is given and does not come back until it may."""

    def __init__(self) -> None:
        self.free = Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.free.wait(20)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.free.set()


class RaisingProcessor(SpanProcessor):
    """A host's own processor that fails."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("start")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("end")


class RaisingSampler(Sampler):
    def should_sample(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no decision")

    def get_description(self) -> str:
        return "raises"


class RaisingIds(IdGenerator):
    def generate_span_id(self) -> int:
        raise RuntimeError("no id")

    def generate_trace_id(self) -> int:
        raise RuntimeError("no id")


STUCK = StuckExporter()


def dead_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def batching(exporter: Any) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=2, max_export_batch_size=1)
    )
    return provider


def processed(processor: SpanProcessor) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return provider


def shut_down() -> TracerProvider:
    provider = processed(SimpleSpanProcessor(SpanCapture()._exporter))
    provider.shutdown()
    return provider


PROVIDERS: dict[str, Callable[[], Any]] = {
    "an SDK": lambda: SpanCapture().provider,
    "no SDK": trace.NoOpTracerProvider,
    "nothing sampled": lambda: TracerProvider(sampler=ALWAYS_OFF),
    "a dead endpoint over HTTP": lambda: batching(
        HttpExporter(endpoint=f"http://127.0.0.1:{dead_port()}/v1/traces", timeout=0.2)
    ),
    "a dead endpoint over gRPC": lambda: batching(
        GrpcExporter(endpoint=f"http://127.0.0.1:{dead_port()}", insecure=True, timeout=0.2)
    ),
    "an exporter that raises": lambda: batching(RaisingExporter()),
    "an exporter that raises at once": lambda: processed(SimpleSpanProcessor(RaisingExporter())),
    "a full queue": lambda: batching(STUCK),
    "a processor that raises": lambda: processed(RaisingProcessor()),
    "a sampler that raises": lambda: TracerProvider(sampler=RaisingSampler()),
    "ids that raise": lambda: TracerProvider(id_generator=RaisingIds()),
    "a provider that was shut down": shut_down,
}


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> Iterator[Any]:
    STUCK.free.clear()
    made = PROVIDERS[request.param]()
    yield made
    STUCK.free.set()
    if isinstance(made, TracerProvider):
        made.shutdown()


def test_every_hop_returns_the_same_whatever_becomes_of_its_span(provider: Any) -> None:
    assert results(provider) == results(None)


def test_attributes_that_can_not_be_put_together_cost_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no attribute today")

    for module, name in (
        ("recall", "searched"),
        ("decide", "decided"),
        ("write", "written"),
        ("outcome", "reported"),
    ):
        assert callable(getattr(attributes, name))
        monkeypatch.setattr(f"memplugin.memory.{module}.{name}", fails)
    assert results(SpanCapture().provider) == results(None)


def test_a_tracer_that_hands_out_its_parent_is_not_written_on() -> None:
    host = SpanCapture()
    with (
        host.provider.get_tracer("host").start_as_current_span("request"),
        memory_for_tests(tracer_provider=trace.NoOpTracerProvider()) as memory,
    ):
        memory.write("net of tax", context=CONTEXT)
        found = memory.recall("tax", context=CONTEXT)
    assert found.span is None
    (request,) = host.spans
    assert not request.attributes
    assert request.end_time
