"""``memplugin learn``, ``audit``, ``evict`` and ``calibrate``: what memories are worth."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from memplugin.cli import models, output
from memplugin.cli.options import AsJson, Workspace, answer, place_of
from memplugin.cli.output import facts, heading, item, line, more, numbers, remark, text, when
from memplugin.config import MemoryContext
from memplugin.diagnosis.audit import (
    Audit,
    Calibration,
    Contradiction,
    Duplicate,
    Misleading,
    NeverShown,
    SignAgreement,
)
from memplugin.errors import ConfigError
from memplugin.records import Disagreement, Eviction, Json, LearnReport

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


HEURISTIC = (
    '"followed" is what a judge or a cosine says: a sign, no cause. Only a counterfactual run '
    "can say what a memory did (memplugin calibrate, memplugin counterfactual)."
)


# ---------------------------------------------------------------- learn


def _learnt_view(report: LearnReport) -> Iterator[RenderableType]:
    """What a run of ``learn`` did."""
    judge = (
        f"{report.judged} judged, {report.followed} of them followed (prompt {report.judge})"
        if report.judge
        else "no judge: --model gives one; the cosine alone hardly tells doing from not doing"
    )
    yield facts(
        ("to score", text(report.found)),
        ("judge", text(judge)),
        ("cosine", text(f"{report.compared} compared")),
        ("failed", text(f"{report.failed}{', tried again next time' if report.failed else ''}")),
        ("left", text(report.left)),
    )
    if report.without_action:
        yield remark(
            f"{report.without_action} rows can't be scored: their attempts were reported without "
            "an action (memory.report(action=…))"
        )
    if report.cut_short:
        yield remark(
            f"{report.cut_short} actions are longer than the embedding model reads: their cosine "
            "is that of the beginning"
        )


# ---------------------------------------------------------------- audit


def _audit_view(audit: Audit, limit: int) -> Iterator[RenderableType]:
    """Each section, the misleading records first."""
    yield from _section(
        "Misleading: shown in successes, and rarely followed in them",
        audit.misleading,
        limit,
        _misleading,
    )
    if audit.misleading:
        yield remark(HEURISTIC)
    yield from _section("Judge and cosine far apart: who is right?", audit.far_apart, limit, _apart)
    yield from _section("Duplicates", audit.duplicates, limit, _duplicates)
    yield from _section(
        "Contradictions that one request could meet", audit.contradictions, limit, _contradictions
    )
    yield from _section("Never shown", audit.never_shown, limit, _hidden)
    for note in audit.notes:
        yield remark(note)


def _section(
    title: str, rows: Sequence[Any], limit: int, view: Callable[[Sequence[Any]], Iterator[Any]]
) -> Iterator[RenderableType]:
    yield heading(f"{title} ({len(rows)})")
    if not rows:
        yield remark("none")
        return
    yield from view(rows[:limit])
    yield from more(len(rows), limit)


def _misleading(rows: Sequence[Misleading]) -> Iterator[RenderableType]:
    columns = ("record", "shown in", "passed", "followed then", "outcome", "utility")
    yield from numbers(
        columns,
        (
            (
                (
                    row.record_id,
                    str(row.attempts),
                    str(row.successes),
                    f"{row.followed} of {row.known} ({row.sign})",
                    f"{row.outcome:.2f}",
                    f"{row.utility:+.2f}",
                ),
                line(row.content),
            )
            for row in rows
        ),
    )


def _apart(rows: Iterable[Disagreement]) -> Iterator[RenderableType]:
    for row in rows:
        said = "followed" if row.followed else "not followed"
        about = [text(f"the judge: {said}"), text(f"cosine {row.cosine:.2f}")]
        about.append(text(f"task {row.task_id}, attempt {row.attempt}"))
        yield from item(
            row.record_id, about, Text("\n").join([line(row.content), line(row.reasoning)])
        )


def _duplicates(rows: Iterable[Duplicate]) -> Iterator[RenderableType]:
    for row in rows:
        both = Text("\n").join(line(content) for content in row.contents)
        yield from item(" and ".join(row.record_ids), [text(f"cosine {row.cosine:.2f}")], both)


def _contradictions(rows: Iterable[Contradiction]) -> Iterator[RenderableType]:
    for row in rows:
        sides = [
            text(f"{record_id}: {row.field} = {_json(value)}, scope {_json(dict(scope))}")
            for record_id, value, scope in zip(row.record_ids, row.values, row.scopes, strict=True)
        ]
        yield from item(row.field, [], Text("\n").join(sides))


def _hidden(rows: Iterable[NeverShown]) -> Iterator[RenderableType]:
    for row in rows:
        yield from item(row.record_id, [text(row.kind), when(row.created_at)], line(row.content))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- evict


_REASONS = {
    "negative_utility": "following it did harm",
    "rarely_followed": "its successes did without it",
}


def _evicted_view(evictions: Sequence[Eviction], *, dry_run: bool) -> Iterator[RenderableType]:
    """Which records are evicted, and why."""
    if not evictions:
        yield text("Nothing to evict: no record is known to do harm or to be passed over.")
        return
    for eviction in evictions:
        known = eviction.totals
        about = [
            text(_REASONS[eviction.reason]),
            text(f"utility {eviction.utility:+.2f}"),
            text(f"shown in {known.attempts} attempts, {known.successes} passed"),
            text(f"followed in {known.followed} of {known.judged}"),
        ]
        yield from item(eviction.record_id, about, line(eviction.content))
    count = f"{len(evictions)} record{'s' if len(evictions) > 1 else ''}"
    if dry_run:
        yield text(f"{count} would be evicted.")
    else:
        yield text(f"{count} evicted; --undo RECORD takes one back, and pinning it keeps it.")


# ---------------------------------------------------------------- calibrate


def _calibration_view(found: Calibration) -> Iterator[RenderableType]:
    """How far each sign agrees with counterfactuals."""
    yield heading(f"Followed against load-bearing: {found.sampled} of {found.of} shown records")
    yield facts(
        ("judge", _agreement(found.judge)),
        (f"cosine from {found.close_from:g}", _agreement(found.cosine)),
        ("uncertain", text(f"{found.uncertain}: their counterfactuals say nothing")),
    )
    yield remark(HEURISTIC)


def _agreement(sign: SignAgreement) -> Text:
    if sign.agreement is None:
        return text("nothing to compare")
    low, high = sign.interval
    kappa = "" if sign.kappa is None else f", kappa {sign.kappa:.2f}"
    return text(
        f"agrees on {sign.agreement:.0%} of {sign.compared} "
        f"(95% interval {low:.0%} to {high:.0%}{kappa}); "
        f"followed and without effect: {sign.followed_not}, "
        f"not followed and load-bearing: {sign.ignored_load_bearing}"
    )


def learn(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            help="Who judges: PROVIDER:NAME (any chat model of LangChain), or local. Left out, "
            "the cosine of memory and action has to do."
        ),
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", "-w", help="Only this workspace; left out, all of them."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Most rows of this run.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most calls of the judge at a time.")
    ] = 8,
    as_json: AsJson = False,
) -> None:
    """Were the memories that were shown followed? Scores each against what was then done.

    "Followed" is a heuristic, and no cause: `memplugin calibrate` compares it with
    counterfactual runs. May be stopped anywhere; the next run goes on, and tries again what
    failed. Exit code 1: the judge could not be reached.
    """
    with (
        place_of(context).opened() as memory,
        _judge(model) as judge,
        output.progress("scoring") as bar,
    ):
        task = bar.add_task("scoring", total=None)
        report = memory.learn(
            model=judge,
            workspace_id=workspace,
            limit=limit,
            concurrency=concurrency,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
    output.print_result(report.to_json(), _learnt_view(report), as_json=as_json)
    if report.stopped:
        kept = "what it said before is kept" if report.judged else "every score is left empty"
        output.warn(
            f"the judge can't be reached ({report.stopped}): {kept}. Check the model and its key, "
            "then run the command again: it goes on from there."
        )
    answer(yes=report.stopped is None)


def audit(
    context: typer.Context,
    workspace: Workspace,
    limit: Annotated[
        int, typer.Option(min=1, help="Most rows shown of each kind; --json has all.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Which memories should a person look at? Misleading records first.

    Then: rows on which judge and cosine are far apart, duplicates, contradictions with
    overlapping scopes, and records that were never shown.
    """
    with place_of(context).opened() as memory:
        found = memory.audit(workspace_id=workspace)
    output.print_result(found.to_json(), _audit_view(found, limit), as_json=as_json)


def evict(
    context: typer.Context,
    workspace: Workspace,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which records, and why.")
    ] = False,
    undo: Annotated[
        str | None, typer.Option(metavar="RECORD", help="Take the eviction of this record back.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Retires records whose use did harm, or whose successes did without them.

    Never one that is pinned, and no preference or instruction. Retired records are kept, are
    never retrieved, and can be taken back with --undo. Exit code 1: there is no such record.
    """
    if undo and dry_run:
        raise ConfigError("--undo changes one record and --dry-run none: give one of them.")
    with place_of(context).opened() as memory:
        if undo:
            record = memory.restore(undo, context=MemoryContext(workspace, "memplugin-evict"))
            output.print_result(
                record.to_json(), [text(f"{record.id} is active again.")], as_json=as_json
            )
            return
        evictions = memory.evict(workspace_id=workspace, dry_run=dry_run)
    output.print_result(
        [eviction.to_json() for eviction in evictions],
        _evicted_view(evictions, dry_run=dry_run),
        as_json=as_json,
    )


def calibrate(
    context: typer.Context,
    sample: Annotated[int, typer.Argument(metavar="N", min=1, help="How many shown records.")],
    workspace: Workspace,
    model: Annotated[
        str,
        typer.Option(help="Who decides, not who judges: PROVIDER:NAME, local or scripted."),
    ],
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs with, and runs without, each; left out, 8.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Is "followed" a cause? Compares judge and cosine with counterfactual runs.

    Decisions are run again with and without each record of the sample; what comes of it is
    kept.
    """
    small = model == models.LOCAL
    with (
        place_of(context).opened() as memory,
        models.chat_model(model) as decider,
        output.progress("running decisions") as bar,
    ):
        task = bar.add_task("running decisions", total=None)
        found = memory.calibrate(
            sample,
            workspace_id=workspace,
            model=decider,
            runs=runs,
            seed=seed,
            max_reasoning_chars=models.LOCAL_MAX_REASONING if small else None,
            cite_by_enum=small,
            on_run=lambda done, most: bar.update(task, completed=done, total=most),
        )
    output.print_result(
        {**found.to_json(), **_shares(found.judge), **_shares(found.cosine)},
        _calibration_view(found),
        as_json=as_json,
    )


def _shares(sign: SignAgreement) -> Json:
    shares = {"agreement": sign.agreement, "kappa": sign.kappa}
    return {sign.sign: {**sign.to_json(), **shares}}


@contextmanager
def _judge(name: str | None) -> Generator[BaseChatModel | None]:
    if name is None:
        yield None
        return
    if name == models.SCRIPTED:
        raise ConfigError("the scripted model is no judge: give --model PROVIDER:NAME, or local.")
    with models.chat_model(name) as model:
        yield model
