"""A process of its own for an instrumentation that can't be taken out again.

``python nested_run.py MODULE CLASS`` runs the whole graph in each of its ways and prints,
for each, every span with its parent.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
import warnings
from importlib import import_module
from typing import Any

from graph_parts import ASKED, CONTEXT, whole_graph

from memplugin.testing import SpanCapture, memory_for_tests


def run(graph: Any, how: str) -> None:
    if how == "invoke":
        graph.invoke(ASKED, context=CONTEXT)
    elif how == "stream":
        list(graph.stream(ASKED, context=CONTEXT))
    elif how == "ainvoke":
        asyncio.run(graph.ainvoke(ASKED, context=CONTEXT))
    else:
        asyncio.run(exhaust(graph.astream(ASKED, context=CONTEXT)))


async def exhaust(stream: Any) -> None:
    async for _ in stream:
        pass


def spans_of(capture: SpanCapture) -> list[dict[str, Any]]:
    names = {span.get_span_context().span_id: span.name for span in capture.spans}
    return [
        {
            "name": span.name,
            "scope": span.instrumentation_scope.name if span.instrumentation_scope else None,
            "parent": names.get(span.parent.span_id) if span.parent else None,
            "trace": span.get_span_context().trace_id,
            "keys": sorted(span.attributes or {}),
        }
        for span in capture.spans
    ]


def main(module: str, name: str) -> None:
    capture = SpanCapture()
    getattr(import_module(module), name)().instrument(tracer_provider=capture.provider)
    seen: dict[str, Any] = {}
    for how in ("invoke", "ainvoke", "stream", "astream"):
        capture.clear()
        with memory_for_tests(tracer_provider=capture.provider) as memory:
            graph = whole_graph(memory)
            with capture.provider.get_tracer("host").start_as_current_span("request"):
                contextvars.copy_context().run(run, graph, how)  # what it leaves attached goes
        seen[how] = spans_of(capture)
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
