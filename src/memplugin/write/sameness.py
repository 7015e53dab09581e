"""When two scopes or two claims are the same."""

from __future__ import annotations

from typing import Any

from memplugin.records import Claim, MemoryRecord, Proposal
from memplugin.text import normalised


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
