"""The four plots of the report, from the tasks of a run or a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, timedelta

from memplugin.diagnosis.tally import STAGES
from memplugin.evaluation.arms import ArmsReport
from memplugin.evaluation.cases import Case
from memplugin.evaluation.plots import Plot, Series, Spread, bars, spreads
from memplugin.evaluation.waste import bearing_of, shown_of
from memplugin.records import Stage

_FAULTS: tuple[Stage, ...] = tuple(stage for stage in STAGES if stage != "none")
_DAY = timedelta(days=1)
_BUCKETS: tuple[tuple[timedelta, str], ...] = (
    (timedelta(days=31), "%d %b"),
    (timedelta(weeks=30), "week %V"),
)
_RANKS = (*range(1, 11), 20, 50)
"""Where the bars of ranks end; what is beyond is in the last one."""


def pictures(cases: Sequence[Case], arms: ArmsReport | None) -> list[Plot]:
    """Those for which there is anything to draw."""
    with_memory = [case for case in cases if case.run.verdict]
    drawn = (
        stages_over_time(with_memory),
        ranks(with_memory),
        shown_against_bearing(with_memory),
        paired(arms) if arms else None,
    )
    return [plot for plot in drawn if plot]


# ---------------------------------------------------------------- stages over time


def stages_over_time(cases: Sequence[Case]) -> Plot | None:
    """How many tasks each stage failed, by day, week or month."""
    failed = [(case.at, case.stage) for case in cases if case.stage and case.stage != "none"]
    timed = sorted((at.astimezone(UTC), stage) for at, stage in failed if at)
    if not timed:
        return None
    first, last = timed[0][0], timed[-1][0]
    shape = next((shape for longest, shape in _BUCKETS if last - first <= longest), "%b %Y")
    days = (first.date() + _DAY * n for n in range((last.date() - first.date()).days + 1))
    places = list(dict.fromkeys(day.strftime(shape) for day in days))  # also those without any
    counts = Counter((at.strftime(shape), stage) for at, stage in timed)
    used = [stage for stage in _FAULTS if any(counts[place, stage] for place in places)]
    most = Counter(stage for _, stage in timed).most_common(1)[0]
    return bars(
        "Which stage fails, over time",
        f"{_tasks(len(timed))}; {most[0]} most often, {most[1]}.",
        places,
        [Series(s, f"s-{s}", tuple(float(counts[p, s]) for p in places)) for s in used],
        axis="when the task asked",
        stacked=True,
    )


# ---------------------------------------------------------------- ranks


def ranks(cases: Sequence[Case]) -> Plot | None:
    """Where the needed record ranked in tasks that did not pass, shown or not."""
    found: list[tuple[int, bool]] = []
    for case in cases:
        verdict, record = case.run.verdict, case.run.record
        if verdict and record and verdict.rank and not case.run.success:
            shown = {candidate.record_id for candidate in shown_of(record)}
            found.append((verdict.rank, verdict.record_id in shown))
    if not found:
        return None
    places = [_rank_name(end) for end in (*_RANKS, None)]
    counts = Counter((_rank_place(rank), shown) for rank, shown in found)
    used = [p for p in range(len(places)) if p < 10 or counts[p, True] + counts[p, False]]
    hidden = sum(not shown for _, shown in found)
    return bars(
        "Rank of the needed record",
        f"Known in {_tasks(len(found))} that did not pass; not shown in {hidden} of them.",
        [places[place] for place in used],
        [
            Series("shown", "s-shown", tuple(float(counts[p, True]) for p in used)),
            Series("not shown", "s-hidden", tuple(float(counts[p, False]) for p in used)),
        ],
        axis="rank",
        stacked=True,
    )


def _rank_place(rank: int) -> int:
    return next((place for place, end in enumerate(_RANKS) if rank <= end), len(_RANKS))


def _rank_name(end: int | None) -> str:
    if end is None:
        return ">50"
    return {20: "11-20", 50: "21-50"}.get(end, str(end))


# ---------------------------------------------------------------- shown against load-bearing


def shown_against_bearing(cases: Sequence[Case]) -> Plot | None:
    """On passing tasks: how many records were shown, and how many bore the answer."""
    tried = [
        case.run.record
        for case in cases
        if case.run.success and case.run.record and case.run.record.use.counterfactuals
    ]
    if not tried:
        return None
    shown = Counter(len(shown_of(record)) for record in tried)
    bearing = Counter(len(bearing_of(record)) for record in tried)
    numbers = range(max([*shown, *bearing]) + 1)
    means = (
        sum(n * times for n, times in counted.items()) / len(tried) for counted in (shown, bearing)
    )
    return bars(
        "Shown against load-bearing",
        "Passing tasks with counterfactuals: {}. On average {:.1f} records were shown and {:.1f} "
        "load-bearing.".format(len(tried), *means),
        [str(n) for n in numbers],
        [
            Series("shown", "s-shown", tuple(float(shown[n]) for n in numbers)),
            Series("load-bearing", "s-bearing", tuple(float(bearing[n]) for n in numbers)),
        ],
        axis="records of a task",
        stacked=False,
    )


# ---------------------------------------------------------------- arms


def paired(arms: ArmsReport) -> Plot:
    """With memory less without, task by task."""
    rows = [
        Spread(
            name=compared.metric.replace("_", " "),
            values=compared.differences,
            mean=compared.difference.value or 0.0,
            low=_or(compared.difference.low, compared.difference.value),
            high=_or(compared.difference.high, compared.difference.value),
            css={"helps": "good", "hurts": "bad"}.get(compared.finding, "even"),
        )
        for compared in arms.metrics
    ]
    return spreads(
        "Arms: with memory less without",
        f"{len(arms.pairs)} tasks in both; memory {arms.finding} on success: "
        f"{len(arms.helped)} succeed only with it, {len(arms.hurt)} only without.",
        rows,
    )


def _or(value: float | None, other: float | None) -> float:
    return value if value is not None else (other or 0.0)


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
