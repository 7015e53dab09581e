"""Does a record apply to a request, and how specifically.

A record applies when each key of its scope is in the request's scope with an equal value.
So the scopes that apply are exactly the subsets of the request's scope: the database and
the index can select them by equality.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

from memplugin.records import Scope
from memplugin.text import canonical_json


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
    """
    return any(key in scope and scope[key] == request.get(key) for key in keys)


def applies(scope: Scope, request: Mapping[str, str]) -> bool:
    """Whether each key of the scope is in the request with an equal value."""
    return all(request.get(key) == value for key, value in scope.items())


def share(scope: Scope, request: Mapping[str, str]) -> float:
    """How much of a request's scope a record's names, 0 to 1; 0 for a request without one.

    Among records that apply it grows with the number of their keys: the narrowest is 1.
    """
    named = sum(request.get(key) == value for key, value in scope.items())
    return named / len(request) if request else 0.0
