"""The time asked for, in pieces that every backend accepts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from memplugin.telemetry.readers.model import ReadSpan

LONGEST = timedelta(days=7)
"""Tempo refuses a search over more than 168 hours."""


def windows(since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Consecutive windows of at most seven days, the oldest first."""
    start = since
    while start < until:
        end = min(start + LONGEST, until)
        yield start, end
        start = end


def within(span: ReadSpan, since: datetime, until: datetime) -> bool:
    """Whether a span began in a window."""
    return since.timestamp() <= span.start / 1e9 <= until.timestamp()


def rfc3339(time: datetime) -> str:
    """A time as Jaeger reads it."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")
