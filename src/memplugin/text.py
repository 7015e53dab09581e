"""English words that say nothing about a subject, left out of full-text queries."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

STOP_WORDS = frozenset(
    (  # noqa: SIM905 -- a list literal would take a line for each word
        "a about above after again against all also am an and any are as at be because been "
        "before being below between both but by can could d did do does doing don down during "
        "each few for from further had has have having he her here hers herself him himself "
        "his how i if in into is it its itself just ll m me more most my myself no nor not now "
        "of off on once only or other our ours ourselves out over own re s same she should so "
        "some such t than that the their theirs them themselves then there these they this "
        "those through to too under until up us ve very was we were what when where which "
        "while who whom why will with would you your yours yourself yourselves"
    ).split()
)


MEMORY_OPEN = "<memory-context>"
MEMORY_CLOSE = "</memory-context>"

_SURROGATES = re.compile("[\ud800-\udfff]")
_MEMORY_BLOCK = re.compile(
    re.escape(MEMORY_OPEN) + r".*?(?:" + re.escape(MEMORY_CLOSE) + r"|\Z)", re.DOTALL
)


def clean(text: str) -> str:
    """Makes a text storable everywhere: no NUL, no lone surrogate.

    PostgreSQL refuses NUL; a lone surrogate can't be encoded, and in a span it loses
    the whole export batch.
    """
    text = text.replace("\x00", "")
    return text if text.isascii() else _SURROGATES.sub("\ufffd", text)


def clean_json(value: Any) -> Any:
    """Cleans every string inside a JSON-like value, keys included."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(str(k)): clean_json(v) for k, v in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] -- JSON of any shape
    if isinstance(value, list | tuple):
        return [clean_json(v) for v in value]  # pyright: ignore[reportUnknownVariableType] -- JSON of any shape
    return value


def normalised(text: str) -> str:
    """The form in which two texts are compared: NFC, case folded, blanks collapsed."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def canonical_json(value: object) -> str:
    """One text for equal values: sorted keys, no blanks, NaN refused.

    Raises:
        ValueError: NaN or an infinity is inside.
    """
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


_LINE_ENDS = {ord(c): f"\\u{ord(c):04x}" for c in "\x7f\x85\u2028\u2029"}
"""Ends of lines that JSON leaves as they are (it escapes those below U+0020)."""


def json_line(value: Mapping[str, Any]) -> str:
    """JSON on one line, whatever takes which character for a line's end."""
    return json.dumps(value, ensure_ascii=False).translate(_LINE_ENDS)


def digest(*parts: str, length: int = 24) -> str:
    """A hex digest of parts; no two different tuples of parts are joined alike."""
    framed = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(framed.encode("utf-8")).hexdigest()[:length]


def without_memory_blocks(text: str) -> str:
    """Leaves out blocks of injected memory, so that a recalled memory is not learnt again."""
    return _MEMORY_BLOCK.sub("", text)
