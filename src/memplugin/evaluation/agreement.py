"""How far two judges agree: raw, beyond chance, and name by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memplugin.evaluation.annotators import cohens_kappa
from memplugin.evaluation.intervals import Estimate, share
from memplugin.records import Noun

Pair = tuple[str, str]
"""What the first and what the second says of one thing."""


@dataclass(frozen=True, slots=True)
class Agreement(Noun):
    """How far two judges say the same.

    Attributes:
        agreed: Of how many things.
        share: Of those that both have judged, with its interval: raw agreement.
        kappa: Cohen's: 1 for full agreement, 0 for as much as chance gives; None when
            both only ever say one and the same thing, or nothing was compared.
    """

    agreed: int
    share: Estimate
    kappa: float | None


def agreement(pairs: Sequence[Pair]) -> Agreement:
    """Raw agreement and Cohen's kappa.

    Raises:
        ConfigError: SciPy is not installed.
    """
    agreed = sum(first == second for first, second in pairs)
    return Agreement(agreed, share(agreed, len(pairs)), cohens_kappa(pairs))


@dataclass(frozen=True, slots=True)
class NameScore(Noun):
    """How well one judge finds what the other calls by one name.

    Attributes:
        precision: Of what the judge calls so, the share that the other calls so too.
        recall: Of what the other calls so, the share that the judge calls so too.
    """

    name: str
    precision: Estimate
    recall: Estimate


def name_scores(pairs: Sequence[Pair], names: Iterable[str]) -> list[NameScore]:
    """Precision and recall of the first judge against the second, for each name in use.

    Raises:
        ConfigError: SciPy is not installed.
    """
    return [
        NameScore(
            name,
            precision=_agreeing([pair for pair in pairs if pair[0] == name]),
            recall=_agreeing([pair for pair in pairs if pair[1] == name]),
        )
        for name in names
        if any(name in pair for pair in pairs)
    ]


def _agreeing(pairs: Sequence[Pair]) -> Estimate:
    return share(sum(first == second for first, second in pairs), len(pairs))
