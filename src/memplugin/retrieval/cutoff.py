"""Which of the ranked hits are shown, and why each of the others is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memplugin.records import Candidate, Cut
from memplugin.retrieval.rank import Hit, Ranked

LIKE_ENOUGH_ON_TOPIC = 0.5
"""Share of the floor that will do for a record whose scope is about what the request is
about: "Wasps: whom to send?" and "Primex handles all pest issues" have a cosine of .16."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the cut is made by.

    Attributes:
        k: How many are shown by rank.
        k_standing: How many standing ones are shown beside them.
        floor: Least cosine to be shown, half of it for a record on the request's topic; None
            for no floor.
        lexical_floor: Full-text score that is as good, whatever the cosine.
        token_budget: Most tokens shown in all; None for no limit.
        count_tokens: Length of a text in tokens.
    """

    k: int
    k_standing: int
    floor: float | None
    lexical_floor: float
    token_budget: int | None
    count_tokens: Callable[[str], int]


def choose(ranked: Sequence[Ranked], limits: Limits) -> list[Candidate]:
    """Cuts a ranking.

    Standing hits come first, in their own order and up to ``k_standing``, whatever their
    rank; the others compete for k places by rank, standing ones beyond ``k_standing`` too.

    Returns:
        A candidate for every hit, in rank order.
    """
    cuts: dict[str, Cut | None] = {}
    spent = 0
    for item, cut in _in_order_of_showing(ranked, limits):
        if cut is None:
            cost = limits.count_tokens(item.hit.record.content)
            if limits.token_budget is not None and spent + cost > limits.token_budget:
                cut = "budget"
            else:
                spent += cost
        cuts[item.hit.record.id] = cut
    return [_candidate(item, cuts[item.hit.record.id]) for item in ranked]


def _in_order_of_showing(
    ranked: Sequence[Ranked], limits: Limits
) -> list[tuple[Ranked, Cut | None]]:
    standing = sorted(
        (r for r in ranked if r.hit.standing is not None and r.hit.applies),
        key=lambda r: r.hit.standing or 0,
    )[: limits.k_standing]
    beside = {r.hit.record.id for r in standing}
    order: list[tuple[Ranked, Cut | None]] = [(r, None) for r in standing]
    places = limits.k
    for item in ranked:
        if item.hit.record.id in beside:
            continue
        cut = _cut(item.hit, places, limits)
        places -= cut is None
        order.append((item, cut))
    return order


def _cut(hit: Hit, places: int, limits: Limits) -> Cut | None:
    if not hit.applies:
        return "inapplicable_scope"
    if places <= 0:
        return "below_cutoff"
    return None if _relevant(hit, limits) else "floor"


def _relevant(hit: Hit, limits: Limits) -> bool:
    if limits.floor is None or hit.standing is not None or hit.lexical >= limits.lexical_floor:
        return True
    enough = limits.floor * (LIKE_ENOUGH_ON_TOPIC if hit.topic else 1.0)
    return max(hit.dense or 0.0, hit.around or 0.0) >= enough


def _candidate(ranked: Ranked, cut: Cut | None) -> Candidate:
    record = ranked.hit.record
    return Candidate(
        record_id=record.id,
        content=record.content,
        kind=record.kind,
        scope=record.scope,
        claim=record.claim,
        confidence=record.confidence,
        pinned=record.pinned,
        occurred_at=record.occurred_at,
        rank=ranked.rank,
        score=ranked.score,
        parts=ranked.parts,
        sources=ranked.hit.sources,
        injected=cut is None,
        cut=cut,
        traceparent=record.traceparent,
    )
