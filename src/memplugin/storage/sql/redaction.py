"""Takes a text out of other texts; pure functions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, cast

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
        # The longest first, or a part of it would be replaced and the rest stay.
        longest = sorted(self.texts, key=len, reverse=True)
        self._long = [s for text in longest if len(text) > _SHORT for s in _spellings(text)]
        short = [_whole(s) for text in longest if len(text) <= _SHORT for s in _spellings(text)]
        self._short = re.compile("|".join(short)) if short else None

    def text(self, text: str) -> str:
        """Returns the text without them."""
        for spelling in self._long:
            text = text.replace(spelling, FORGOTTEN)
        return self._short.sub(FORGOTTEN, text) if self._short else text

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


def _spellings(text: str) -> list[str]:
    plain = {
        text,
        escape(text),
        escape(text, quote=False),
        escape(text, quote=False).replace('"', "&quot;"),
    }
    once = {_quoted(form, ascii_only) for form in plain for ascii_only in (False, True)}
    twice = {_quoted(form, ascii_only) for form in once for ascii_only in (False, True)}
    return sorted(plain | once | twice, key=lambda spelling: (-len(spelling), spelling))


def _quoted(text: str, ascii_only: bool) -> str:  # noqa: FBT001 -- both are tried in a loop
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _whole(spelling: str) -> str:
    pattern = re.escape(spelling)
    if _ASCII_WORD.match(spelling[0]):
        # A quoted line break ends in a letter, and is no part of a word.
        pattern = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf]))" + pattern
    if _ASCII_WORD.match(spelling[-1]):
        pattern += r"(?![A-Za-z0-9_])"
    return pattern
