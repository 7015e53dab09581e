"""What memory costs and what it is worth: waste on passing tasks, and the arms compared.

Attribution is about tasks that failed. A memory that is shown and not used on a task that
passes is in none of its rows: it is counted here as waste.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from memplugin.config import MemoryConfig
from memplugin.diagnosis.counterfactual import CitationAgreement, citations_against
from memplugin.diagnosis.statistics import Estimate, mean, share_interval
from memplugin.diagnosis.task_record import CandidateEntry, TaskRecord
from memplugin.evaluation.results import MEMORY_OFF, MEMORY_ON, TaskRun
from memplugin.records import Bearing, Noun


@dataclass(frozen=True, slots=True)
class Waste(Noun):
    """Memories shown on tasks that passed, compared with those that were of use.

    Attributes:
        tasks: Passing tasks with a recall.
        shown: Records shown to a task.
        cited: How many of these the answer cites. A citation is no proof of use.
        load_bearing: Records without which the answer changes, over the tasks with
            counterfactuals; None without any.
        tokens_shown: Tokens of the records shown to a task.
        uncited_tokens: The share of these tokens in records that were not cited.
        idle_tokens: The share in records that are not load-bearing, over the tasks with
            counterfactuals.
        shown_counts: How many tasks were shown how many records.
    """

    tasks: int
    shown: Estimate
    cited: Estimate
    load_bearing: Estimate | None
    tokens_shown: Estimate
    uncited_tokens: float | None
    idle_tokens: float | None
    shown_counts: Mapping[int, int]


def waste_of(
    runs: Iterable[TaskRun],
    count_tokens: Callable[[str], int] | None = None,
) -> Waste:
    """Counts the waste over the passing tasks with memory.

    Raises:
        ConfigError: SciPy is not installed.
    """
    count = count_tokens or MemoryConfig().count_tokens
    records = [
        run.record
        for run in runs
        if run.arm == MEMORY_ON and run.success and run.record and run.record.retrieval
    ]
    tried = [record for record in records if record.use.counterfactuals]

    def tokens(candidates: Iterable[CandidateEntry]) -> int:
        return sum(count(c.content or "") for c in candidates)

    all_tokens = [tokens(shown_of(record)) for record in records]
    uncited = [
        tokens(c for c in shown_of(r) if c.record_id not in r.use.cited_record_ids) for r in records
    ]
    idle = [tokens(c for c in shown_of(r) if c.record_id not in bearing_of(r)) for r in tried]
    return Waste(
        tasks=len(records),
        shown=mean([len(shown_of(record)) for record in records]),
        cited=mean([_cited(record) for record in records]),
        load_bearing=mean([len(bearing_of(record)) for record in tried]) if tried else None,
        tokens_shown=mean(all_tokens),
        uncited_tokens=_ratio(sum(uncited), sum(all_tokens)),
        idle_tokens=_ratio(sum(idle), sum(tokens(shown_of(record)) for record in tried)),
        shown_counts=dict(sorted(Counter(len(shown_of(r)) for r in records).items())),
    )


def shown_of(record: TaskRecord) -> list[CandidateEntry]:
    """The records that were shown."""
    return [c for c in record.retrieval.candidates if c.injected] if record.retrieval else []


def bearing_of(record: TaskRecord) -> set[str]:
    """The ids of the records without which the answer changes."""
    return {c.record_id for c in record.use.counterfactuals if c.verdict == "load_bearing"}


def citations_of(runs: Iterable[TaskRun]) -> CitationAgreement | None:
    """How far citations agree with counterfactuals; None without counterfactuals.

    Raises:
        ConfigError: SciPy is not installed.
    """
    counts = Counter[tuple[bool, Bearing]](
        (entry.record_id in run.record.use.cited_record_ids, entry.verdict)
        for run in runs
        if run.record
        for entry in run.record.use.counterfactuals
    )
    return citations_against(counts) if counts else None


def _cited(record: TaskRecord) -> int:
    shown = {candidate.record_id for candidate in shown_of(record)}
    return len(shown & set(record.use.cited_record_ids))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None


# ---------------------------------------------------------------- arms


Finding = Literal["helps", "hurts", "no difference shown"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a task, and which way is better."""

    name: str
    of: Callable[[TaskRun], float]
    better: Literal["higher", "lower"]


METRICS: tuple[Metric, ...] = (
    Metric("success", lambda run: float(bool(run.success)), "higher"),
    Metric("corrections", lambda run: float(run.corrections), "lower"),
    Metric("tokens", lambda run: float(run.cost.tokens), "lower"),
    Metric("latency_ms", lambda run: run.cost.answer_ms, "lower"),
)
"""To add one, append it."""


@dataclass(frozen=True, slots=True)
class Compared(Noun):
    """One metric in both arms.

    Attributes:
        on: Its mean with memory.
        off: Its mean without memory.
        difference: With memory minus without, the mean over tasks, with its interval.
        quantiles: Of the differences: minimum, quartile, median, quartile, maximum.
        rose: Tasks whose number is higher with memory.
        fell: Tasks whose number is lower with it.
        finding: What the interval shows; when it contains 0, neither help nor harm.
        differences: The difference of each task, in the order of the pairs.
    """

    metric: str
    on: float
    off: float
    difference: Estimate
    quantiles: tuple[float, float, float, float, float]
    rose: int
    fell: int
    same: int
    finding: Finding
    differences: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ArmsReport(Noun):
    """Both arms, paired by task.

    Attributes:
        pairs: The tasks that have a result in both arms.
        unpaired: The tasks that have not; they are not counted.
        helped: Tasks that only succeed with memory.
        hurt: Tasks that only succeed without it.
        finding: The finding of the metric ``success``.
    """

    pairs: tuple[str, ...]
    unpaired: tuple[str, ...]
    metrics: tuple[Compared, ...]
    helped: tuple[str, ...]
    hurt: tuple[str, ...]
    finding: Finding


def compare_arms(runs: Iterable[TaskRun], metrics: Sequence[Metric] = METRICS) -> ArmsReport | None:
    """Compares the arms ``memory_on`` and ``memory_off``.

    Returns:
        None when no task has a result in both.

    Raises:
        ConfigError: SciPy is not installed.
    """
    done = [run for run in runs if run.error is None]
    on = {run.task_id: run for run in done if run.arm == MEMORY_ON}
    off = {run.task_id: run for run in done if run.arm == MEMORY_OFF}
    pairs = tuple(task_id for task_id in on if task_id in off)
    if not pairs:
        return None
    compared = tuple(_compared(m, [on[i] for i in pairs], [off[i] for i in pairs]) for m in metrics)
    success = next((c for c in compared if c.metric == "success"), None)
    return ArmsReport(
        pairs=pairs,
        unpaired=tuple(sorted(on.keys() ^ off.keys())),
        metrics=compared,
        helped=tuple(i for i in pairs if on[i].success and not off[i].success),
        hurt=tuple(i for i in pairs if off[i].success and not on[i].success),
        finding=success.finding if success else "no difference shown",
    )


def _compared(metric: Metric, on: Sequence[TaskRun], off: Sequence[TaskRun]) -> Compared:
    with_memory, without = [metric.of(run) for run in on], [metric.of(run) for run in off]
    differences = tuple(a - b for a, b in zip(with_memory, without, strict=True))
    difference = mean(differences)
    if metric.name == "success":
        difference = _where_all_agree(difference)
    low, q1, median, q3, high = (
        float(q) for q in np.quantile(differences, [0, 0.25, 0.5, 0.75, 1])
    )
    return Compared(
        metric=metric.name,
        on=fmean(with_memory),
        off=fmean(without),
        difference=difference,
        quantiles=(low, q1, median, q3, high),
        rose=sum(d > 0 for d in differences),
        fell=sum(d < 0 for d in differences),
        same=sum(d == 0 for d in differences),
        finding=_finding(difference, metric.better),
        differences=differences,
    )


def _where_all_agree(difference: Estimate) -> Estimate:
    """An interval for successes that all differ in the same way, or not at all.

    There the bootstrap always draws the same value, and its interval is a point, however
    few the tasks are. Wilson's bound still limits the share of tasks that differ in another
    way and were not drawn; each of them counts against the difference that was seen.
    """
    if difference.value is None or difference.low != difference.high:
        return difference
    missed = share_interval(0, difference.n)[1]
    if difference.value == 0:
        return replace(difference, low=-missed, high=missed)
    bound = 1 - 2 * missed
    if difference.value > 0:
        return replace(difference, low=bound)
    return replace(difference, high=-bound)


def _finding(difference: Estimate, better: str) -> Finding:
    if difference.low is None or difference.high is None:
        return "no difference shown"
    if difference.low > 0:
        return "helps" if better == "higher" else "hurts"
    if difference.high < 0:
        return "hurts" if better == "higher" else "helps"
    return "no difference shown"
