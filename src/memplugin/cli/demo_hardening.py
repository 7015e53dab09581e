"""The hardening run in the demo: played, and how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from memplugin.cli import demo
from memplugin.cli.learn import HEURISTIC
from memplugin.cli.otlp import Spans
from memplugin.demo import hardening as story
from memplugin.demo.hardening import Attempt, Hardened, Run, Standing, play


def played(spans: Spans, store: Path) -> Hardened:
    """Plays it on a store of its own, which is left to look at."""
    demo.prepare(store)
    return play(demo.opener(store, spans.provider() or TracerProvider()))


def view(ended: Hardened, store: Path) -> Sequence[RenderableType]:
    """Both runs with the two rankings beside each other, then who goes."""
    first, second = ended.runs
    return (
        "",
        Rule(Text("The hardening run  tips that were lucky to be there", "bold"), align="left"),
        _standings("before: nothing is known of anybody", ended.before),
        _run(first, "the tips are ignored"),
        _standings("after run 1", first.standings),
        _run(second, "the tips are followed"),
        _standings("after run 2", second.standings),
        *_audited(ended),
        "",
        Text("Look for yourself"),
        Text(f"  {_command(store, 'evict')} --undo {ended.misleading[0]}"),
        Text(f"  {_command(store, 'audit')}"),
        Text(f"  {_command(store, 'evict')} --dry-run"),
    )


def _command(store: Path, name: str) -> str:
    return f"memplugin --store {store} {name} --workspace {story.WORKSPACE}"


def _run(run: Run, what: str) -> Text:
    attempts = [a for a in run.attempts if a.rule == story.MACS.name]
    lines = [f"\nRun {run.number}: {what}. {story.MACS.name}:"]
    lines += [_attempt(attempt) for attempt in attempts]
    passed = len({a.rule for a in run.attempts if a.passed})
    lines.append(f"  {passed} of {len(story.RULES)} rules pass in this run")
    return Text("\n".join(lines))


def _attempt(attempt: Attempt) -> str:
    script = attempt.script.partition("\n")[0]
    mark = "✓" if attempt.passed else "✗"
    return (
        f"  {mark} attempt {attempt.attempt}, worth {attempt.value:+.1f}: {script}: {attempt.said}"
    )


def _standings(title: str, standings: Sequence[Standing]) -> Table:
    columns = ("memory", "by outcome: rank", "credit", "by following: rank", "credit")
    table = Table(*columns, title=title, title_justify="left", box=None)
    for standing in standings:
        table.add_row(
            standing.content.partition(": ")[2],
            *_place(standing.by_outcome),
            *_place(standing.by_following),
            style="red" if standing.misleading else "green",
        )
    return table


def _place(place: tuple[int, float]) -> tuple[str, str]:
    rank, credit = place
    return str(rank), f"{credit:+.2f}"


def _audited(ended: Hardened) -> Sequence[RenderableType]:
    lines = ["\nThe audit calls misleading:"]
    lines += [
        f"  {found.content.partition(': ')[2]} shown in {found.attempts} attempts, "
        f"{found.successes} passed, followed in {found.followed} of these"
        for found in ended.audit.misleading
    ]
    lines.append(f"{len(ended.evicted)} records are evicted. The same rule, once more:")
    lines += [_attempt(attempt) for attempt in ended.afterwards]
    return Text("\n".join(lines)), Text(HEURISTIC, "dim")
