"""Claims: when two are the same, which one counts, and what it says against an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memplugin.records import Candidate, Claim, MemoryRecord, Proposal
from memplugin.text import normalised


def precedence(record: MemoryRecord) -> tuple[Any, ...]:
    """How much a record's claim counts among those that apply; the greatest wins.

    The narrowest scope, then pinned, then the most confident, then the newest.
    """
    return (
        len(record.scope),
        record.pinned,
        record.confidence,
        record.occurred_at,
        record.created_at,
        record.id,
    )


def contradicts(claim: Claim, answer: Mapping[str, Any]) -> str | None:
    """The first field of a claim for which an answer names another value."""
    for name, value in claim.items():
        if name in answer and normalised(str(answer[name])) != normalised(str(value)):
            return name
    return None


def contradicted_ids(candidates: Iterable[Candidate], answer: Mapping[str, Any]) -> tuple[str, ...]:
    """Of the candidates that were shown, those that an answer goes against."""
    return tuple(
        c.record_id for c in candidates if c.injected and c.claim and contradicts(c.claim, answer)
    )


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
