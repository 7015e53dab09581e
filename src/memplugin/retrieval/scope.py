"""Does a record apply to a request, and how specifically.

A record applies when each key of its scope is in the request's scope with an equal value.
So the scopes that apply are exactly the subsets of the request's scope: the database and
the index can select them by equality.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations

from memplugin.claims import precedence
from memplugin.records import MemoryRecord, Resolved, Scope
from memplugin.text import canonical_json

_WORD = re.compile(r"\w+")


def scope_key(scope: Scope) -> str:
    """The canonical text of a scope, as it is stored and compared."""
    return canonical_json(dict(scope))


def applicable_keys(request: Mapping[str, str]) -> frozenset[str]:
    """Canonical texts of every scope that applies to a request: 2^n of them."""
    return frozenset(scope_key(scope) for scope in _subsets(request))


def linked_keys(request: Mapping[str, str], keys: Collection[str]) -> frozenset[str]:
    """Canonical texts of the scopes that apply to a request and are linked to it."""
    return frozenset(
        scope_key(scope) for scope in _subsets(request) if linked(scope, request, keys)
    )


def _subsets(request: Mapping[str, str]) -> Iterator[dict[str, str]]:
    items = sorted(request.items())
    for size in range(len(items) + 1):
        yield from map(dict, combinations(items, size))


def linked(scope: Scope, request: Mapping[str, str], keys: Collection[str]) -> bool:
    """Whether a scope names the thing that a request is about, by one of some keys.

    Nothing else of the scope is asked for: a record about the same property is linked,
    whatever trade it is about.

    Args:
        scope: The record's.
        request: The request's.
        keys: Of a scope that name the thing a request is about.

    Returns:
        Whether it does.
    """
    return any(key in scope and scope[key] == request.get(key) for key in keys)


def applies(scope: Scope, request: Mapping[str, str]) -> bool:
    """Whether each key of the scope is in the request with an equal value."""
    return all(request.get(key) == value for key, value in scope.items())


def topic(scope: Scope, request: Mapping[str, str], apart: Collection[str]) -> float:
    """How much of what a request is about a record's scope names, 0 to 1.

    Args:
        scope: The record's.
        request: The request's scope.
        apart: Keys that say which thing or whose request it is, and not what about.

    Returns:
        The share of the request's other keys; 0 for a request without any.
    """
    about = {key: value for key, value in request.items() if key not in apart}
    named = sum(scope.get(key) == value for key, value in about.items())
    return named / len(about) if about else 0.0


def words_beside(query: str, values: Iterable[str]) -> str:
    """A query without the words that some values consist of."""
    named = {word.casefold() for value in values for word in _WORD.findall(value)}
    return _WORD.sub(lambda word: "" if word[0].casefold() in named else word[0], query)


def resolved(
    records: Iterable[MemoryRecord], field: str, request: Mapping[str, str]
) -> Resolved | None:
    """The value of the record that counts most among those that apply and claim the field.

    The narrowest scope wins, then pinned, then confidence, then the newest. An exception
    without a claim says what does not hold and not what does: it takes part in nothing.

    Args:
        records: In any order; retired ones and those of other scopes count for nothing.
        field: Of a claim.
        request: The request's scope.

    Returns:
        The value with its record; None when no record claims the field.
    """
    claiming = [
        record
        for record in records
        if record.status == "active"
        and field in (record.claim or {})
        and applies(record.scope, request)
    ]
    if not claiming:
        return None
    first = max(claiming, key=precedence)
    return Resolved(
        field=field,
        value=(first.claim or {})[field],
        record_id=first.id,
        scope=first.scope,
        confidence=first.confidence,
        pinned=first.pinned,
    )
