"""Sending a command's spans to a collector, without ever waiting long for one."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from threading import Thread
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from memplugin.cli.output import warn
from memplugin.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.sdk.trace.sampling import Sampler

SEND_SECONDS = 3.0
"""For one request to the collector, tries again included."""

DELIVER_SECONDS = 5.0
"""For one request whose arrival is what the command is for."""

END_SECONDS = 1.5
"""For everything that is still to be sent when the command has done its work."""

BATCH = 128
"""Spans of one request: a span may have 30 kB, and gRPC refuses more than 4 MiB whole."""

GRPC_PORT = 4317
_ENVIRONMENT = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOL = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def endpoint_in_environment() -> str | None:
    """The collector that OpenTelemetry's own variables name, if any."""
    return _first(_ENVIRONMENT)


def _first(names: Sequence[str]) -> str | None:
    return next((value for name in names if (value := os.environ.get(name))), None)


class Spans:
    """The way of a command's spans.

    Args:
        url: ``http://host:4318`` or ``grpc://host:4317``; None takes what OpenTelemetry's
            own variables say, and sends nothing when they say nothing.
    """

    def __init__(self, url: str | None) -> None:
        self._url = url
        self._ways: dict[str, tuple[TracerProvider, _Sender]] = {}

    @property
    def target(self) -> str | None:
        """Where spans go; None for nowhere."""
        return self._url or endpoint_in_environment()

    def provider(self, sampler: Sampler | None = None) -> TracerProvider | None:
        """One for each sampler, made when first asked for; None when spans go nowhere.

        Raises:
            ConfigError: the URL is none of a collector.
        """
        if not self.target:
            return None
        kind = sampler.get_description() if sampler else ""
        if kind not in self._ways:
            self._ways[kind] = self._way(sampler)
        return self._ways[kind][0]

    def _way(self, sampler: Sampler | None) -> tuple[TracerProvider, _Sender]:
        # Imported by a command that sends spans, and by no other.
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 -- see above
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 -- see above
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 -- see above

        sender = _Sender(_exporter(self._url))
        provider = TracerProvider(
            sampler=sampler,
            resource=Resource.create({"service.name": "memplugin"}),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(
            BatchSpanProcessor(cast("SpanExporter", sender), max_export_batch_size=BATCH)
        )
        return provider, sender

    def exporter(self) -> SpanExporter:
        """For spans that a command is about, and that must have arrived when it ends.

        Raises:
            ConfigError: no collector is named, or the URL is none of one.
        """
        if not self.target:
            raise ConfigError(
                "no collector is named: give --otlp http://host:4318 (OTLP over HTTP) or "
                "grpc://host:4317 (OTLP over gRPC), or set OTEL_EXPORTER_OTLP_ENDPOINT."
            )
        return _exporter(self._url, seconds=DELIVER_SECONDS)

    def close(self) -> None:
        """Sends what is left, and says so in one line when that failed."""
        ways = list(self._ways.values())
        self._ways.clear()
        # Daemons: a collector that does not answer keeps nobody waiting.
        endings = [
            Thread(target=provider.shutdown, name="memplugin-spans", daemon=True)
            for provider, _ in ways
        ]
        for ending in endings:
            ending.start()
        for ending in endings:
            ending.join(END_SECONDS)
        if any(ending.is_alive() for ending in endings) or any(way[1].unsent for way in ways):
            warn(f"spans could not be sent to {self.target}: check that a collector listens there.")


class _Sender:
    """A ``SpanExporter`` that knows how many spans did not arrive."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self.unsent = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.unsent += len(spans)  # until it is known that they arrived
        result = self._exporter.export(spans)
        if result.name == "SUCCESS":
            self.unsent -= len(spans)
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


def _exporter(url: str | None, *, seconds: float = SEND_SECONDS) -> SpanExporter:
    """An exporter to a URL, or to what OpenTelemetry's own variables say."""
    # One line at the end says what the exporters would log, several times and with traces.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if url is None:
        return (_grpc if _first(_PROTOCOL) == "grpc" else _http)(None, seconds)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _no_collector(url) from None
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.hostname:
        raise _no_collector(url)
    if parts.scheme.startswith("grpc") or port == GRPC_PORT:
        address = parts.netloc if port else f"{parts.netloc}:{GRPC_PORT}"
        return _grpc(address, seconds, insecure=parts.scheme in ("grpc", "http"))
    return _http(url if parts.path.strip("/") else f"{url.rstrip('/')}/v1/traces", seconds)


def _no_collector(url: str) -> ConfigError:
    return ConfigError(
        f"{url!r} is no collector: give --otlp http://host:4318 (OTLP over HTTP) or "
        "grpc://host:4317 (OTLP over gRPC)."
    )


def _http(endpoint: str | None, seconds: float) -> SpanExporter:
    # Imported by a command that sends spans, and by no other.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 -- see above
        OTLPSpanExporter,
    )

    return OTLPSpanExporter(endpoint=endpoint, timeout=seconds)


def _grpc(endpoint: str | None, seconds: float, *, insecure: bool | None = None) -> SpanExporter:
    # gRPC's native library takes a while to import.
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (  # noqa: PLC0415 -- see above
        OTLPSpanExporter,
    )

    return OTLPSpanExporter(endpoint=endpoint, insecure=insecure, timeout=seconds)
