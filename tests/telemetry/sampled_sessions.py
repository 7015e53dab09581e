"""One process of an agent: it opens one session of each task and says what was sampled."""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider

from memplugin import MemoryContext
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.sampling import task_baggage, task_sampler
from memplugin.telemetry.spans import Tracing

Seen = tuple[bool, str]
"""Whether our span was sampled, and its tracestate."""


def open_sessions(process: int, tasks: int, ratio: float) -> list[Seen]:
    """Session ``process`` of every task; who opens the root span differs between processes."""
    provider = TracerProvider(sampler=task_sampler(ratio))
    tracing = Tracing(provider, ContentPolicy("none", b""), version="0", store_id="st")
    host = provider.get_tracer("host")

    def session(task: str) -> Seen:
        context = MemoryContext("ws", f"{task}_s{process}", task_id=task)
        if process == 0:  # memplugin's own span is the root
            return _seen(tracing, context)
        if process == 1:  # the host's is, and the task is in its baggage
            with task_baggage(task), host.start_as_current_span("request"):
                return _seen(tracing, context)
        attributes = {names.TASK_ID: task}
        with host.start_as_current_span("request", attributes=attributes):
            return _seen(tracing, context)

    return [session(f"t_{number:05}") for number in range(tasks)]


def _seen(tracing: Tracing, context: MemoryContext) -> Seen:
    hop = tracing.start(names.SEARCH, context)
    hop.end()
    state = hop._span.get_span_context().trace_state
    assert hop.ref
    return hop.ref.sampled, state.to_header()
