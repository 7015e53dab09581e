"""With memory against without: the same tasks in both arms, compared task by task.

A mean hides that a feature helps some tasks and hurts others, so the differences of the
single tasks are kept: how many went up, how many down, and how far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

import numpy as np

from memplugin.diagnosis.chance import share_interval
from memplugin.evaluation.intervals import Estimate, mean
from memplugin.evaluation.results import MEMORY_OFF, MEMORY_ON, TaskRun
from memplugin.records import Noun

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
        difference: With memory less without, the mean over tasks, with its interval.
        quantiles: Of the tasks' differences: least, quarter, half, three quarters, most.
        rose: Tasks whose number is higher with memory.
        fell: Tasks whose number is lower with it.
        finding: What the interval says; when it holds 0, neither help nor harm is shown.
        differences: Of each task, in the order of the pairs.
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
        pairs: The tasks that ended in both arms.
        unpaired: Those that did not; they count for nothing.
        helped: Tasks that only succeed with memory.
        hurt: Tasks that only succeed without it.
        finding: That of the metric ``success``.
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
        None when no task ended in both.

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

    There the bootstrap has nothing to draw from, and its interval is a point, however few
    the tasks. What can still be said is how many tasks that differ could have been missed:
    Wilson's bound, each of them counted against what was seen.
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
