"""Ranking: a policy turns what is known of each hit into numbers, and numbers into ranks.

Pure: the same hits under the same policy always give the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memplugin.records import MemoryRecord


@dataclass(frozen=True, slots=True)
class Hit:
    """One record that a source brought.

    Attributes:
        dense: Cosine of the query and the content; None without a vector.
        around: Cosine of the query and the text around it; None without such a text.
        lexical: Score of the full-text search, 0 to 1; 0 when it did not find it.
        beside: For a linked record, the same for the query without the words that name the
            thing it is linked by; None where there are no such words.
        standing: Place in the order of standing records, from 0; None when it is none.
        applies: Whether its scope applies to the request.
        topic: How much of what the request is about its scope names, 0 to 1.
        linked: Whether its scope names the thing that the request is about.
        age_days: Since it became true, at the time of the request.
        credit: What showing it was worth so far, above what an unknown record is worth;
            0 without a history, and under a policy that is not ``credited``.
    """

    record: MemoryRecord
    dense: float | None = None
    around: float | None = None
    lexical: float = 0.0
    beside: float | None = None
    standing: int | None = None
    applies: bool = True
    topic: float = 0.0
    linked: bool = False
    age_days: float = 0.0
    credit: float = 0.0
    sources: tuple[str, ...] = ()


Part = Callable[[Hit], float]
"""One reason for a rank, as a number."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A named, versioned list of score parts with weights.

    Attributes:
        parts: Name to (function, weight); the score is the weighted sum.
        sources: Which sources it asks: ``dense``, ``lexical``, ``standing``,
            ``structural``.
        floored: Whether hits that are too unlike the query are cut.
        credited: Whether each hit's credit is looked up.
    """

    name: str
    version: int
    parts: Mapping[str, tuple[Part, float]]
    sources: frozenset[str]
    floored: bool
    credited: bool = True

    @property
    def label(self) -> str:
        """Name and version, as stored."""
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A hit with its place."""

    hit: Hit
    rank: int
    score: float
    parts: Mapping[str, float]


def rank(hits: Sequence[Hit], policy: Policy) -> list[Ranked]:
    """Orders hits by score, those whose scope does not apply after all others.

    Equal scores are ordered by time, the newest first, then by id.
    """
    scored = [(hit, {name: part(hit) for name, (part, _) in policy.parts.items()}) for hit in hits]
    weights = {name: weight for name, (_, weight) in policy.parts.items()}
    totals = [
        (hit, sum(weights[name] * value for name, value in parts.items()), parts)
        for hit, parts in scored
    ]
    totals.sort(
        key=lambda item: (
            not item[0].applies,
            -item[1],
            -item[0].record.occurred_at.timestamp(),
            item[0].record.id,
        )
    )
    return [Ranked(hit, place, score, parts) for place, (hit, score, parts) in enumerate(totals, 1)]
