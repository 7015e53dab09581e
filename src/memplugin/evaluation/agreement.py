"""How far annotators agree on gold facts, and how far two judgements name the same stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from memplugin.diagnosis.statistics import Estimate, share
from memplugin.evaluation.suite import Session
from memplugin.records import Noun


@dataclass(frozen=True, slots=True)
class AnnotatorAgreement(Noun):
    """Two annotators over the sessions that both have read.

    Attributes:
        both: How many facts both noted.
        only_one: How many facts only the first noted, and only the other.
        agreement: 2·both / (2·both + only the first + only the other), the F1 of one
            annotator against the other. It is not corrected for chance, since facts that
            neither noted can't be counted.
        shared: The share of all facts that both noted, with its interval.
        kappa: Cohen's kappa over the users' messages: does a message say something to
            remember? Corrected for chance. None when both say the same of every message.
        messages: How many messages ``kappa`` is taken over.
    """

    annotators: tuple[str, str]
    both: int
    only_one: tuple[int, int]
    agreement: float | None
    shared: Estimate
    kappa: float | None
    messages: int


def agreements(sessions: Iterable[Session]) -> list[AnnotatorAgreement]:
    """The agreement of every two annotators who have read the same sessions.

    Raises:
        ConfigError: SciPy is not installed.
    """
    shared = [session for session in sessions if len(session.annotators) > 1]
    names = sorted({name for session in shared for name in session.annotators})
    return [
        _agreement(one, other, both_read)
        for one, other in combinations(names, 2)
        if (both_read := [s for s in shared if {one, other} <= set(s.annotators)])
    ]


def undisputed(session: Session) -> tuple[list[int], list[int]]:
    """The places of gold facts that every annotator noted, and of those that only some did."""
    everyone = set(session.annotators)
    agreed = [p for p, fact in enumerate(session.gold) if not fact.by or set(fact.by) == everyone]
    return agreed, [p for p in range(len(session.gold)) if p not in agreed]


def _agreement(one: str, other: str, sessions: Sequence[Session]) -> AnnotatorAgreement:
    by = [set(fact.by or session.annotators) for session in sessions for fact in session.gold]
    both = sum({one, other} <= names for names in by)
    first = sum(one in names and other not in names for names in by)
    second = sum(other in names and one not in names for names in by)
    marks = [
        (_mark(session, turn, one), _mark(session, turn, other))
        for session in sessions
        for turn, message in enumerate(session.messages)
        if message.role == "user"
    ]
    total = 2 * both + first + second
    return AnnotatorAgreement(
        annotators=(one, other),
        both=both,
        only_one=(first, second),
        agreement=2 * both / total if total else None,
        shared=share(both, both + first + second),
        kappa=cohens_kappa(marks),
        messages=len(marks),
    )


def _mark(session: Session, turn: int, name: str) -> str:
    marked = any(f.turn == turn and name in (f.by or session.annotators) for f in session.gold)
    return "something" if marked else "nothing"


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Cohen's kappa (Educational and Psychological Measurement 20, 1960).

    Returns:
        None where it is not defined: there is nothing to compare, or both give one and the
        same label to all.
    """
    n = len(pairs)
    first, second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    agreed = sum(one == other for one, other in pairs)
    by_chance = sum(first[label] * second[label] for label in first)  # times n squared
    if by_chance == n * n:
        return None
    return (agreed * n - by_chance) / (n * n - by_chance)


Pair = tuple[str, str]
"""The labels that the first and the second judge give one thing."""


@dataclass(frozen=True, slots=True)
class Agreement(Noun):
    """How far two judges give the same labels.

    Attributes:
        agreed: How many things have the same label from both.
        share: Their share of the things that both have judged, with its interval.
        kappa: Cohen's kappa: 1 for full agreement, 0 for as much as chance gives; None
            when both give one and the same label to all, or nothing was compared.
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
    """How well one judge finds the things to which the other gives one label.

    Attributes:
        precision: Of the things that the judge labels so, the share that the other does.
        recall: Of the things that the other labels so, the share that the judge does.
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
