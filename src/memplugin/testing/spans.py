"""Spans, kept where a test can look at them."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class SpanCapture:
    """A tracer provider that keeps every finished span; no global is set.

    Attributes:
        provider: For ``Memory.open(tracer_provider=…)``.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = provider or TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        """All finished spans, in the order in which they ended."""
        return list(self._exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        """The finished spans of a name."""
        return [span for span in self.spans if span.name == name]

    def attributes(self, name: str) -> list[dict[str, Any]]:
        """Attributes of the finished spans of a name."""
        return [dict(span.attributes or {}) for span in self.named(name)]

    def clear(self) -> None:
        """Forgets the spans so far."""
        self._exporter.clear()
