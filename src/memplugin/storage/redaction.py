"""Taking a text out of other texts. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, cast
from xml.sax.saxutils import escape as escape_text

FORGOTTEN = "[forgotten]"
"""Stands where a forgotten text stood."""

_SHORT = 12
"""Up to this length a text is only looked for as a whole word: "tea", not in "steam"."""

_PLAIN_RUN = re.compile(r"[A-Za-z0-9 .,_/:;()-]+")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]")


class Redactor:
    """Replaces texts wherever they stand verbatim, quoted as JSON or escaped as XML."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(dict.fromkeys(text for text in texts if text.strip()))
        spelled = {(spelling, text) for text in self.texts for spelling in _spellings(text)}
        # The longest first, or a part of it would be replaced and the rest stay.
        longest = sorted(spelled, key=lambda pair: (-len(pair[0]), pair[0]))
        self._pattern = re.compile("|".join(_pattern(*pair) for pair in longest) or r"(?!)")

    def text(self, text: str) -> str:
        """Returns the text without them."""
        return self._pattern.sub(FORGOTTEN, text)

    def json(self, value: Any) -> Any:
        """Returns a JSON value without them; keys keep their order."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            pairs = cast(Mapping[str, Any], value).items()
            return {self.text(key): self.json(inner) for key, inner in pairs}
        if isinstance(value, list):
            return [self.json(inner) for inner in cast(list[Any], value)]
        return value


def anchor(text: str) -> str:
    """The longest run of a text that looks the same however the text is escaped.

    It may be empty; whatever holds the text holds its anchor.
    """
    return max(_PLAIN_RUN.findall(text), key=len, default="")


def _spellings(text: str) -> set[str]:
    plain = {
        text,
        escape(text),
        escape_text(text),
        escape(text, quote=False).replace('"', "&quot;"),
    }
    once = {_quoted(form, ascii_) for form in plain for ascii_ in (False, True)}
    return plain | once | {_quoted(form, ascii_) for form in once for ascii_ in (False, True)}


def _quoted(text: str, ascii_: bool) -> str:  # noqa: FBT001 -- both are tried in a loop
    return json.dumps(text, ensure_ascii=ascii_)[1:-1]


def _pattern(spelling: str, text: str) -> str:
    pattern = re.escape(spelling)
    if len(text) > _SHORT:
        return pattern
    if _ASCII_WORD.match(spelling[0]):
        # A quoted line break ends in a letter, and is no part of a word.
        pattern = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf]))" + pattern
    if _ASCII_WORD.match(spelling[-1]):
        pattern += r"(?![A-Za-z0-9_])"
    return pattern
