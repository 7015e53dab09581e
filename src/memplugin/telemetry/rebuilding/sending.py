"""Spans made again, on a provider of their own that keeps every one of them."""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry import context as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from memplugin.records import SpanRef
from memplugin.telemetry import names
from memplugin.telemetry.rebuilding.past import PastHop
from memplugin.telemetry.spans import Tracing


class _GivenIds(IdGenerator):
    """Gives the next span the ids it had."""

    def __init__(self) -> None:
        self.ref = SpanRef("0", "0")

    def generate_trace_id(self) -> int:
        return int(self.ref.trace_id, 16)

    def generate_span_id(self) -> int:
        return int(self.ref.span_id, 16)


def rebuilt_spans(
    hops: Iterable[PastHop], tracing: Tracing, *, service: str
) -> tuple[ReadableSpan, ...]:
    """Makes the spans, each a root: the host's own spans around them are in no ledger.

    Their times are those of now, and the original one is an attribute: Tempo finds spans by
    the time they came in, and backends drop or hide those from before their retention.

    Args:
        hops: In the order in which they are to be seen.
        tracing: The store's.
        service: ``service.name`` of who sends them.
    """
    ids, kept = _GivenIds(), InMemorySpanExporter()
    resource = Resource.create({"service.name": service})
    # Its sampler is given, so that OTEL_TRACES_SAMPLER can't drop what is wanted.
    provider = TracerProvider(
        sampler=ALWAYS_ON, id_generator=ids, resource=resource, shutdown_on_exit=False
    )
    provider.add_span_processor(SimpleSpanProcessor(kept))
    again = tracing.on(provider)
    outside = otel.attach(otel.Context())
    try:
        for hop in hops:
            ids.ref = hop.ref
            _make(hop, again)
    finally:
        otel.detach(outside)
    return kept.get_finished_spans()


def _make(past: PastHop, tracing: Tracing) -> None:
    hop = tracing.start(past.operation, past.context)
    hop.set({names.REBUILT: True, names.ORIGINAL_TIME: past.at.isoformat()})
    hop.set(lambda: past.describe(tracing.content))
    for event in past.events:
        hop.event(names.CANDIDATE_EVENT, event)
    for traceparent, relation in past.links:
        hop.link(traceparent, relation)
    hop.end()
