"""The plots of the report, as SVG text: bars side by side or stacked, and intervals.

They are 360 units wide, so that on a phone a unit is about a pixel. Colours are classes, for
which the style sheet of the page has a light and a dark value. Every text is escaped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from html import escape

from memplugin.diagnosis.attribution import STAGES
from memplugin.evaluation.arms import ArmsReport, bearing_of, shown_of
from memplugin.evaluation.cases import Case
from memplugin.records import Stage

WIDTH = 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 34, 6, 16, 34
_HEIGHT = 190
_CHARACTER = 7
_ROW = 74
_FEW = 5


@dataclass(frozen=True, slots=True)
class Series:
    """One kind of bar.

    Attributes:
        name: Its name in the legend.
        css: The class that colours it.
        values: One value for each place on the axis.
    """

    name: str
    css: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Plot:
    """A drawn plot, and its numbers for readers who do not see it.

    Attributes:
        title: What it is about.
        summary: What it shows, in a sentence.
        svg: Markup, safe to put into a page.
        legend: (name, class) of each colour.
        columns: The names of the columns of ``rows``.
        rows: The numbers from which it was drawn.
    """

    title: str
    summary: str
    svg: str
    legend: tuple[tuple[str, str], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def bars(
    title: str,
    summary: str,
    places: Sequence[str],
    series: Sequence[Series],
    *,
    axis: str,
    stacked: bool,
    unit: str = "tasks",
) -> Plot:
    """Draws bars of counts: stacked, or side by side.

    Args:
        title: What the plot is about.
        summary: What it shows, in a sentence.
        places: The names along the horizontal axis.
        series: The kinds of bars.
        axis: What the places are.
        stacked: Whether the bars of a place are stacked.
        unit: What is counted.

    Returns:
        The plot.
    """
    heights = [sum(s.values[i] for s in series) for i in range(len(places))]
    highest = max(heights if stacked else [v for s in series for v in s.values], default=0)
    top = _round_up(highest)
    drawn = [*_grid(top), *_labels(places, axis)]
    drawn += _stacked(places, series, top) if stacked else _side_by_side(places, series, top)
    return Plot(
        title=title,
        summary=summary,
        svg=_svg("".join(drawn), _HEIGHT, f"{title}. {summary}"),
        legend=tuple((s.name, s.css) for s in series),
        columns=(axis, *(f"{s.name} ({unit})" for s in series)),
        rows=tuple(
            (place, *(f"{s.values[i]:g}" for s in series)) for i, place in enumerate(places)
        ),
    )


@dataclass(frozen=True, slots=True)
class Spread:
    """The differences of single tasks, and their mean with its interval."""

    name: str
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    css: str


def spreads(title: str, summary: str, rows: Sequence[Spread]) -> Plot:
    """Draws a line for each row: a dot for every task, and the mean with its interval.

    Args:
        title: What the plot is about.
        summary: What it shows, in a sentence.
        rows: The metrics.

    Returns:
        The plot.
    """
    height = len(rows) * _ROW + 4
    drawn = [part for place, row in enumerate(rows) for part in _spread(row, 6 + place * _ROW)]
    return Plot(
        title=title,
        summary=summary,
        svg=_svg("".join(drawn), height, f"{title}. {summary}"),
        legend=(("a task", "dot"), ("mean and 95 % interval", "mean")),
        columns=("difference", "mean", "95 % interval", "tasks"),
        rows=tuple(
            (r.name, _number(r.mean), f"{_number(r.low)} to {_number(r.high)}", str(len(r.values)))
            for r in rows
        ),
    )


# ---------------------------------------------------------------- parts


def _svg(inside: str, height: float, label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">'
        f"{inside}</svg>"
    )


def _text(x: float, y: float, text: str, *, anchor: str = "middle", css: str = "") -> str:
    shown = f' class="{css}"' if css else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{shown}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<line class="{css}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _rect(x: float, y: float, width: float, height: float, css: str, title: str) -> str:
    return (
        f'<rect class="{css}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{height:.1f}"><title>{escape(title)}</title></rect>'
    )


def _y(value: float, top: float) -> float:
    return _HEIGHT - _BOTTOM - value / top * (_HEIGHT - _TOP - _BOTTOM)


def _grid(top: float) -> Iterator[str]:
    for share in (0, 0.5, 1):
        value = top * share
        if value == int(value):
            yield _line(_LEFT, _y(value, top), WIDTH - _RIGHT, _y(value, top), "grid")
            yield _text(_LEFT - 5, _y(value, top) + 4, f"{value:g}", anchor="end")


def _labels(places: Sequence[str], axis: str) -> Iterator[str]:
    widest = max(map(len, places), default=0) * _CHARACTER
    step = math.ceil(widest / _slot(len(places)))
    for place in range(0, len(places), max(step, 1)):
        yield _text(_middle(place, len(places)), _HEIGHT - _BOTTOM + 14, places[place])
    yield _text((_LEFT + WIDTH) / 2, _HEIGHT - 4, axis, css="axis")


def _slot(count: int) -> float:
    return (WIDTH - _LEFT - _RIGHT) / max(count, 1)


def _middle(place: int, count: int) -> float:
    return _LEFT + (place + 0.5) * _slot(count)


def _stacked(places: Sequence[str], series: Sequence[Series], top: float) -> Iterator[str]:
    width = min(_slot(len(places)) * 0.75, 40)
    for place, name in enumerate(places):
        below = 0.0
        for one in series:
            value = one.values[place]
            if value:
                x, y = _middle(place, len(places)) - width / 2, _y(below + value, top)
                title = f"{name}: {value:g} {one.name}"
                yield _rect(x, y, width, _y(below, top) - y, one.css, title)
            below += value


def _side_by_side(places: Sequence[str], series: Sequence[Series], top: float) -> Iterator[str]:
    width = min(_slot(len(places)) * 0.8 / max(len(series), 1), 26)
    for place, name in enumerate(places):
        start = _middle(place, len(places)) - width * len(series) / 2
        for number, one in enumerate(series):
            value = one.values[place]
            if value:
                y = _y(value, top)
                title = f"{name}: {value:g} {one.name}"
                x = start + number * width
                yield _rect(x, y, width * 0.94, _y(0, top) - y, one.css, title)
                yield _text(x + width * 0.47, y - 2, f"{value:g}", css="value")


def _spread(row: Spread, y: float) -> Iterator[str]:
    ends = [*row.values, row.low, row.high, 0.0]
    low, high = min(ends), max(ends)
    room = (high - low) * 0.04 or 1.0
    low, high = low - room, high + room

    def x(value: float) -> float:
        return 12 + (value - low) / (high - low) * (WIDTH - 36)

    yield _text(0, y + 8, row.name, anchor="start", css="axis")
    interval = f"{_number(row.mean)} ({_number(row.low)} to {_number(row.high)})"
    yield _text(WIDTH, y + 8, interval, anchor="end", css=row.css)
    yield _line(x(0), y + 14, x(0), y + 52, "zero")
    yield _text(x(0), y + 63, "0", css="axis")
    yield from _dots(row.values, x, y + 33)
    yield _line(x(row.low), y + 48, x(row.high), y + 48, "mean")
    yield f'<circle class="mean" cx="{x(row.mean):.1f}" cy="{y + 48:.1f}" r="3.5"/>'


def _dots(values: Sequence[float], x: Callable[[float], float], y: float) -> Iterator[str]:
    counts = Counter(values)
    if len(counts) <= _FEW:  # they would lie upon each other: one dot, and how many
        for value, times in sorted(counts.items()):
            size = 2.5 + 6 * (times / len(values)) ** 0.5
            yield f'<circle class="dot" cx="{x(value):.1f}" cy="{y:.1f}" r="{size:.1f}"/>'
            yield _text(x(value) + size + 3, y + 4, str(times), anchor="start", css="value")
        return
    for number, value in enumerate(sorted(values)):
        lift = (number % 7 - 3) * 1.6  # so that near ones do not hide each other
        yield f'<circle class="dot" cx="{x(value):.1f}" cy="{y + lift:.1f}" r="2.2"/>'


def _number(value: float) -> str:
    return f"{value:+.2f}" if abs(value) < 10 else f"{value:+,.0f}"


def _round_up(value: float) -> float:
    """The top of an axis of counts: even, so that its half is a count too."""
    if value <= 2:
        return 2.0
    magnitude = 10 ** math.floor(math.log10(value))
    for step in (1, 2, 4, 6, 8, 10):
        if value <= step * magnitude and step * magnitude % 2 == 0:
            return float(step * magnitude)
    return float(value)


# ---------------------------------------------------------------- the plots of a report

_FAULTS: tuple[Stage, ...] = tuple(stage for stage in STAGES if stage != "none")
_DAY = timedelta(days=1)
_BUCKETS: tuple[tuple[timedelta, str], ...] = (
    (timedelta(days=31), "%d %b"),
    (timedelta(weeks=30), "week %V"),
)
_RANKS = (*range(1, 11), 20, 50)
"""The last rank of each bar; ranks beyond are in one more bar."""


def plots(cases: Sequence[Case], arms: ArmsReport | None) -> list[Plot]:
    """The plots of a report, without those that would be empty."""
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
    """With memory minus without, task by task."""
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
