"""The audit: records that a person should look at, and how far judges can be trusted. Pure.

Whether a record was followed is decided by a judge or a cosine, which is a heuristic. The
audit names records to look at; it proves nothing about any of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Any, Literal

from memplugin.config import LearnConfig
from memplugin.diagnosis.counterfactual import latest
from memplugin.diagnosis.statistics import share_interval
from memplugin.learning.utility import is_misleading, utility
from memplugin.records import (
    Counterfactual,
    CreditTotals,
    Disagreement,
    Followed,
    MemoryRecord,
    Noun,
    Scope,
)
from memplugin.text import normalised


@dataclass(frozen=True, slots=True)
class Misleading(Noun):
    """A record that was shown in successful attempts, and was rarely followed in them.

    Attributes:
        outcome: The mean of value times confidence of the attempts it was shown in: its
            credit by outcome alone.
        utility: Its credit by whether it was followed, shrunk towards the prior.
        followed: In how many of the ``known`` successes it was followed.
        sign: What decided whether it was followed.
    """

    record_id: str
    content: str
    kind: str
    pinned: bool
    attempts: int
    successes: int
    known: int
    followed: int
    outcome: float
    utility: float
    sign: Sign


@dataclass(frozen=True, slots=True)
class NeverShown(Noun):
    """An active record that no recall has shown."""

    record_id: str
    content: str
    kind: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Duplicate(Noun):
    """Two active records of one scope that say nearly the same."""

    record_ids: tuple[str, str]
    contents: tuple[str, str]
    cosine: float


@dataclass(frozen=True, slots=True)
class Contradiction(Noun):
    """Two active records that claim different values of a field for the same requests.

    Neither scope is a part of the other, so that neither record is a special case.
    """

    field: str
    record_ids: tuple[str, str]
    values: tuple[Any, Any]
    scopes: tuple[Scope, Scope]


@dataclass(frozen=True, slots=True)
class Audit(Noun):
    """Everything found in one workspace.

    Attributes:
        records: How many are active.
        far_apart: Rows on which judge and cosine disagree.
        notes: What could not be audited, and why.
    """

    workspace_id: str
    records: int
    misleading: tuple[Misleading, ...]
    far_apart: tuple[Disagreement, ...]
    never_shown: tuple[NeverShown, ...]
    duplicates: tuple[Duplicate, ...]
    contradictions: tuple[Contradiction, ...]
    notes: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether there is anything to look at."""
        return any((self.misleading, self.far_apart, self.duplicates, self.contradictions))


def misleading(
    records: Iterable[MemoryRecord], totals: Mapping[str, CreditTotals], config: LearnConfig
) -> tuple[Misleading, ...]:
    """Records with a positive outcome that were rarely followed, the most misleading first.

    Args:
        records: The active records.
        totals: The credit of each record, by its id.
        config: From how many attempts, and below which share, a record is misleading.

    Returns:
        The misleading records.
    """
    found: list[Misleading] = []
    for record in records:
        known = totals.get(record.id)
        if known and is_misleading(known, after=config.audit_after, rarely=config.rarely):
            found.append(_misleading(record, known, config))
    return tuple(sorted(found, key=lambda m: (-m.outcome * m.successes, m.record_id)))


def _misleading(record: MemoryRecord, totals: CreditTotals, config: LearnConfig) -> Misleading:
    known, followed = totals.successes_known
    return Misleading(
        record_id=record.id,
        content=record.content,
        kind=record.kind,
        pinned=record.pinned,
        attempts=totals.attempts,
        successes=totals.successes,
        known=known,
        followed=followed,
        outcome=totals.outcome / totals.attempts,
        utility=utility(totals, config),
        sign="judge" if totals.judged_successes else "cosine",
    )


def never_shown(records: Iterable[MemoryRecord], shown: Collection[str]) -> tuple[NeverShown, ...]:
    """Records that no recall has shown, the oldest first."""
    hidden = [record for record in records if record.id not in shown]
    hidden.sort(key=lambda record: (record.created_at, record.id))
    return tuple(NeverShown(r.id, r.content, r.kind, r.created_at) for r in hidden)


def duplicates(
    records: Sequence[MemoryRecord], near: Iterable[tuple[str, str, float]]
) -> tuple[Duplicate, ...]:
    """Pairs of records that say nearly the same in the same scope, the nearest first.

    Args:
        records: The active ones.
        near: Pairs of ids with their cosine; a pair may be there twice.
    """
    by_id = {record.id: record for record in records}
    found: dict[tuple[str, str], Duplicate] = {}
    for one, other, cosine in near:
        pair = (min(one, other), max(one, other))
        first, second = by_id.get(pair[0]), by_id.get(pair[1])
        if first is None or second is None or first is second or first.scope != second.scope:
            continue
        found[pair] = Duplicate(pair, (first.content, second.content), round(cosine, 4))
    return tuple(sorted(found.values(), key=lambda d: (-d.cosine, d.record_ids)))


def contradictions(records: Iterable[MemoryRecord]) -> tuple[Contradiction, ...]:
    """Pairs of different claims that apply to the same request, neither before the other."""
    by_field: dict[str, list[MemoryRecord]] = {}
    for record in sorted(records, key=lambda record: (record.created_at, record.id)):
        for field in record.claim or {}:
            by_field.setdefault(field, []).append(record)
    return tuple(
        found for field in sorted(by_field) for found in _contradictions(field, by_field[field])
    )


def _contradictions(field: str, records: Sequence[MemoryRecord]) -> Iterator[Contradiction]:
    for one, other in combinations(records, 2):
        values = (one.claim or {})[field], (other.claim or {})[field]
        differ = normalised(str(values[0])) != normalised(str(values[1]))
        if differ and _meet(one.scope, other.scope):
            yield Contradiction(field, (one.id, other.id), values, (one.scope, other.scope))


def _meet(one: Scope, other: Scope) -> bool:
    """Whether both can apply to one request, and neither is the narrower of the two."""
    if any(other.get(key, value) != value for key, value in one.items()):
        return False
    nested = one.items() < other.items() or other.items() < one.items()
    return not nested


Sign = Literal["judge", "cosine"]


@dataclass(frozen=True, slots=True)
class SignAgreement(Noun):
    """One sign that a record was followed, compared with counterfactuals, over shown records.

    Attributes:
        followed_load_bearing: Followed, by this sign, and the decision changes without it.
        followed_not: Followed, and the decision is the same without it.
        interval: The 95 % interval of the share that agrees.
    """

    sign: Sign
    followed_load_bearing: int
    followed_not: int
    ignored_load_bearing: int
    ignored_not: int
    interval: tuple[float, float]

    @property
    def compared(self) -> int:
        """How many records were compared."""
        followed = self.followed_load_bearing + self.followed_not
        return followed + self.ignored_load_bearing + self.ignored_not

    @property
    def agreement(self) -> float | None:
        """The share on which both agree; None when there is nothing to compare."""
        agreeing = self.followed_load_bearing + self.ignored_not
        return agreeing / self.compared if self.compared else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa: 1 for full agreement, 0 for as much as chance gives.

        None where one side always says the same, so that it is not defined.
        """
        n = self.compared
        followed = self.followed_load_bearing + self.followed_not
        bearing = self.followed_load_bearing + self.ignored_load_bearing
        chance = (followed * bearing + (n - followed) * (n - bearing)) / n**2 if n else 1.0
        if self.agreement is None or chance == 1.0:
            return None
        return (self.agreement - chance) / (1 - chance)


@dataclass(frozen=True, slots=True)
class Calibration(Noun):
    """The agreement over a sample of shown records.

    Attributes:
        sampled: How many shown records the sample has.
        of: How many there were to draw from.
        uncertain: How many counterfactuals are uncertain; they are not counted.
        close_from: The cosine from which a record counts as followed.
    """

    sampled: int
    of: int
    uncertain: int
    close_from: float
    judge: SignAgreement
    cosine: SignAgreement


def calibration(
    sample: Sequence[Followed],
    found: Iterable[Counterfactual],
    *,
    of: int,
    close_from: float,
) -> Calibration:
    """Compares the signs with the latest counterfactual of each record.

    Args:
        sample: The records that were drawn, with their signs.
        found: Counterfactuals of these records.
        of: How many records there were to draw from.
        close_from: The cosine from which a record counts as followed.

    Returns:
        The agreement of each sign.

    Raises:
        ConfigError: SciPy is not installed.
    """
    verdicts = {(one.decision_id, one.record_id): one.verdict for one in latest(found)}
    known = [(row, verdicts[row.key]) for row in sample if row.key in verdicts]
    certain = [(row, verdict == "load_bearing") for row, verdict in known if verdict != "uncertain"]
    judged = [(row.followed, b) for row, b in certain if row.followed is not None]
    compared = [(row.cosine >= close_from, b) for row, b in certain if row.cosine is not None]
    return Calibration(
        sampled=len(known),
        of=of,
        uncertain=len(known) - len(certain),
        close_from=close_from,
        judge=_agreement("judge", judged),
        cosine=_agreement("cosine", compared),
    )


def _agreement(sign: Sign, pairs: Sequence[tuple[bool, bool]]) -> SignAgreement:
    counted = Counter(pairs)
    agreeing = counted[True, True] + counted[False, False]
    return SignAgreement(
        sign=sign,
        followed_load_bearing=counted[True, True],
        followed_not=counted[True, False],
        ignored_load_bearing=counted[False, True],
        ignored_not=counted[False, False],
        interval=share_interval(agreeing, len(pairs)),
    )
