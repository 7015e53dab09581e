"""The task id as baggage, so that spans opened by others in the same task can carry it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import baggage, context

from memplugin.telemetry import names


@contextmanager
def task_baggage(task_id: str) -> Generator[None]:
    """Puts the task id into the ambient baggage for a block."""
    token = context.attach(baggage.set_baggage(names.TASK_ID, task_id))
    try:
        yield
    finally:
        context.detach(token)
