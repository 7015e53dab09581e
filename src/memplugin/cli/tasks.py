"""``memplugin task`` and ``diagnose``: what became of a task, and which stage failed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from memplugin.cli import output
from memplugin.cli.options import (
    AnyWorkspace,
    AsJson,
    NothingFound,
    answer,
    no_task,
    only_workspace,
    place_of,
)
from memplugin.cli.output import (
    facts,
    heading,
    item,
    line,
    numbers,
    remark,
    table,
    text,
    when,
    word,
)
from memplugin.cli.traces import LEDGER, From, Headers, Since, Traces, Until, traces_at
from memplugin.diagnosis.attribution import tally
from memplugin.diagnosis.task_record import (
    CandidateEntry,
    RetrievalEntry,
    TaskRecord,
    UseEntry,
    WriteEntry,
)
from memplugin.errors import ConfigError
from memplugin.records import Need, Override, Verdict
from memplugin.text import clean

if TYPE_CHECKING:
    from memplugin.memory.client import Memory
    from memplugin.storage.sql.ledger import SqlLedger


def _verdicts_view(verdicts: Sequence[Verdict]) -> Iterator[RenderableType]:
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
    yield facts(
        *([("record", text(verdict.record_id))] if verdict.record_id else []),
        *([("rank", text(verdict.rank))] if verdict.rank is not None else []),
        *(("" if i else "seen", line(seen)) for i, seen in enumerate(verdict.evidence)),
        ("next", line(verdict.next_step)),
    )


_OUTCOMES = {True: "passed", False: "failed", None: "not reported"}


def _task_view(record: TaskRecord) -> Iterator[RenderableType]:
    """Sessions, writes, the retrieval that fed the decision, the decision, the outcome."""
    yield heading(f"Task {record.task_id}")
    yield facts(
        ("workspace", text(record.workspace_id)),
        ("sessions", line(", ".join(record.sessions))),
        ("arm", text(record.arm)),
        ("outcome", word(_OUTCOMES[record.success])),
    )
    yield heading(f"Writes: {len(record.writes)}")
    yield from _writes(record)
    yield heading(f"Retrievals: {len(record.retrievals)}")
    yield from _retrieval(record)
    yield heading("Decision")
    yield from _use(record.use)


def _writes(record: TaskRecord) -> Iterator[RenderableType]:
    shown = {c.record_id for r in record.retrievals for c in r.candidates if c.injected}
    near = [w for w in record.writes if w.task_id == record.task_id or w.record_id in shown]
    for w in near:
        yield from item(w.record_id or w.proposal_id, _about(w), line(w.content))
    if others := len(record.writes) - len(near):
        yield remark(f"{others} more made candidates that were not shown: --json has them")


def _about(w: WriteEntry) -> list[Text]:
    return [
        Text.assemble(word(w.gate), " an older one" if w.gate == "superseded" else ""),
        text(w.kind),
        when(w.written_at),
        line(f"session {w.session}"),
        *([_now(w)] if w.status else []),
        *([line(w.reason)] if w.reason else []),
    ]


def _now(entry: WriteEntry) -> Text:
    by = f" by {entry.replaced_by}" if entry.replaced_by else ""
    return Text.assemble("now ", word(entry.status), by)


def _retrieval(record: TaskRecord) -> Iterator[RenderableType]:
    entry = record.retrieval
    if entry is None:
        yield remark("none: nothing was recalled in this task")
        return
    if len(record.retrievals) > 1:
        yield remark("the one that fed the decision, or the last; --json has all")
    yield facts(
        ("query", line(entry.query)),
        ("filters", line(json.dumps(entry.filters, ensure_ascii=False))),
        ("asked", Text.assemble(when(entry.at), f", k={entry.k}, policy {entry.policy}")),
        (
            "records",
            text(f"{entry.total} in scope, {entry.shown} shown, {entry.pending_index} not indexed"),
        ),
    )
    yield from _candidates(entry)


def _candidates(entry: RetrievalEntry) -> Iterator[RenderableType]:
    # One column for each score part, so that what decided the ranks can be read off.
    parts = list(dict.fromkeys(name for c in entry.candidates for name in c.parts))
    yield from numbers(
        ("rank", "score", *parts, "shown"),
        ((_numbers(c, parts), _memory(c)) for c in entry.candidates),
    )


def _numbers(candidate: CandidateEntry, parts: Sequence[str]) -> list[str]:
    scores = [f"{candidate.parts[p]:.3f}" if p in candidate.parts else "-" for p in parts]
    shown = "yes" if candidate.injected else f"no: {candidate.cut}"
    return [str(candidate.rank), f"{candidate.score:.3f}", *scores, shown]


def _memory(candidate: CandidateEntry) -> Text:
    sources = f"  ({', '.join(candidate.sources)})  " if candidate.sources else "  "
    return Text.assemble(text(candidate.record_id, "cyan"), sources, line(candidate.content))


def _use(use: UseEntry) -> Iterator[RenderableType]:
    if use.decision_id is None:
        yield remark("none recorded")
        return
    support = use.chosen_support
    shown = "shown" if support and support.shown else "not shown"
    yield facts(
        ("decision", text(use.decision_id)),
        ("status", Text.assemble(text(use.status), " at ", when(use.at))),
        ("answer", line(json.dumps(use.answer, ensure_ascii=False) if use.answer else None)),
        ("cited", line(", ".join(use.cited_record_ids) or None)),
        ("flags", text(", ".join(use.flags) or "none", "yellow" if use.flags else "")),
        *(("against", _override(override)) for override in use.overrides),
        (
            "support",
            text(f"{support.id}, rank {support.rank}, {shown}" if support else None),
        ),
        ("reasoning first", text({True: "yes", False: "no", None: "unknown"}[use.order_preserved])),
        ("without memory", text(_flip(use))),
    )


def _override(override: Override) -> Text:
    sure = "pinned" if override.pinned else f"confidence {override.confidence:.2f}"
    shown = "shown" if override.shown else "not shown"
    rank = f", rank {override.rank}" if override.rank else ""
    said, claimed = (json.dumps(v, ensure_ascii=False) for v in (override.answer, override.claimed))
    then = f"; {claimed} was put in its place" if override.enforced else ""
    return line(
        f"{override.field}: the model said {said}, {override.record_id} ({sure}{rank}, {shown}) "
        f"claims {claimed}{then}"
    )


def _flip(use: UseEntry) -> str:
    if use.counterfactual_flip is None:
        return "not tried"
    if not use.counterfactual_flip:
        return "the same answer"
    bearing = [one.record_id for one in use.counterfactuals if one.verdict == "load_bearing"]
    return f"another answer without {', '.join(bearing)}" if bearing else "another answer"


def task(
    context: typer.Context,
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    workspace: AnyWorkspace = None,
    place: From = LEDGER,
    since: Since = None,
    until: Until = None,
    headers: Headers = None,
    as_json: AsJson = False,
) -> None:
    """What did a task write, retrieve and use? Shows its record.

    Exit code 1: there is no such task.
    """
    if traces := traces_at(place, since, until, headers):
        record = traces.task(task_id, workspace).record
    else:
        with place_of(context).ledger() as ledger:
            record = _task_record(ledger, task_id, workspace)
    if record is None:
        raise no_task(task_id, workspace)
    output.print_result(record.to_json(), _task_view(record), as_json=as_json)


def diagnose(
    context: typer.Context,
    task_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK", help="Task ids; without one, the workspace's failed tasks."),
    ] = None,
    need: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A record that should have been used; repeatable."),
    ] = None,
    correction: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What a user says should have been remembered."),
    ] = None,
    workspace: AnyWorkspace = None,
    every: Annotated[
        bool, typer.Option("--all", help="All tasks of the workspace, those that passed too.")
    ] = False,
    place: From = LEDGER,
    since: Since = None,
    until: Until = None,
    headers: Headers = None,
    as_json: AsJson = False,
) -> None:
    """Which stage failed: write, retrieval or use? Shows a verdict for each task.

    Say what should have been used with --need or --correction: without either, only tasks
    that passed have a verdict. Exit code 1: nothing could be said of any task.
    """
    wanted = Need(
        record_ids=tuple(need or ()),
        text=clean(correction) if correction else None,
        corrected=correction is not None,
    )
    if traces := traces_at(place, since, until, headers):
        verdicts = _from_traces(traces, task_ids or (), workspace, wanted)
    else:
        with place_of(context).opened() as memory:
            records = _chosen(memory.backend.ledger, task_ids, workspace, every=every)
            verdicts = list(_verdicts(memory, records, wanted))
    result = {
        "verdicts": [verdict.to_json() for verdict in verdicts],
        "table": [row.to_json() for row in tally(verdicts)],
    }
    output.print_result(result, _verdicts_view(verdicts), as_json=as_json)
    answer(yes=any(verdict.stage != "undetermined" for verdict in verdicts))


def _verdicts(memory: Memory, records: Sequence[TaskRecord], need: Need) -> Iterator[Verdict]:
    with output.progress("diagnosing") as bar:
        for record in bar.track(records):
            yield memory.diagnose_record(record, need, publish=True)


def _from_traces(
    traces: Traces, task_ids: Sequence[str], workspace: str | None, need: Need
) -> list[Verdict]:
    if not task_ids:
        raise ConfigError("no task is named: traces are searched by task, so give task ids.")
    with output.progress("reading traces") as bar:
        return [
            traces.task(task_id, workspace, need.record_ids).diagnose(need)
            for task_id in bar.track(dict.fromkeys(task_ids))
        ]


def named_tasks(
    ledger: SqlLedger, task_ids: Sequence[str], workspace: str | None
) -> list[TaskRecord]:
    """The records of tasks that a user named.

    Args:
        ledger: The ledger that is read.
        task_ids: The tasks; one that is named twice is read once.
        workspace: What ``--workspace`` says.

    Returns:
        A record for each task, in the order in which they were named.

    Raises:
        NothingFound: one of them is not there.
        ConfigError: one is in several workspaces, and none is named.
    """
    records: list[TaskRecord] = []
    for task_id in dict.fromkeys(task_ids):
        record = _task_record(ledger, task_id, workspace)
        if record is None:
            raise no_task(task_id, workspace)
        records.append(record)
    return records


def all_tasks(ledger: SqlLedger, workspace: str | None, passed: str) -> list[TaskRecord]:
    """The records of all tasks of a workspace, with a progress bar.

    Args:
        ledger: The ledger that is read.
        workspace: What ``--workspace`` says.
        passed: The option that adds passing tasks, for the message.

    Returns:
        A record for each task.

    Raises:
        ConfigError: no workspace is named.
    """
    if workspace is None:
        raise ConfigError(
            "no task is named: give task ids, or --workspace for its failed tasks "
            f"(and {passed} that passed)."
        )
    with output.progress("reading tasks") as bar:
        return [
            TaskRecord.from_ledger(ledger, workspace, task_id)
            for task_id in bar.track(ledger.history.tasks(workspace))
        ]


def _chosen(
    ledger: SqlLedger, task_ids: Sequence[str] | None, workspace: str | None, *, every: bool
) -> list[TaskRecord]:
    if task_ids:
        return named_tasks(ledger, task_ids, workspace)
    read = all_tasks(ledger, workspace, "--all for those")
    records = [record for record in read if every or record.success is False]
    if records:
        return records
    if every:
        raise NothingFound(
            f"workspace {workspace!r} has no tasks (memplugin doctor lists workspaces)."
        )
    raise NothingFound(
        f"no task of workspace {workspace!r} was reported as failed: name tasks, or give --all "
        "to see every task."
    )


def _task_record(ledger: SqlLedger, task_id: str, workspace: str | None) -> TaskRecord | None:
    there = [] if workspace else ledger.history.workspaces_of_task(task_id)
    chosen = only_workspace(f"task {task_id!r}", there, workspace)
    record = TaskRecord.from_ledger(ledger, chosen, task_id) if chosen else None
    return record if record and record.sessions else None
