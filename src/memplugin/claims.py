"""What records claim: which claim counts, and what it says against an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memplugin.records import Candidate, Claim, MemoryRecord
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
