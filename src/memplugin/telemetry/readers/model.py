"""A span as it is read back, whatever it was stored in, and how a reading went."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, cast

NoteKind = Literal["empty", "missing", "partial", "refused", "unreadable"]
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadEvent:
    """An event of a span; the time in nanoseconds since 1970."""

    name: str
    time: int
    attributes: Values


@dataclass(frozen=True, slots=True)
class ReadLink:
    """What a span points at. Some stores drop a link's attributes."""

    trace_id: str
    span_id: str
    attributes: Values


@dataclass(frozen=True, slots=True)
class ReadSpan:
    """One span.

    Attributes:
        trace_id: 32 hex digits.
        span_id: 16 hex digits.
        parent_id: None for a root.
        kind: ``INTERNAL``, ``CLIENT`` …
        start: Nanoseconds since 1970, as ``end``.
        status: ``UNSET``, ``OK`` or ``ERROR``.
        resource: Attributes of who sent it.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    kind: str
    start: int
    end: int
    status: str
    attributes: Values
    events: tuple[ReadEvent, ...] = ()
    links: tuple[ReadLink, ...] = ()
    resource: Values = field(default_factory=dict[str, Any])

    def text(self, key: str) -> str | None:
        """A string attribute."""
        value = self.attributes.get(key)
        return None if value is None else str(value)

    def number(self, key: str) -> float | None:
        """A number, also where a store has made it a string."""
        value = self.attributes.get(key)
        return None if value is None else float(value)

    def whole(self, key: str) -> int | None:
        """A whole number, also where a store has made it a string or a double."""
        value = self.number(key)
        return None if value is None else int(value)

    def flag(self, key: str) -> bool | None:
        """A boolean, also where a store has made it a string."""
        value = self.attributes.get(key)
        return None if value is None else _truth(value)

    def texts(self, key: str) -> tuple[str, ...]:
        """An array of strings; empty when it is not there."""
        return tuple(str(value) for value in self._items(key))

    def numbers(self, key: str) -> tuple[float, ...]:
        """An array of numbers."""
        return tuple(float(value) for value in self._items(key))

    def flags(self, key: str) -> tuple[bool, ...]:
        """An array of booleans."""
        return tuple(_truth(value) for value in self._items(key))

    def _items(self, key: str) -> list[Any]:
        value = self.attributes.get(key)
        if isinstance(value, str):
            # Jaeger on Elasticsearch, Cassandra and Badger keeps an array as JSON text.
            value = _array(value)
        return cast(list[Any], value) if isinstance(value, list) else []


def _truth(value: Any) -> bool:
    return value.lower() == "true" if isinstance(value, str) else bool(value)


def _array(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Note:
    """Something a reading lacks, and why; it ends with what to do.

    Attributes:
        kind: ``empty`` (nothing in the time asked for), ``missing`` (a trace that is
            referred to), ``partial`` (not all of it), ``refused`` (the backend would not
            or could not), ``unreadable`` (the answer is not what this backend gives).
    """

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class Read:
    """What a backend gave: each span once, in the order of time, and notes on the rest."""

    spans: tuple[ReadSpan, ...] = ()
    notes: tuple[Note, ...] = ()


def merged(reads: Iterable[Read]) -> Read:
    """Readings of several windows or traces as one; a span that is in two of them counts once."""
    spans: dict[tuple[str, str], ReadSpan] = {}
    notes: dict[Note, None] = {}
    for read in reads:
        for span in read.spans:
            spans.setdefault((span.trace_id, span.span_id), span)
        notes |= dict.fromkeys(read.notes)
    return Read(tuple(sorted(spans.values(), key=lambda s: (s.start, s.end))), tuple(notes))


class Source(Protocol):
    """Where spans are. Nothing here raises for what a backend does: a reading has notes."""

    def spans_of_task(self, task_id: str, since: datetime, until: datetime) -> Read:
        """Reads the traces in which a task left a span.

        Args:
            task_id: The task.
            since: The first moment that is looked through.
            until: The last one.

        Returns:
            Every span of these traces.
        """
        ...

    def spans_of_record(self, record_id: str, since: datetime, until: datetime) -> Read:
        """Reads the traces that wrote, replaced or deleted a record.

        Args:
            record_id: The record.
            since: The first moment that is looked through.
            until: The last one.

        Returns:
            Every span of these traces.
        """
        ...

    def spans_of_traces(self, trace_ids: Iterable[str], since: datetime, until: datetime) -> Read:
        """Reads traces by their ids.

        Args:
            trace_ids: In hex.
            since: A moment before all of them, for backends that have to be given one.
            until: A moment after all of them.

        Returns:
            Every span of these traces, and a note for each trace that is not there.
        """
        ...
