"""Compares the answers of a stored decision run with a record and without it.

The messages of the two sides differ by one record only, so that a difference between the
answers comes from that record or from chance; a test says which. Pure: the caller makes the
runs.

The test compares how many runs of each side gave the *usual* answer, the most frequent one
over both sides together. Choosing it over both keeps the test exact: if it were the usual
answer of one side, that side would give it more often because of the choice alone, and a
model that answers at random would seem to depend on the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memplugin.diagnosis.statistics import (
    SIGNIFICANT,
    detectable,
    difference_interval,
    p_value,
    share_interval,
)
from memplugin.records import Answered, Bearing, Counterfactual, Json, Noun, Runs
from memplugin.text import canonical_json
from memplugin.use.key_order import is_reasoning
from memplugin.use.schema import OWN_FIELDS

Same = Callable[[Json, Json], bool]
"""Whether two answers are the same to the caller: an equivalence."""

LEAST_RUNS = 4
"""On fewer runs a side not even a complete change is significant (3 and 3: p = 0.1)."""

SURE_RUNS = 3
"""Runs a side that a change of a deterministic model's answer is confirmed on."""

NEGLIGIBLE = 0.5
"""A record is ``not`` load-bearing when a change of this share of answers is ruled out."""


def equal_json(left: Json, right: Json) -> bool:
    """The default of ``Same``: equal values, whatever the order of keys."""
    return canonical_json(left) == canonical_json(right)


def answer_in(values: Mapping[str, Any], schema: Mapping[str, Any]) -> Json:
    """The answer in a reply's values: what is decided, without the reasoning for it.

    A field called like reasoning is reasoning when it stands before what is decided;
    after it, it was declared as part of the answer.
    """
    properties = [name for name in schema.get("properties", ()) if name not in OWN_FIELDS]
    decided = [place for place, name in enumerate(properties) if not is_reasoning(name)]
    first = decided[0] if decided else 0
    reasons = {*OWN_FIELDS, *(n for n in properties[:first] if is_reasoning(n))}
    return {name: value for name, value in values.items() if name not in reasons}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The two sides compared; the fields are described in ``Counterfactual``."""

    verdict: Bearing
    flip: bool
    p_value: float | None
    detectable: float | None
    with_record: Runs
    without_record: Runs


def compare(
    kept: Sequence[Json | None],
    left_out: Sequence[Json | None],
    same: Same = equal_json,
    *,
    deterministic: bool = False,
) -> Comparison:
    """Tests whether the answers without a record differ from those with it.

    Args:
        kept: Answers of the runs with the record; None for a reply that decided nothing.
        left_out: Answers of the runs without it.
        same: Whether two answers are the same.
        deterministic: Whether the model can't vary, so that a difference is not by chance.

    Returns:
        The verdict, with the numbers that it rests on.

    Raises:
        ConfigError: SciPy is not installed.
    """
    groups = _grouped([*kept, *left_out], same)
    one, other = _tallied(kept, groups, same), _tallied(left_out, groups, same)
    usual = _most_frequent([a + b for a, b in zip(one, other, strict=True)])
    with_record = _side(groups, one, usual)
    without_record = _side(groups, other, usual)
    seen = Comparison("uncertain", _flips(one, other), None, None, with_record, without_record)
    if deterministic:
        return replace(seen, verdict="load_bearing" if seen.flip else "not")
    runs = (len(kept), len(left_out))
    if min(runs) < LEAST_RUNS:
        return seen
    counts = (with_record.usual, without_record.usual)
    p, change = p_value(counts, runs), detectable(1 - with_record.variation, runs)
    verdict = _bearing(p, change, difference_interval(counts, runs))
    return replace(seen, verdict=verdict, p_value=p, detectable=change)


def _bearing(p: float, change: float | None, difference: tuple[float, float]) -> Bearing:
    if p < SIGNIFICANT:
        return "load_bearing"
    if change is None:  # the answers vary so much that nothing could have been seen
        return "uncertain"
    low, high = difference
    return "not" if low > -NEGLIGIBLE and high < NEGLIGIBLE else "uncertain"


def _grouped(answers: Iterable[Json | None], same: Same) -> list[Json | None]:
    """One answer for each group of equal ones, in an order that no side has a say in."""
    groups: list[Json | None] = []
    for answer in sorted(answers, key=_spelling):
        if not any(alike(answer, first, same) for first in groups):
            groups.append(answer)
    return groups


def _spelling(answer: Json | None) -> str:
    return "" if answer is None else canonical_json(answer)


def alike(left: Json | None, right: Json | None, same: Same) -> bool:
    """Whether two runs came to the same; replies that decided nothing are alike.

    Args:
        left: The answer of one run; None when it decided nothing.
        right: The answer of the other run.
        same: The caller's equality of two answers.
    """
    if left is None or right is None:
        return left is right
    return same(left, right)


def _tallied(
    answers: Sequence[Json | None], groups: Sequence[Json | None], same: Same
) -> list[int]:
    counts = [0] * len(groups)
    for answer in answers:
        place = next(i for i, first in enumerate(groups) if alike(answer, first, same))
        counts[place] += 1
    return counts


def _most_frequent(counts: Sequence[int]) -> int:
    return max(range(len(counts)), key=lambda place: counts[place], default=0)


def _flips(one: Sequence[int], other: Sequence[int]) -> bool:
    if not (sum(one) and sum(other)):
        return False
    return 2 * other[_most_frequent(one)] < sum(other)


def _side(groups: Sequence[Json | None], counts: Sequence[int], usual: int) -> Runs:
    given = [Answered(answer, runs) for answer, runs in zip(groups, counts, strict=True) if runs]
    ordered = sorted(given, key=lambda answered: -answered.runs)
    return Runs(tuple(ordered), counts[usual] if counts else 0)


# ---------------------------------------------------------------- against citations


@dataclass(frozen=True, slots=True)
class CitationAgreement(Noun):
    """How far citations agree with counterfactuals, over records that were shown.

    Attributes:
        interval: The 95 % interval of the share that agrees.
        uncertain: Records whose counterfactual is uncertain; they are not counted.
    """

    cited_load_bearing: int
    cited_not: int
    uncited_load_bearing: int
    uncited_not: int
    uncertain: int
    interval: tuple[float, float]

    @property
    def compared(self) -> int:
        """How many records were compared."""
        cited = self.cited_load_bearing + self.cited_not
        return cited + self.uncited_load_bearing + self.uncited_not

    @property
    def agreement(self) -> float | None:
        """The share on which both agree; None when there is nothing to compare."""
        agreeing = self.cited_load_bearing + self.uncited_not
        return agreeing / self.compared if self.compared else None


def citation_agreement(found: Iterable[Counterfactual]) -> CitationAgreement:
    """Compares citations with counterfactuals, the latest of each record in each decision.

    Raises:
        ConfigError: SciPy is not installed.
    """
    return citations_against(Counter((one.cited, one.verdict) for one in latest(found)))


def citations_against(counts: Counter[tuple[bool, Bearing]]) -> CitationAgreement:
    """The agreement by counts of records, each by whether it was cited and by its verdict.

    Raises:
        ConfigError: SciPy is not installed.
    """
    agreeing = counts[True, "load_bearing"] + counts[False, "not"]
    uncertain = counts[True, "uncertain"] + counts[False, "uncertain"]
    return CitationAgreement(
        cited_load_bearing=counts[True, "load_bearing"],
        cited_not=counts[True, "not"],
        uncited_load_bearing=counts[False, "load_bearing"],
        uncited_not=counts[False, "not"],
        uncertain=uncertain,
        interval=share_interval(agreeing, counts.total() - uncertain),
    )


def latest(found: Iterable[Counterfactual]) -> list[Counterfactual]:
    """The last counterfactual of each record in each decision."""
    ordered = sorted(found, key=lambda one: one.created_at)  # the same time: as they came
    return list({(one.decision_id, one.record_id): one for one in ordered}.values())
