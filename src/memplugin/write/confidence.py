"""How sure memory is of what it holds: confidence from a seed and all the evidence.

``beta`` takes the confidence c a record was written with for a Beta distribution of
strength s and adds what was observed since::

    confidence = (c*s + for) / (s + for + against)

where each observation adds ``weight * salience``. All of it is summed, so no order of
arrival can matter.

An observation against a belief from a request with a narrower scope is a specialisation:
"Yonic handles all plumbing" is not wrong because toilets go to Abraham. It counts against
the narrower case (see ``observing``), and not against the belief before it is contradicted
from ``specialisations_to_lower`` distinct narrower scopes. From then on each of these
scopes counts once, by the strongest observation in it: how often one exception was met
says how sure the exception is; how many there are says how far the belief holds.

``ema`` is the rule that this replaces, ``old * 0.95 + |weight| * salience * 0.15`` in the
order in which things were observed. It settles at ``3 * |weight| * salience`` however often
that is observed, and knows no specialisation. The rule does not say what a contradiction
does; here it adds nothing, so that confidence decays: ten confirmations and nine
contradictions in turn, each of 0.2, take 0.81 to 0.50, which is what was seen. (Subtracting
would leave 0.33, adding as for a confirmation 0.68.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import fsum

from memplugin.config import MemoryConfig
from memplugin.ports import Weigh
from memplugin.records import Belief, Evidence, Scope
from memplugin.text import canonical_json

EMA_KEPT = 0.95
EMA_GAIN = 0.15
EMA_LIMIT = 3.0
"""What ``ema`` would settle at for a weight and salience of 1: 0.15 / (1 - 0.95)."""


def weigher(config: MemoryConfig) -> Weigh:
    """The confidence policy of a configuration."""

    def weigh(belief: Belief, evidence: Sequence[Evidence]) -> float:
        return confidence_of(belief, evidence, config)

    return weigh


def confidence_of(belief: Belief, evidence: Iterable[Evidence], config: MemoryConfig) -> float:
    """Confidence in a belief, given everything observed of it, 0 to 1.

    Args:
        belief: Its seed and scope. One that is pinned stays as it is.
        evidence: All of it, in any order.
        config: The policy, and how many specialisations lower a belief.

    Returns:
        From 0 to 1.
    """
    if belief.pinned_at is not None:
        return belief.pinned_at
    observed = list(evidence)
    if config.confidence_policy == "ema":
        return _moving_average(belief, observed)
    return _posterior(belief, observed, config.specialisations_to_lower)


def is_narrower(scope: Scope, than: Scope) -> bool:
    """Whether a scope has all keys of another with equal values, and further ones."""
    return len(scope) > len(than) and all(scope.get(key) == value for key, value in than.items())


def _posterior(belief: Belief, evidence: Sequence[Evidence], enough: int) -> float:
    supporting = fsum(e.amount for e in evidence if e.supports)
    against = [e for e in evidence if not e.supports]
    direct = fsum(e.amount for e in against if not is_narrower(e.scope, belief.scope))
    special = _specialisations(belief, against)
    lowering = fsum([direct, *(special if len(special) >= enough else ())])
    if not supporting + lowering:
        return belief.confidence  # exactly, which the quotient may miss by a rounding
    seed = belief.confidence * belief.strength
    return (seed + supporting) / (belief.strength + supporting + lowering)


def _specialisations(belief: Belief, against: Iterable[Evidence]) -> list[float]:
    """The strongest observation of each distinct narrower scope."""
    strongest: dict[str, float] = {}
    for piece in against:
        if piece.amount and is_narrower(piece.scope, belief.scope):
            where = canonical_json(dict(piece.scope))
            strongest[where] = max(piece.amount, strongest.get(where, 0.0))
    return list(strongest.values())


def _moving_average(belief: Belief, evidence: Sequence[Evidence]) -> float:
    confidence = belief.confidence
    for piece in sorted(evidence, key=lambda e: (e.at, e.id)):
        gain = piece.amount * EMA_GAIN if piece.supports else 0.0
        confidence = min(confidence * EMA_KEPT + gain, 1.0)
    return confidence


def ema_settles_at(weight: float, salience: float) -> float:
    """What ``ema`` comes to when the same is observed again and again."""
    return min(EMA_LIMIT * abs(weight) * salience, 1.0)


def rank_observations(
    evidence: Iterable[Evidence], *, now: datetime, half_life: timedelta
) -> list[tuple[Evidence, float]]:
    """Orders observations by ``salience * |weight| * recency decay``, the highest first.

    Args:
        evidence: In any order; equal ones are ordered by time, the newest first.
        now: From when on age counts; what lies after it is not older than now.
        half_life: Age at which an observation counts half.

    Returns:
        Each with its weight today, the heaviest first.
    """

    def score(piece: Evidence) -> float:
        age = max(now - piece.at, timedelta(0))
        return piece.amount * 0.5 ** (age / half_life)

    scored = [(piece, score(piece)) for piece in evidence]
    return sorted(scored, key=lambda pair: (-pair[1], -pair[0].at.timestamp(), pair[0].id))
