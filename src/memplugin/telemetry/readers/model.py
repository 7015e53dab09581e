"""Spans as they are read back, and reading them from an OTLP envelope."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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


TRACE_ID_LENGTH = 32
SPAN_ID_LENGTH = 16

_HEX = re.compile(r"[0-9a-fA-F]+")
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUSES = ("UNSET", "OK", "ERROR")
_WRAPPED_IN = ("result", "trace", "tracesData")

Json = dict[str, Any]


def is_envelope(document: Any) -> bool:
    """Whether a JSON document is one that may hold spans."""
    return isinstance(document, dict) and not {*_WRAPPED_IN, "resourceSpans", "batches"}.isdisjoint(
        cast(Json, document)
    )


def spans_in(document: Json) -> Iterator[ReadSpan]:
    """The spans of a document.

    Raises:
        ValueError: an id, number or time in it is none.
        TypeError, AttributeError: a part of it has another type than OTLP says.
    """
    for key in _WRAPPED_IN:
        if isinstance(document.get(key), dict):
            yield from spans_in(document[key])
    for group in document.get("resourceSpans") or document.get("batches") or ():
        resource = _attributes(_of(group, "resource").get("attributes"))
        scopes = group.get("scopeSpans") or group.get("instrumentationLibrarySpans") or ()
        for scope in scopes:
            for span in scope.get("spans") or ():
                yield _span(span, resource)


def hex_id(given: str | None, length: int) -> str:
    """An id in lower-case hex of full length.

    Base64 of 8 or 16 bytes always ends with ``=``; hex never does.

    Raises:
        ValueError: it is neither.
    """
    given = given or ""
    if given.endswith("="):
        given = base64.b64decode(given.replace("-", "+").replace("_", "/")).hex()
    if not _HEX.fullmatch(given) or len(given) > length:
        raise ValueError(f"{given!r} is no id of {length} hex digits")
    return given.lower().zfill(length)


def _span(span: Json, resource: Values) -> ReadSpan:
    parent = span.get("parentSpanId")
    return ReadSpan(
        trace_id=hex_id(span.get("traceId"), TRACE_ID_LENGTH),
        span_id=hex_id(span.get("spanId"), SPAN_ID_LENGTH),
        parent_id=hex_id(parent, SPAN_ID_LENGTH) if parent else None,
        name=span.get("name") or "",
        kind=_enum(span.get("kind"), _KINDS),
        start=int(span.get("startTimeUnixNano") or 0),
        end=int(span.get("endTimeUnixNano") or 0),
        status=_enum(_of(span, "status").get("code"), _STATUSES),
        attributes=_attributes(span.get("attributes")),
        events=tuple(_event(event) for event in span.get("events") or ()),
        links=tuple(_link(link) for link in span.get("links") or ()),
        resource=resource,
    )


def _of(outer: Json, key: str) -> Json:
    return cast(Json, outer.get(key) or {})


def _event(event: Json) -> ReadEvent:
    return ReadEvent(
        name=event.get("name") or "",
        time=int(event.get("timeUnixNano") or 0),
        attributes=_attributes(event.get("attributes")),
    )


def _link(link: Json) -> ReadLink:
    return ReadLink(
        trace_id=hex_id(link.get("traceId"), TRACE_ID_LENGTH),
        span_id=hex_id(link.get("spanId"), SPAN_ID_LENGTH),
        attributes=_attributes(link.get("attributes")),
    )


def _enum(given: str | int | None, names: tuple[str, ...]) -> str:
    if isinstance(given, str) and not given.isdigit():
        return next((name for name in names if given.endswith(name)), names[0])
    number = int(given or 0)
    return names[number] if number < len(names) else names[0]


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value") or {}) for pair in pairs or ()}


def _value(value: Json) -> Any:
    for kind, given in value.items():
        if kind in _VALUES:
            return _VALUES[kind](given)
    return None


def _list(array: Json) -> list[Any]:
    return [_value(item) for item in array.get("values") or ()]


def _map(pairs: Json) -> dict[str, Any]:
    return _attributes(pairs.get("values"))


_VALUES: dict[str, Callable[[Any], Any]] = {
    "stringValue": str,
    "boolValue": bool,
    "intValue": int,
    "doubleValue": float,
    "arrayValue": _list,
    "kvlistValue": _map,
    "bytesValue": str,
}
