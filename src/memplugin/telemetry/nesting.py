"""Where our spans belong beside other instrumentations."""

from __future__ import annotations

import sys
from typing import Any

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # pyright: ignore[reportPrivateUsage] -- it has no public name yet
    Context,
)

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
