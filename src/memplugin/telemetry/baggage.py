"""The task id as baggage, so that spans opened by others in the same task can carry it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import baggage, context

from memplugin.telemetry import names
from memplugin.telemetry.content import limited


@contextmanager
def task_baggage(task_id: str) -> Generator[None]:
    """Puts the task id into the ambient baggage for a block.

    Spans that others open inside, the request's own among them, are sampled by it
    (``memplugin.telemetry.sampling``), and it travels to other services in the W3C
    ``baggage`` header.
    """
    # As our spans show it; a lone surrogate would make the header's propagator raise.
    token = context.attach(baggage.set_baggage(names.TASK_ID, limited(task_id)))
    try:
        yield
    finally:
        context.detach(token)
