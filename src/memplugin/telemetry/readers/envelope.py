"""OTLP as JSON, in all the forms in which backends give it, to spans.

Ids in hex or base64, with or without leading zeros; enums as numbers or names; 64-bit
integers as numbers or strings; spans under ``resourceSpans``, ``batches``, ``result``
or ``trace``. Field names are those of the OTLP specification, 1.11.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from memplugin.telemetry.readers.model import ReadEvent, ReadLink, ReadSpan, Values

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
