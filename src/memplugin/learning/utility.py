"""What outcomes say about a record: the value of an attempt, credit, and who should be evicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memplugin.config import CreditWeights, Grades, LearnConfig, MemoryConfig, twentieths
from memplugin.records import Credited, CreditTotals, Eviction, MemoryRecord


def grade(*, succeeded: bool, attempt: int, failure_mode: str | None, grades: Grades) -> float:
    """The value of an attempt's outcome.

    A first-try win is worth more than a late one, and breaking the environment less than
    nothing: without a negative value a memory that did harm looks like one that was beside
    the point.

    Args:
        succeeded: Whether it passed.
        attempt: Which attempt at the task it was, from 1.
        failure_mode: How it failed; the table may have a value for it.
        grades: The table.

    Returns:
        From -1 to 1.
    """
    if not succeeded:
        return grades.failure_modes.get(failure_mode or "", grades.failed)
    reached = [value for first, value in grades.passed if attempt >= first]
    return reached[-1]


def weight(followed: bool | None, cosine: float | None, weights: CreditWeights) -> float:  # noqa: FBT001 -- a value, not a switch
    """How much of an attempt's outcome a memory that was shown in it gets.

    The judge's word, else the cosine, else ``unknown``: so rows that were never scored, of
    before there were scores too, count as the neutral weight.

    Args:
        followed: The judge's word; None when it gave none.
        cosine: Of memory and action; None when there is none.
        weights: The table.

    Returns:
        From 0 to 1.
    """
    if followed is not None:
        return weights.followed if followed else weights.ignored
    if cosine is None:
        return weights.unknown
    return weights.close if twentieths(cosine) >= weights.close_twentieths else weights.far


def utility(totals: Credited | CreditTotals, config: LearnConfig) -> float:
    """What showing a memory was worth, on average over attempts, shrunk towards the prior.

    ``(Σ value·confidence·weight + prior_attempts·prior) / (attempts + prior_attempts)``: the
    mean of a normal quantity whose prior weighs as much as that many observations
    (Gelman et al., Bayesian Data Analysis, 2.5). One attempt neither makes nor breaks it.
    """
    attempts = totals.attempts + config.prior_attempts
    if attempts == 0:
        return config.prior
    return (totals.credited + config.prior_attempts * config.prior) / attempts


def credit(totals: Credited | CreditTotals | None, config: LearnConfig) -> float:
    """The score part: utility above the prior; 0 for a record without a history."""
    return 0.0 if totals is None else utility(totals, config) - config.prior


def is_misleading(totals: CreditTotals, *, after: int, rarely: float) -> bool:
    """Whether a memory looks good for being there, and was rarely followed when it was.

    Its outcomes are positive on average, and of the successes in which it was shown it was
    followed in less than a share. Whatever it says, the successes are not its doing.

    Args:
        totals: What is known of it.
        after: Successes of which it must be known.
        rarely: The share.

    Returns:
        Whether the audit should name it.
    """
    known, followed = totals.successes_known
    return totals.outcome > 0 and known >= after and followed < rarely * known


NEGATIVE_UTILITY = "negative_utility"
"""Following it did harm, on average."""

RARELY_FOLLOWED = "rarely_followed"
"""It was shown in many successes, and the judge found it followed in few of them."""


def evictions(
    records: Iterable[MemoryRecord], totals: Mapping[str, CreditTotals], config: MemoryConfig
) -> list[Eviction]:
    """The records that should be retired, the least useful first.

    Never one that is pinned, and none of a standing kind: what a user wants to hold is
    revoked by the user.

    Args:
        records: The candidates.
        totals: What is known of each; a record without any stays.
        config: ``learn`` has the thresholds, ``standing_kinds`` who is spared.

    Returns:
        What is to be retired, with the reason.
    """
    found: list[Eviction] = []
    for record in records:
        known = totals.get(record.id)
        spared = record.pinned or record.status != "active" or record.kind in config.standing_kinds
        if known is None or spared:
            continue
        if reason := _reason(known, config.learn):
            worth = utility(known, config.learn)
            found.append(Eviction(record.id, record.content, record.kind, reason, worth, known))
    return sorted(found, key=lambda eviction: (eviction.utility, eviction.record_id))


def _reason(totals: CreditTotals, config: LearnConfig) -> str | None:
    # The sum has the sign of the mean; shrinking it towards a prior could hide that.
    if totals.attempts >= config.evict_after and totals.credited < 0:
        return NEGATIVE_UTILITY
    # The judge's word only: a cosine hardly tells "do X" from "do not X".
    few = totals.followed_successes < config.rarely * totals.judged_successes
    if totals.judged_successes >= config.evict_after and few:
        return RARELY_FOLLOWED
    return None
