"""Which records have had their chance. Pure: retiring them is the caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memplugin.config import LearnConfig, MemoryConfig
from memplugin.learning.utility import utility
from memplugin.records import CreditTotals, Eviction, MemoryRecord

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
