"""How ``memplugin demo`` shows its stories: one function for each, and the parts under it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, format_span_id, format_trace_id
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from memplugin.cli.learn import HEURISTIC
from memplugin.demo import board_pack
from memplugin.demo import escalation as escalation_story
from memplugin.demo import hardening as hardening_story
from memplugin.demo import wasp as wasp_story
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.records import Override, Verdict
from memplugin.telemetry import names

_COLOURS = {"none": "green", "undetermined": "yellow"}


def board_pack_act(
    result: board_pack.ActResult, spans: Sequence[ReadableSpan]
) -> Sequence[RenderableType]:
    """One act."""
    act = result.act
    return (
        "",
        Rule(Text(f"Act {act.number}  {act.title}", "bold"), align="left"),
        _conversation(result),
        _retrieval(result.record),
        _answer(result.record),
        _verdict(result.verdict),
        *([_trace(spans)] if spans else []),
    )


def _conversation(result: board_pack.ActResult) -> RenderableType:
    first, later = board_pack.FIRST_SESSION, result.act.later
    stored = [w for w in result.record.writes if w.content and "tax" in w.content]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    grid.add_row(f"{first:%-d %B %Y}", Text(f"user: {board_pack.INSTRUCTION}"))
    for write in stored:
        grid.add_row("", Text(f"→ {write.gate} {write.record_id}: {write.content}", "green"))
    if not stored:
        grid.add_row("", Text("→ the extractor proposed nothing", "red"))
    grid.add_row(f"{later:%-d %B %Y}", Text(f"user: {board_pack.REQUEST}"))
    return grid


def _retrieval(record: TaskRecord) -> RenderableType:
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


def _verdict(verdict: Verdict) -> Panel:
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


def board_pack_commands(store: str, model: str) -> Sequence[RenderableType]:
    """What can be tried on the store that the demo left."""
    before = f"  memplugin --store {store}"
    lines: list[RenderableType] = [
        "",
        Rule("Look for yourself", align="left"),
        Text(f'{before} check "tax" --workspace {board_pack.WORKSPACE}'),
        Text(f"{before} task t_0418"),
        Text(f'{before} diagnose t_0417 t_0418 t_0419 --correction "report net of tax"'),
    ]
    if model == "local":
        lines.append(
            "The decisions are what a model of 135 million parameters really made of it; where "
            "it went wrong, the verdict says so."
        )
    return lines


# ---------------------------------------------------------------- the wasp work order


def wasp(ended: wasp_story.WaspResult, store: Path) -> Sequence[RenderableType]:
    """Both rankings, the three acts, the plumber."""
    before = f"  memplugin --store {store}"
    return (
        "",
        Rule(Text("The wasp work order  known, and ranked fourth", "bold"), align="left"),
        Text(f"request: {wasp_story.QUESTION}"),
        *(_ranking(ranking, ended.primex_id) for ranking in ended.rankings),
        *(part for act in ended.acts for part in _act(act)),
        *_plumber(ended.plumber),
        "",
        Text("Look for yourself"),
        *(Text(f"{before} task {act.task_id}") for act in wasp_story.ACTS[1:]),
    )


def _ranking(ranking: wasp_story.Ranking, right: str) -> Table:
    parts = list(ranking.candidates[0].parts)
    title = f"\npolicy {ranking.policy}"
    table = Table("rank", "score", *parts, "memory", title=title, title_justify="left", box=None)
    for c in ranking.candidates:
        numbers = [f"{c.parts[part]:.2f}" for part in parts]
        style = "bold green" if c.record_id == right else ""
        table.add_row(str(c.rank), f"{c.score:.2f}", *numbers, Text(c.content), style=style)
    return table


def _act(act: wasp_story.ActResult) -> Sequence[RenderableType]:
    right = act.vendor == wasp_story.RIGHT
    flags = f"; flags: {', '.join(act.flags)}" if act.flags else ""
    return (
        Text(f"\nAct {act.number}  {act.title}", "bold"),
        Text(f"{'✓' if right else '✗'} sent: {act.vendor}{flags}", "green" if right else "red"),
        *(Text(f"  {_override(one)}", "yellow") for one in act.overrides),
        _verdict(act.verdict),
    )


def _override(one: Override) -> str:
    sure = "pinned" if one.pinned else f"confidence {one.confidence:.2f}"
    shown = "shown" if one.shown else "not shown"
    return f"{one.record_id} ({sure}, rank {one.rank}, {shown}) says {one.field} {one.claimed}"


def _plumber(plumber: wasp_story.PlumberResult) -> Sequence[RenderableType]:
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


# ---------------------------------------------------------------- the hardening run


def hardening(ended: hardening_story.HardeningResult, store: Path) -> Sequence[RenderableType]:
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
    return f"memplugin --store {store} {name} --workspace {hardening_story.WORKSPACE}"


def _run(run: hardening_story.Run, what: str) -> Text:
    attempts = [a for a in run.attempts if a.rule == hardening_story.MACS.name]
    lines = [f"\nRun {run.number}: {what}. {hardening_story.MACS.name}:"]
    lines += [_attempt(attempt) for attempt in attempts]
    passed = len({a.rule for a in run.attempts if a.passed})
    lines.append(f"  {passed} of {len(hardening_story.RULES)} rules pass in this run")
    return Text("\n".join(lines))


def _attempt(attempt: hardening_story.Attempt) -> str:
    script = attempt.script.partition("\n")[0]
    mark = "✓" if attempt.passed else "✗"
    return (
        f"  {mark} attempt {attempt.attempt}, worth {attempt.value:+.1f}: {script}: {attempt.said}"
    )


def _standings(title: str, standings: Sequence[hardening_story.Standing]) -> Table:
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


def _audited(ended: hardening_story.HardeningResult) -> Sequence[RenderableType]:
    lines = ["\nThe audit calls misleading:"]
    lines += [
        f"  {found.content.partition(': ')[2]} shown in {found.attempts} attempts, "
        f"{found.successes} passed, followed in {found.followed} of these"
        for found in ended.audit.misleading
    ]
    lines.append(f"{len(ended.evicted)} records are evicted. The same rule, once more:")
    lines += [_attempt(attempt) for attempt in ended.afterwards]
    return Text("\n".join(lines)), Text(HEURISTIC, "dim")


# ---------------------------------------------------------------- the production escalation


def escalation(ended: escalation_story.EscalationResult) -> Sequence[RenderableType]:
    """What was kept, what the traces say, and what was sent again."""
    return (
        "",
        Rule(
            Text("A month later: one task in fifty sampled, content hashed", "bold"), align="left"
        ),
        _kept(ended),
        _judged(ended.judged),
        _promoted(ended),
    )


def _kept(ended: escalation_story.EscalationResult) -> RenderableType:
    whole = "every one of them in both sessions"
    if ended.split:
        whole = f"and {len(ended.split)} tasks in one session only"
    return Text(
        f"{ended.tasks:,} tasks in {ended.sessions:,} sessions over five weeks. {len(ended.kept)} "
        f"were kept ({len(ended.kept) / ended.tasks:.1%}), {whole}: {ended.spans} spans. "
        f"{ended.failed} tasks failed, {len(ended.judged)} of them among those kept."
    )


def _judged(judged: Sequence[escalation_story.ComparedVerdicts]) -> RenderableType:
    title = "verdicts from the kept traces alone"
    table = Table("task", "stage", "cause", "rank", "the ledger", title=title, box=None)
    table.title_justify = "left"
    for one in judged:
        mark, colour = ("agrees", "green") if one.agree else ("says otherwise", "red")
        table.add_row(one.task_id, *_cells(one.from_traces), Text(mark, colour))
    return table


def _cells(verdict: Verdict | None) -> tuple[str, str, str]:
    if verdict is None:
        return "no trace", "", ""
    return verdict.stage, verdict.cause, str(verdict.rank or "")


def _promoted(ended: escalation_story.EscalationResult) -> RenderableType:
    stage, cause, _ = _cells(ended.promoted.from_traces)
    mark, colour = ("✓", "green") if ended.promoted.agree else ("✗", "red")
    return Text(
        f"{mark} {ended.lost.task_id} failed and was not kept: no trace of it. Sent again from the "
        f"ledger ({ended.sent} spans), its traces say {stage} / {cause}, as the ledger does.",
        colour,
    )
