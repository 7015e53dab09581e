"""How the demo looks: each act as what was said, what was ranked, what came out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, format_span_id, format_trace_id
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from memplugin.demo import board_pack as story
from memplugin.demo.board_pack import Played
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.records import Verdict
from memplugin.telemetry import names

_COLOURS = {"none": "green", "undetermined": "yellow"}


def act_view(played: Played, spans: Sequence[ReadableSpan]) -> Sequence[RenderableType]:
    """One act."""
    act = played.act
    return (
        "",
        Rule(Text(f"Act {act.number}  {act.title}", "bold"), align="left"),
        _said(played),
        _ranking(played.record),
        _answer(played.record),
        verdict_panel(played.verdict),
        *([_trace(spans)] if spans else []),
    )


def _said(played: Played) -> RenderableType:
    first, later = story.FIRST_SESSION, played.act.later
    stored = [w for w in played.record.writes if w.content and "tax" in w.content]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row(f"{first:%-d %B %Y}", Text(f"user: {story.INSTRUCTION}"))
    for write in stored:
        grid.add_row("", Text(f"→ {write.gate} {write.record_id}: {write.content}", "green"))
    if not stored:
        grid.add_row("", Text("→ the extractor proposed nothing", "red"))
    grid.add_row(f"{later:%-d %B %Y}", Text(f"user: {story.REQUEST}"))
    return grid


def _ranking(record: TaskRecord) -> RenderableType:
    retrieval = record.retrieval
    if retrieval is None:
        return Text("no recall")
    title = f"recall, policy {retrieval.policy}, k={retrieval.k}: "
    title += f"{retrieval.shown} of {retrieval.total} shown"
    table = Table("rank", "score", "shown", "memory", title=title, title_justify="left", box=None)
    for candidate in retrieval.candidates:
        about_tax = "tax" in (candidate.content or "")
        table.add_row(
            str(candidate.rank),
            f"{candidate.score:.2f}",
            "yes" if candidate.injected else (candidate.cut or ""),
            candidate.content,
            style="bold" if about_tax else ("" if candidate.injected else "dim"),
        )
    return table


def _answer(record: TaskRecord) -> RenderableType:
    use = record.use
    if use.answer is None:
        return Text(f"decision: {use.status}, no answer", "red")
    mark, colour = ("✓", "green") if record.success else ("✗", "red")
    cited = ", ".join(use.cited_record_ids) or "nothing"
    flags = f"; flags: {', '.join(use.flags)}" if use.flags else ""
    basis = use.answer.get("basis")
    return Text(f"{mark} decided: revenue is {basis}; cited {cited}{flags}", colour)


def verdict_panel(verdict: Verdict) -> Panel:
    """The verdict, its evidence and the next step."""
    lines: list[RenderableType] = [Text(f"· {line}") for line in verdict.evidence]
    if verdict.stage != "none":
        lines.append(Text(f"next: {verdict.next_step}", "bold"))
    title = f"verdict: {verdict.stage} / {verdict.cause}"
    if verdict.rank:
        title += f" (rank {verdict.rank})"
    colour = _COLOURS.get(verdict.stage, "red")
    return Panel(Group(*lines), title=title, title_align="left", border_style=colour)


def _trace(spans: Sequence[ReadableSpan]) -> RenderableType:
    lines = ["trace     span      name            links"]
    for span in spans:
        context = span.get_span_context()
        if context is None:
            continue
        counted = Counter(_link(link) for link in span.links)
        links = ", ".join(f"{n} times {to}" if n > 1 else to for to, n in counted.items())
        trace, own = format_trace_id(context.trace_id)[:8], format_span_id(context.span_id)[:8]
        lines.append(f"{trace}  {own}  {span.name:<15} {links}")
    return Text("\n".join(lines), "dim")


def _link(link: Link) -> str:
    relation = (link.attributes or {}).get(names.RELATION)
    return f"{relation} {format_trace_id(link.context.trace_id)[:8]}"


def next_view(store: str, model: str) -> Sequence[RenderableType]:
    """What can be tried on the store that the demo left."""
    before = f"  memplugin --store {store}"
    lines: list[RenderableType] = [
        "",
        Rule("Look for yourself", align="left"),
        Text(f'{before} check "tax" --workspace {story.WORKSPACE}'),
        Text(f"{before} task t_0418"),
        Text(f'{before} diagnose t_0417 t_0418 t_0419 --correction "report net of tax"'),
    ]
    if model == "local":
        lines.append(
            "The decisions are what a model of 135 million parameters really made of it; where "
            "it went wrong, the verdict says so."
        )
    return lines
