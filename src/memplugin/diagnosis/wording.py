"""Whether one text carries what another says: a deterministic, conservative comparison."""

from __future__ import annotations

import re
from collections.abc import Sequence

CARRIES_AT = 0.6
"""Share of the needed words that must be there. Three words of five, four of six."""

_WORD = re.compile(r"\w+")
_NEGATIONS = frozenset(
    "not no never without stop stopped avoid avoids dislike dislikes hate hates cannot nor "
    "against refuse refuses don doesn didn won isn aren wasn shouldn can't couldn wouldn".split()
)
_FILLER = frozenset(
    """a about again all already also always am an and any anything are as at be been being but by
    can could did do does doing for forward from get go going had has have having he her here him
    his how i if in into is it its just let like make me my now of on or our out please should so
    some than that the their them then there these they this those to told too tell up us use used
    want was we were what when where which while who why will with would you your""".split()
)
_SUFFIXES = ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s")


def words_of(text: str) -> tuple[str, ...]:
    """The words that carry meaning, stemmed, in order, each once."""
    found = (w for w in _WORD.findall(text.casefold()) if w not in _FILLER and len(w) > 1)
    return tuple(dict.fromkeys(_stem(word) for word in found))


def _stem(word: str) -> str:
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word.removesuffix(suffix)
    return word


def coverage(needed: Sequence[str], text: str) -> float:
    """Share of the needed words that the text has, 0 to 1."""
    wanted = [word for word in needed if word not in _NEGATIONS]
    if not wanted:
        return 0.0
    there = set(words_of(text))
    return sum(word in there for word in wanted) / len(wanted)


def negated(text: str) -> bool:
    """Whether the text has a word that turns its meaning round."""
    return any(word in _NEGATIONS for word in _WORD.findall(text.casefold()))


def carries(needed: str, text: str) -> bool:
    """Whether a text says what is needed: enough of its words, and the same way round."""
    return coverage(words_of(needed), text) >= CARRIES_AT and negated(needed) == negated(text)
