"""Values of more than one text as attributes: JSON that is never cut in the middle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.names import MAX_STRING_BYTES, MAX_TEXTS_BYTES

_dumped = json.JSONEncoder(separators=(",", ":")).encode  # ASCII: a character is a byte


def shown_fields(fields: Mapping[str, Any], content: ContentPolicy) -> dict[str, Any]:
    """Fields with their values as the content mode has them; None stands for a value left out."""
    if content.mode == "full":
        return dict(fields)
    # A model makes up keys, too.
    return {content.label(key) or "": content.shown(str(value)) for key, value in fields.items()}


def fields_json(fields: Mapping[str, Any], content: ContentPolicy) -> str:
    """The same as one JSON text; the values go, and then the keys, when it gets too long."""
    shown = shown_fields(fields, content)
    return whole_json(shown) or whole_json(dict.fromkeys(shown)) or ""


def whole_json(value: Any) -> str | None:
    """A JSON text that fits into an attribute; None when it is too long."""
    text = _dumped(value)
    return text if len(text) <= MAX_STRING_BYTES else None


def texts_that_fit(texts: Sequence[str], content: ContentPolicy) -> list[str] | None:
    """The first texts, with empty ones for the rest, where the content mode shows any.

    A batch of spans that is too large is lost whole, so all texts of a span together have
    a limit too. A keyed hash says nothing that the record's id does not say.
    """
    if content.mode not in ("truncate", "full"):
        return None
    left = MAX_TEXTS_BYTES
    shown: list[str] = []
    for text in texts:
        one = content.shown(text) or ""
        left -= len(one.encode())
        shown.append(one if left >= 0 else "")
    return shown


def whole_list(items: Sequence[Any]) -> str:
    """The first items, as many as fit into an attribute, as a JSON array."""
    shown = ""
    for item in items:
        longer = f"{shown},{_dumped(item)}" if shown else _dumped(item)
        if len(longer) + 2 > MAX_STRING_BYTES:
            break
        shown = longer
    return f"[{shown}]"
