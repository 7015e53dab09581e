"""When two texts, scopes or claims are the same, and when they only look alike."""

from __future__ import annotations

import re
from typing import Any

from memplugin.records import Claim, MemoryRecord, Proposal
from memplugin.text import normalised
from memplugin.write.negation import TELLING, negative
from memplugin.write.quotes import folded

_WITH_DIGITS = re.compile(r"[^\s,;()\"']*\d[^\s,;()\"']*")
_CAPITALISED = re.compile(r"\b[^\W\d_a-z]\w*")

_GENERIC = frozenset(("the", "a", "an", "i", "user", "users", "they", "he", "she", "we", "it"))
"""Words that are capitalised without being names."""


def same_scope(record: MemoryRecord, proposal: Proposal) -> bool:
    """Whether both hold in the same place."""
    return dict(record.scope) == dict(proposal.scope)


def same_fields(one: Claim | None, other: Claim | None) -> bool:
    """Whether two claims are about the same fields."""
    return bool(one) and bool(other) and set(one or ()) == set(other or ())


def same_claim(one: Claim | None, other: Claim | None) -> bool:
    """Whether two claims say the same; two absent ones do."""
    if not one or not other:
        return not one and not other
    return set(one) == set(other) and all(_same_value(one[key], other[key]) for key in one)


def _same_value(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: texts as normalised, 1 as 1.0, never 1 as true."""
    if isinstance(one, str) and isinstance(other, str):
        return normalised(one) == normalised(other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def only_reworded(one: str, other: str) -> bool:
    """Whether nothing that is known to matter differs between two texts close in meaning.

    Numbers, names (capitalised words), negation, and words such as days or "net".
    """
    return (
        sorted(_numbers(one)) == sorted(_numbers(other))
        and negative(one) == negative(other)
        and _telling(one) == _telling(other)
        and _names(one) <= _all_words(other)
        and _names(other) <= _all_words(one)
    )


def _numbers(text: str) -> list[str]:
    return [number.strip(".:!?") for number in _WITH_DIGITS.findall(folded(text))]


def _telling(text: str) -> set[str]:
    return _all_words(text) & TELLING


def _names(text: str) -> set[str]:
    return {folded(word) for word in _CAPITALISED.findall(text)} - _GENERIC


def _all_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", folded(text)))
