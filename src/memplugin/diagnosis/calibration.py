"""How far the signs of a followed memory agree with counterfactuals. Pure.

A judge or a cosine shows that an action agrees with a memory. A counterfactual shows that the
decision changes without it: only that is a cause. The share on which the two agree says how
far the first can replace the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from memplugin.diagnosis.counterfactual import latest
from memplugin.diagnosis.statistics import share_interval
from memplugin.records import Counterfactual, Followed, Noun

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
