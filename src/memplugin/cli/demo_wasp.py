"""The wasp work order in the demo: played, and how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from memplugin.cli import demo
from memplugin.cli.demo_board_pack import verdict_panel
from memplugin.cli.otlp import Spans
from memplugin.config import MemoryConfig
from memplugin.demo import wasp as story
from memplugin.demo.wasp import Dispatched, Played, Plumber, Ranking, play
from memplugin.records import Override


def played(spans: Spans, store: Path) -> Dispatched:
    """Plays it on a store of its own, which is left to look at."""
    demo.prepare(store)
    opener = demo.opener(store, spans.provider() or TracerProvider())
    return play(opener, MemoryConfig.from_env())


def view(ended: Dispatched, store: Path) -> Sequence[RenderableType]:
    """Both rankings, the three acts, the plumber."""
    before = f"  memplugin --store {store}"
    return (
        "",
        Rule(Text("The wasp work order  known, and ranked fourth", "bold"), align="left"),
        Text(f"request: {story.QUESTION}"),
        *(_ranking(ranking, ended.primex_id) for ranking in ended.rankings),
        *(part for act in ended.acts for part in _act(act)),
        *_plumber(ended.plumber),
        "",
        Text("Look for yourself"),
        *(Text(f"{before} task {act.task_id}") for act in story.ACTS[1:]),
    )


def _ranking(ranking: Ranking, right: str) -> Table:
    parts = list(ranking.candidates[0].parts)
    title = f"\npolicy {ranking.policy}"
    table = Table("rank", "score", *parts, "memory", title=title, title_justify="left", box=None)
    for c in ranking.candidates:
        numbers = [f"{c.parts[part]:.2f}" for part in parts]
        style = "bold green" if c.record_id == right else ""
        table.add_row(str(c.rank), f"{c.score:.2f}", *numbers, Text(c.content), style=style)
    return table


def _act(act: Played) -> Sequence[RenderableType]:
    right = act.vendor == story.RIGHT
    flags = f"; flags: {', '.join(act.flags)}" if act.flags else ""
    return (
        Text(f"\nAct {act.number}  {act.title}", "bold"),
        Text(f"{'✓' if right else '✗'} sent: {act.vendor}{flags}", "green" if right else "red"),
        *(Text(f"  {_override(one)}", "yellow") for one in act.overrides),
        verdict_panel(act.verdict),
    )


def _override(one: Override) -> str:
    sure = "pinned" if one.pinned else f"confidence {one.confidence:.2f}"
    shown = "shown" if one.shown else "not shown"
    return f"{one.record_id} ({sure}, rank {one.rank}, {shown}) says {one.field} {one.claimed}"


def _plumber(plumber: Plumber) -> Sequence[RenderableType]:
    table = Table("rule", "before", "after", box=None)
    table.add_row("posterior, exceptions apart", f"{plumber.started:.2f}", f"{plumber.beta:.2f}")
    table.add_row("moving average, the old rule", f"{plumber.started:.2f}", f"{plumber.ema:.2f}")
    answers = "; ".join(f"{where}: {who} ({sure:.2f})" for where, who, sure in plumber.answers)
    return (
        Text("\nThe plumber  all plumbing, but for toilets and drains", "bold"),
        Text(
            f"{plumber.supports} jobs were his, {plumber.against} went rightly to somebody else. "
            "How sure memory is of him:"
        ),
        table,
        Text(f"resolve answers: {answers}"),
    )
