"""Opening our spans on the host's provider, and where they belong beside other instrumentations.

Nothing that fails here reaches the host.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # pyright: ignore[reportPrivateUsage] -- it has no public name yet
    Context,
)
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from memplugin.config import MemoryContext
from memplugin.records import SpanRef
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy, limited
from memplugin.telemetry.sampling import bucket, randomness

_OPENINFERENCE = "openinference.instrumentation.langchain"


def suppressed() -> bool:
    """Whether the host wants no spans here (``suppress_instrumentation``, ``suppress_tracing``)."""
    return bool(otel.get_value(_SUPPRESS_INSTRUMENTATION_KEY))


def parent_context() -> Context | None:
    """The context a span of ours starts in; None for the ambient one.

    OpenInference keeps the span of a graph's node to itself instead of making it current.
    """
    try:
        node = _openinference_span()
    except Exception:  # noqa: BLE001 -- another version of it: the ambient span will do
        return None
    if node is None or not node.get_span_context().is_valid:
        return None
    ambient = trace.get_current_span()
    if ambient.get_span_context().is_valid and _opened_at(ambient) >= _opened_at(node):
        return None  # opened inside the node: by the host, or by a hop that calls another
    return trace.set_span_in_context(node)


def _openinference_span() -> Any:
    # Whoever uses it has imported it; importing it here would be work for nothing.
    module = sys.modules.get(_OPENINFERENCE)
    if module is None:
        return None
    # Not in use, it says so on stdout each time it is asked.
    if not module.LangChainInstrumentor().is_instrumented_by_opentelemetry:
        return None
    return module.get_current_span()


def _opened_at(span: Any) -> int:
    return getattr(span, "start_time", None) or 0  # a span that is not recorded has no time


_log = logging.getLogger("memplugin")
_P = ParamSpec("_P")

Attributes = Mapping[str, Any]


def _quietly(method: Callable[_P, None]) -> Callable[_P, None]:
    """A failure of telemetry is logged and never reaches the host."""

    @functools.wraps(method)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception:  # noqa: BLE001 -- whatever a host's SDK, exporter or processor raises
            _log.warning("a span could not be completed", exc_info=True)

    return wrapper


class Hop:
    """One open span of ours.

    Attributes:
        ref: Where it is; None without an SDK.
    """

    def __init__(self, span: Span) -> None:
        self._span = span
        self._links: list[tuple[str, str]] = []
        context = span.get_span_context()
        self.ref = (
            SpanRef(
                trace_id=trace.format_trace_id(context.trace_id),
                span_id=trace.format_span_id(context.span_id),
                sampled=context.trace_flags.sampled,
            )
            if context.is_valid
            else None
        )

    @property
    def recording(self) -> bool:
        """Whether it is worth putting attributes together."""
        return self._span.is_recording()

    @_quietly
    def set(self, attributes: Attributes | Callable[[], Attributes]) -> None:
        """Sets attributes; those that are None are left out.

        A function is only called for a span that is recorded, and may fail like the rest.
        """
        if not self._span.is_recording():
            return
        given = attributes() if callable(attributes) else attributes
        self._span.set_attributes(
            {key: _bounded(value) for key, value in given.items() if value is not None}
        )

    @_quietly
    def event(self, name: str, attributes: Attributes) -> None:
        """Adds an event; its name must be a constant."""
        self._span.add_event(
            name, {key: _bounded(value) for key, value in attributes.items() if value is not None}
        )

    @_quietly
    def link(self, traceparent: str | None, relation: str) -> None:
        """Links another span; None and a malformed one are no link."""
        target = _span_context(traceparent) if traceparent else None
        if traceparent is None or target is None:
            return
        self._links.append((traceparent, relation))
        if len(self._links) <= names.MAX_LINKS:
            self._span.add_link(target, {names.RELATION: relation})

    @_quietly
    def failed(self, error: BaseException) -> None:
        """Marks the span with the error's class; its text may quote what was stored."""
        name = limited(type(error).__name__)
        self._span.set_attribute(names.ERROR_TYPE, name)
        self._span.set_status(Status(StatusCode.ERROR, name))

    @_quietly
    def end(self) -> None:
        """Ends the span."""
        if self._links:
            shown = self._links[: names.MAX_CANDIDATES]
            self._span.set_attributes(
                {
                    names.LINK_COUNT: len(self._links),
                    names.LINKED_SPANS: [traceparent for traceparent, _ in shown],
                    names.LINK_RELATIONS: [relation for _, relation in shown],
                }
            )
        self._span.end()

    @contextmanager
    def current(self) -> Generator[None]:
        """Makes it the current span, so that spans opened inside are its children."""
        if self.ref is None:  # no SDK, or no span wanted: the host's stays the current one
            yield
            return
        with trace.use_span(
            self._span, end_on_exit=False, record_exception=False, set_status_on_exception=False
        ):
            yield


class Tracing:
    """Opens our spans on the host's provider.

    Args:
        provider: None takes the global one, at each span, since the host may set it late.
        store_id: Names the store on every span.
        server: Host and port of the ledger or index server; None when both are embedded.
    """

    def __init__(
        self,
        provider: trace.TracerProvider | None,
        content: ContentPolicy,
        *,
        version: str,
        store_id: str,
        server: tuple[str, int] | None = None,
    ) -> None:
        self._tracer = trace.get_tracer("memplugin", version, provider)
        self._version, self._store_id, self._server = version, store_id, server
        self._kind = SpanKind.CLIENT if server else SpanKind.INTERNAL
        self.content = content
        self._store: dict[str, AttributeValue] = {
            names.STORE_ID: store_id,
            names.CONTENT_MODE: content.mode,
        }
        if server:
            self._store |= {names.SERVER_ADDRESS: server[0], names.SERVER_PORT: server[1]}

    def start(self, operation: names.Operation, context: MemoryContext) -> Hop:
        """Opens a span, a child of the ambient one; the caller ends it."""
        if suppressed():
            return Hop(trace.INVALID_SPAN)
        try:
            parent = parent_context()
            span = self._tracer.start_span(
                operation.span_name,
                context=parent,
                kind=self._kind,
                attributes=self._store | _identity(operation, context),
            )
            # A tracer that makes none hands out its parent: that one is not ours to write on.
            ours = span.get_span_context() != trace.get_current_span(parent).get_span_context()
            return Hop(span if ours else trace.INVALID_SPAN)
        except Exception:  # noqa: BLE001 -- a host's sampler or processor may raise anything
            _log.warning("a span could not be started", exc_info=True)
            return Hop(trace.INVALID_SPAN)

    def on(self, provider: trace.TracerProvider) -> Tracing:
        """The same on another provider."""
        return Tracing(
            provider,
            self.content,
            version=self._version,
            store_id=self._store_id,
            server=self._server,
        )

    @contextmanager
    def hop(self, operation: names.Operation, context: MemoryContext) -> Generator[Hop]:
        """Opens a span around a block, as the current one."""
        hop = self.start(operation, context)
        try:
            with hop.current():
                yield hop
        except BaseException as error:
            hop.failed(error)
            raise
        finally:
            hop.end()


def _identity(operation: names.Operation, context: MemoryContext) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        names.OPERATION: operation.span_name,
        names.TASK_ID: limited(context.task),
        names.TASK_BUCKET: bucket(randomness(context.task)),
        names.SESSION_ID: limited(context.session_id),
        names.CONVERSATION_ID: limited(context.session_id),
        names.WORKSPACE_ID: limited(context.workspace_id),
        names.ARM: limited(context.arm),
        names.SCHEMA: names.SCHEMA_VERSION,
    }
    if operation.genai:
        attributes[names.OPERATION_NAME] = operation.span_name
    return attributes


def _bounded(value: Any) -> AttributeValue:
    if isinstance(value, str):
        return limited(value)
    if isinstance(value, Sequence):
        items: Sequence[Any] = value  # pyright: ignore[reportUnknownVariableType] -- of any items
        return [limited(item) if isinstance(item, str) else item for item in items]
    return value


def _span_context(traceparent: str) -> SpanContext | None:
    parts = traceparent.split("-")
    if len(parts) != 4:
        return None
    context = SpanContext(
        trace_id=int(parts[1], 16),
        span_id=int(parts[2], 16),
        is_remote=True,
        trace_flags=TraceFlags(int(parts[3], 16)),
    )
    return context if context.is_valid else None
