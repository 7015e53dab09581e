"""How ``memplugin review import`` looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType

from memplugin.cli.views.parts import heading, remark, table, text, word

if TYPE_CHECKING:
    from memplugin.evaluation.agreement import Agreement
    from memplugin.evaluation.intervals import Estimate
    from memplugin.evaluation.review import ReviewReport


def review_view(report: ReviewReport, kept: int, empty: int) -> Iterator[RenderableType]:
    """What was read, who agrees with whom, and how good the verdicts are."""
    yield heading("Review")
    yield text(
        f"  {kept} annotations kept, {empty} without a stage left out; "
        f"{report.reviewed} tasks reviewed, {report.disputed} disputed"
    )
    for pair in report.annotators:
        yield text(f"  {pair.first} and {pair.second} {_agree(pair.stages)}")
    yield heading("Verdicts against people, where they agree")
    if not report.machine.share.n:
        yield remark("nothing to compare: people agree on no task")
        return
    yield text(f"  they {_agree(report.machine)}")
    yield table(
        ("stage", "precision", "recall"),
        ((word(s.name), text(_share(s.precision)), text(_share(s.recall))) for s in report.stages),
    )
    differ = [row for row in report.table if row[0] != row[1]]
    for machine, people, times in differ:
        yield text(f"  {times} x the verdict is {machine} where people say {people}")


def _agree(found: Agreement) -> str:
    kappa = "not defined" if found.kappa is None else f"{found.kappa:.2f}"
    return f"agree on {found.agreed} of {found.share.n}: {_share(found.share)}, kappa {kappa}"


def _share(found: Estimate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "-"
    return f"{found.value:.2f} (95% interval {found.low:.2f} to {found.high:.2f})"
