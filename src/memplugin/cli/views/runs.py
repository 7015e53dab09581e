"""How ``memplugin eval run`` and ``memplugin eval arms`` look."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from memplugin.cli.views.estimates import number, percent, share
from memplugin.cli.views.parts import facts, heading, line, remark, table, text, word
from memplugin.diagnosis.counterfactual import CitationAgreement
from memplugin.evaluation.arms import ArmsReport, Compared
from memplugin.evaluation.run_report import Planted, Row, RunReport
from memplugin.evaluation.waste import Waste

_TASKS_SHOWN = 4
_FINDINGS = {"helps": "green", "hurts": "bold red", "no difference shown": "yellow"}


def run_view(report: RunReport) -> Iterator[RenderableType]:
    """Success, the attribution table, waste, and the planted faults."""
    yield heading(f"Suite {report.suite}")
    yield facts(
        ("models", text(report.model)),
        ("embedder", text(report.embedder)),
        *((f"success, {arm}", share(estimate)) for arm, estimate in report.success.items()),
    )
    yield from _errors(report)
    yield from _attribution(report)
    yield from _by_tag(report)
    yield from _waste(report.waste, report.citations)
    if report.planted:
        yield from _planted(report.planted)


def arms_view(report: RunReport) -> Iterator[RenderableType]:
    """What memory is worth: both arms, the differences, and what their interval says."""
    yield heading(f"Suite {report.suite}")
    yield facts(("models", text(report.model)), ("embedder", text(report.embedder)))
    yield from _errors(report)
    if report.arms is None:
        yield remark("no task ended in both arms")
        return
    yield from _arms(report.arms)
    yield from _attribution(report)


def _errors(report: RunReport) -> Iterator[RenderableType]:
    if not report.errors:
        return
    yield heading(f"Not run: {len(report.errors)}")
    for task_id, error in report.errors.items():
        yield Padding(Text.assemble(text(task_id, "cyan"), "  ", line(error)), (0, 0, 0, 2))


def _attribution(report: RunReport) -> Iterator[RenderableType]:
    rows = report.attribution
    failed = sum(row.tasks for row in rows)
    yield heading(f"Where it failed: {failed} tasks, each at the earliest stage")
    if not rows:
        yield remark("no task with memory failed")
        return
    yield table(
        ("stage", "cause", "tasks", "of the failed", "which"),
        (
            (word(r.stage), text(r.cause), text(r.tasks), share(r.share), text(_named(r)))
            for r in rows
        ),
    )
    yield heading("What to do")
    for row in rows:
        step = Text.assemble(word(row.stage), f", {row.cause}: ", line(row.next_step))
        yield Padding(step, (0, 0, 0, 2))


def _named(row: Row) -> str:
    shown = ", ".join(row.task_ids[:_TASKS_SHOWN])
    more = len(row.task_ids) - _TASKS_SHOWN
    return f"{shown}, and {more} more" if more > 0 else shown


def _by_tag(report: RunReport) -> Iterator[RenderableType]:
    for name, values in report.by_tag.items():
        if len(values) > 1 and name != "fault":
            yield heading(f"Success by {name}")
            yield facts(*((value, share(estimate)) for value, estimate in values.items()))


def _waste(waste: Waste, citations: CitationAgreement | None) -> Iterator[RenderableType]:
    yield heading(f"Waste, on the {waste.tasks} passing tasks that asked memory")
    bearing = waste.load_bearing
    tried = f"  over {bearing.n} tasks" if bearing else "not tried: --counterfactuals"
    yield facts(
        ("records shown", number(waste.shown)),
        ("cited", number(waste.cited)),
        ("load-bearing", Text.assemble(number(bearing), tried) if bearing else text(tried, "dim")),
        ("tokens shown", number(waste.tokens_shown, 0)),
        ("of these not cited", percent(waste.uncited_tokens)),
        ("of these idle", percent(waste.idle_tokens)),
    )
    if citations:
        low, high = citations.interval
        yield remark(
            f"citations agree with counterfactuals on {_share(citations.agreement)} "
            f"[{100 * low:.0f}, {100 * high:.0f}] of {citations.compared} records: "
            f"{citations.cited_not} cited and idle, {citations.uncited_load_bearing} load-bearing "
            f"and not cited; {citations.uncertain} uncertain"
        )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _planted(planted: Planted) -> Iterator[RenderableType]:
    wrong = len(planted.misjudged)
    yield heading("Against the planted faults")
    right = text(f"{planted.tasks - wrong} of {planted.tasks} verdicts are right")
    blamed = text(f"{len(planted.blamed)} passing tasks are blamed")
    yield Padding(Text.assemble(right, ", ", blamed), (0, 0, 0, 2))
    for one in planted.misjudged:
        was, should = "/".join(one.verdict), "/".join(one.expected)
        yield Padding(text(f"{one.task_id}: {was}, planted was {should}", "red"), (0, 0, 0, 2))


def _arms(arms: ArmsReport) -> Iterator[RenderableType]:
    yield heading(f"With memory against without: {len(arms.pairs)} tasks in both arms")
    yield table(
        ("metric", "with", "without", "difference, 95 %", "up / same / down", "finding"),
        (_metric(compared) for compared in arms.metrics),
    )
    yield facts(
        ("only with memory", text(", ".join(arms.helped) or "none")),
        ("only without", text(", ".join(arms.hurt) or "none")),
    )
    success = next(c for c in arms.metrics if c.metric == "success")
    yield Padding(_said(success), (0, 0, 0, 2))


def _metric(compared: Compared) -> tuple[Text, ...]:
    digits = 2 if compared.metric in ("success", "corrections") else 0
    return (
        text(compared.metric),
        text(f"{compared.on:.{digits}f}"),
        text(f"{compared.off:.{digits}f}"),
        number(compared.difference, digits),
        text(f"{compared.rose} / {compared.same} / {compared.fell}"),
        text(compared.finding, _FINDINGS[compared.finding]),
    )


def _said(success: Compared) -> Text:
    low, high = success.difference.low, success.difference.high
    if success.finding != "no difference shown" or low is None or high is None:
        return text(f"Memory {success.finding}." if low is not None else "Too few tasks to tell.")
    return text(
        f"No difference in success is shown. What could have been missed: between {low:+.2f} and "
        f"{high:+.2f}."
    )
