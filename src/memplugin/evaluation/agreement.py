"""How far two judges agree: raw, beyond chance, and class by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memplugin.diagnosis.chance import share_interval
from memplugin.records import Noun

Pair = tuple[str, str]
"""What the first and what the second says of one thing."""


@dataclass(frozen=True, slots=True)
class Agreement(Noun):
    """How far two judges say the same.

    Attributes:
        compared: How many things both have judged.
        interval: 95 %, of the share that agrees.
        kappa: Cohen's: 1 for full agreement, 0 for as much as chance gives; None when
            both only ever say one and the same thing, or nothing was compared.
    """

    compared: int
    agreed: int
    interval: tuple[float, float]
    kappa: float | None

    @property
    def share(self) -> float | None:
        """Raw agreement; None when nothing was compared."""
        return self.agreed / self.compared if self.compared else None


def agreement(pairs: Sequence[Pair]) -> Agreement:
    """Raw agreement, and Cohen's kappa (Educational and Psychological Measurement 20, 1960).

    Raises:
        ConfigError: SciPy is not installed.
    """
    agreed = sum(first == second for first, second in pairs)
    return Agreement(
        compared=len(pairs),
        agreed=agreed,
        interval=share_interval(agreed, len(pairs)),
        kappa=_kappa(pairs, agreed),
    )


def _kappa(pairs: Sequence[Pair], agreed: int) -> float | None:
    n = len(pairs)
    first, second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    by_chance = sum(first[label] * second[label] for label in first)  # times n squared
    if by_chance == n * n:  # nothing compared, or only one word ever said
        return None
    return (agreed * n - by_chance) / (n * n - by_chance)


@dataclass(frozen=True, slots=True)
class Share(Noun):
    """A share with its 95 % interval; of nothing it has no value."""

    count: int
    of: int
    interval: tuple[float, float]

    @classmethod
    def among(cls, count: int, of: int) -> Share:
        """Counts with their interval (Wilson's score).

        Raises:
            ConfigError: SciPy is not installed.
        """
        return cls(count, of, share_interval(count, of))

    @property
    def value(self) -> float | None:
        """The share; None of nothing."""
        return self.count / self.of if self.of else None


@dataclass(frozen=True, slots=True)
class ClassScore(Noun):
    """How well one judge finds what the other calls by one name.

    Attributes:
        precision: Of what the judge calls so, the share that is.
        recall: Of what is so, the share that the judge calls so.
    """

    label: str
    precision: Share
    recall: Share


def class_scores(pairs: Sequence[Pair], labels: Iterable[str]) -> list[ClassScore]:
    """Precision and recall of the first judge against the second, label by label.

    Raises:
        ConfigError: SciPy is not installed.
    """
    return [
        ClassScore(
            label,
            precision=_share_of([p for p in pairs if p[0] == label]),
            recall=_share_of([p for p in pairs if p[1] == label]),
        )
        for label in labels
        if any(label in pair for pair in pairs)
    ]


def _share_of(pairs: Sequence[Pair]) -> Share:
    return Share.among(sum(first == second for first, second in pairs), len(pairs))
