"""Spans, kept where a test can look at them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memplugin.telemetry.readers.model import ReadSpan, spans_in


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

    def read(self) -> list[ReadSpan]:
        """All finished spans, as a trace backend would give them back."""
        return read_back(self.spans)

    def add(self, spans: Sequence[ReadableSpan]) -> bool:
        """Keeps spans that were made elsewhere, as a backend would; for ``emit``."""
        return self._exporter.export(spans) is SpanExportResult.SUCCESS

    def clear(self) -> None:
        """Forgets the spans so far."""
        self._exporter.clear()


def read_back(spans: Iterable[ReadableSpan]) -> list[ReadSpan]:
    """Spans through OTLP's own encoding and the readers' parser."""
    return list(spans_in(MessageToDict(encode_spans(list(spans)))))
