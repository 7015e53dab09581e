"""How ``memplugin diagnose`` looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memplugin.cli.views.parts import heading, line, table, text, word
from memplugin.diagnosis.tally import tally
from memplugin.records import Verdict


def verdicts_view(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
    """Each verdict, then how often each came."""
    for verdict in verdicts:
        yield from _verdict(verdict)
    if len(verdicts) > 1:
        yield heading(f"{len(verdicts)} tasks")
        rows = tally(verdicts)
        yield table(
            ("stage", "cause", "tasks"),
            ((word(r.stage), text(r.cause), text(r.tasks)) for r in rows),
        )


def _verdict(verdict: Verdict) -> Iterator[RenderableType]:
    title = heading(f"Task {verdict.task_id}: ")
    yield Text.assemble(title, word(verdict.stage), text(f", {verdict.cause}"))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    if verdict.record_id:
        grid.add_row("  record", text(verdict.record_id))
    if verdict.rank is not None:
        grid.add_row("  rank", text(verdict.rank))
    for place, observation in enumerate(verdict.evidence):
        grid.add_row("" if place else "  seen", line(observation))
    grid.add_row("  next", line(verdict.next_step))
    yield grid
