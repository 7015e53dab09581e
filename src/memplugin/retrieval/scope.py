"""Does a record apply to a request, and how specifically.

A record applies when each key of its scope is in the request's scope with an equal value.
So the scopes that apply are exactly the subsets of the request's scope: the database and
the index can select them by equality.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from memplugin.records import Scope
from memplugin.text import canonical_json


def scope_key(scope: Scope) -> str:
    """The canonical text of a scope, as it is stored and compared."""
    return canonical_json(dict(scope))


def applicable_keys(request: Mapping[str, str]) -> frozenset[str]:
    """Canonical texts of every scope that applies to a request: 2^n of them."""
    items = sorted(request.items())
    return frozenset(
        scope_key(dict(chosen))
        for size in range(len(items) + 1)
        for chosen in combinations(items, size)
    )


def applies(scope: Scope, request: Mapping[str, str]) -> bool:
    """Whether each key of the scope is in the request with an equal value."""
    return all(request.get(key) == value for key, value in scope.items())


def specificity(scope: Scope) -> int:
    """Number of keys: the more, the narrower."""
    return len(scope)
