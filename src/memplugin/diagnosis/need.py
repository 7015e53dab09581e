"""Whether one text says what another needs: a deterministic, conservative comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence

from memplugin.text import STOP_WORDS
from memplugin.write.negation import negative

CARRIES_AT = 0.6
"""The share of the needed words that a text must have: three words of five, four of six."""

_WORD = re.compile(r"\w+")
_FILLER = STOP_WORDS | {
    "always",
    "forward",
    "get",
    "going",
    "let",
    "like",
    "make",
    "please",
    "really",
    "told",
    "user",
    "users",
    "want",
    "wants",
}
_SUFFIXES = ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s")


def words_of(text: str) -> tuple[str, ...]:
    """The words that are no stop words, stemmed, in order, each once."""
    found = (w for w in _WORD.findall(text.casefold()) if w not in _FILLER and len(w) > 1)
    return tuple(dict.fromkeys(_stem(word) for word in found))


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word.removesuffix(suffix)
    return word


def coverage(needed: Sequence[str], text: str) -> float:
    """The share of the needed words that a text has, 0 to 1."""
    if not needed:
        return 0.0
    there = set(words_of(text))
    return sum(word in there for word in needed) / len(needed)


def carries(needed: str, text: str) -> bool:
    """Whether a text says what is needed: it has enough of its words, and the same negation."""
    return coverage(words_of(needed), text) >= CARRIES_AT and negative(needed) == negative(text)
