"""What an OTLP receiver on a socket gets from the SDK."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcExporter,
)
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpExporter,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic import BaseModel

from memplugin import MemoryConfig, MemoryContext
from memplugin.testing import ScriptedChatModel, memory_for_tests
from tests.otlp_receivers import Received, attributes, grpc_receiver, http_receiver

TRANSPORTS: dict[str, tuple[Callable[[], AbstractContextManager[Received]], Callable[..., Any]]] = {
    "grpc": (grpc_receiver, lambda url: GrpcExporter(endpoint=url, insecure=True)),
    "http": (http_receiver, lambda url: HttpExporter(endpoint=f"{url}/v1/traces")),
}


class Pack(BaseModel):
    """What is decided."""

    basis: str


AWKWARD = [
    "NUL \x00 inside",
    "a lone surrogate \ud800",
    "x" * 1_000_000,
    "\u202eright to left\u202c אבג",
    "emoji 🧠🇩🇪",
    "combining e\u0301\u0301\u0301",
]


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_second_sessions_recall_links_the_first_sessions_write(transport: str) -> None:
    receiver, exporter = TRANSPORTS[transport]
    with receiver() as received:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(exporter(received.endpoint)))
        with memory_for_tests(tracer_provider=provider) as memory:
            memory.write("net of tax", context=MemoryContext("ws", "s_1", task_id="t_0417"))
            memory.recall("tax", context=MemoryContext("ws", "s_2", task_id="t_0417"))
        provider.shutdown()
        spans = received.spans
    assert {attributes(span)["memplugin.task.id"] for span in spans} == {"t_0417"}
    write, search = received.named("upsert_memory")[0], received.named("search_memory")[0]
    assert write.trace_id != search.trace_id
    assert {
        (link.span_id, attributes(link)["memplugin.link.relation"]) for link in search.links
    } == {
        (write.span_id, "written_by"),
        (write.span_id, "previous_session"),
    }


@pytest.mark.parametrize(
    "text", AWKWARD, ids=lambda text: text[:12].encode("unicode_escape").decode()
)
def test_no_span_is_lost_whatever_the_text(text: str) -> None:
    config = MemoryConfig(
        content_on_spans="full", floor=-1.0, max_content_chars=2_000_000, token_budget=None
    )
    with grpc_receiver() as received:
        provider = TracerProvider()
        provider.add_span_processor(
            BatchSpanProcessor(GrpcExporter(endpoint=received.endpoint, insecure=True))
        )
        context = MemoryContext(
            f"w {text[:50]}", f"s {text[:50]}", task_id=f"t {text[:50]}", scope={"place": text}
        )
        with memory_for_tests(tracer_provider=provider, config=config) as memory:
            memory.write(text, context=context, source=text, around=text)
            retrieval = memory.recall(text, context=context)
            reply = {
                "memory_reasoning": text,
                "considered": text,
                "cited_record_ids": [text],
                "basis": text[:1_000],
            }
            for script in (reply, ValueError(text)):
                model = ScriptedChatModel([script] * 2)
                memory.decide(text, context=context, answer=Pack, model=model, retrieval=retrieval)
            memory.report(context=context, succeeded=False, failure_mode=text, action=text)
        provider.shutdown()
        sent = received.spans
    assert retrieval.shown == 1
    assert [span.name for span in sent] == [
        "upsert_memory",
        "search_memory",
        "use_memory",
        "use_memory",
        "report_outcome",
    ]


def test_a_dead_endpoint_changes_no_result() -> None:
    def recalled(provider: TracerProvider | None) -> list[tuple[str, float]]:
        with memory_for_tests(tracer_provider=provider) as memory:
            context = MemoryContext("ws", "s_1")
            memory.write_many(["net of tax", "gross", "bar charts"], context=context)
            found = memory.recall("tax", context=context)
            return [(c.record_id, c.score) for c in found.candidates]

    provider = TracerProvider()
    exporter = HttpExporter(endpoint="http://127.0.0.1:9/v1/traces", timeout=1)
    provider.add_span_processor(
        BatchSpanProcessor(exporter, max_queue_size=4, max_export_batch_size=2)
    )
    assert recalled(provider) == recalled(None)
    provider.shutdown()
