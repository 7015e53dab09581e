"""``memplugin task`` and ``memplugin diagnose``: what a task left behind, and what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from memplugin.cli import output
from memplugin.cli.group import NothingFound, answer
from memplugin.cli.options import AnyWorkspace, AsJson
from memplugin.cli.place import place_of
from memplugin.cli.traces import LEDGER, From, Headers, Since, Traces, Until, traces_at
from memplugin.cli.views.task import task_view
from memplugin.cli.views.verdicts import verdicts_view
from memplugin.diagnosis.tally import tally
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.ports import Ledger
from memplugin.records import Need, Verdict
from memplugin.text import clean

if TYPE_CHECKING:
    from memplugin.memory.store import Store


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
            record = task_record(ledger, task_id, workspace)
    if record is None:
        raise NothingFound(_no_task(task_id, workspace))
    if as_json:
        output.print_json(record.to_json())
    else:
        output.show(*task_view(record))


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
        with place_of(context).opened() as store:
            records = (
                named_tasks(store.ledger, task_ids, workspace)
                if task_ids
                else _all_of(store.ledger, workspace, every=every)
            )
            verdicts = list(_verdicts(store, records, wanted))
    if as_json:
        table = [row.to_json() for row in tally(verdicts)]
        output.print_json({"verdicts": [v.to_json() for v in verdicts], "table": table})
    else:
        output.show(*verdicts_view(verdicts))
    answer(yes=any(verdict.stage != "undetermined" for verdict in verdicts))


def _verdicts(store: Store, records: Sequence[TaskRecord], need: Need) -> Iterator[Verdict]:
    # Imports what the ledger alone does not need.
    from memplugin.memory.diagnosing import judge, publish  # noqa: PLC0415 -- see above

    with output.progress("diagnosing") as bar:
        for record in bar.track(records):
            verdict = judge(store, record, need)
            publish(store, record, verdict)
            yield verdict


def _from_traces(
    traces: Traces, task_ids: Sequence[str], workspace: str | None, need: Need
) -> list[Verdict]:
    if not task_ids:
        raise ConfigError("no task is named: traces are searched by task, so give task ids.")
    with output.progress("reading traces") as bar:
        return [
            traces.task(task_id, workspace, need.record_ids).judge(need)
            for task_id in bar.track(dict.fromkeys(task_ids))
        ]


def named_tasks(ledger: Ledger, task_ids: Sequence[str], workspace: str | None) -> list[TaskRecord]:
    """The records of tasks that a user named.

    Raises:
        NothingFound: one of them is not there.
        ConfigError: one is in several workspaces, and none is named.
    """
    records: list[TaskRecord] = []
    for task_id in dict.fromkeys(task_ids):
        record = task_record(ledger, task_id, workspace)
        if record is None:
            raise NothingFound(_no_task(task_id, workspace))
        records.append(record)
    return records


def _all_of(ledger: Ledger, workspace: str | None, *, every: bool) -> list[TaskRecord]:
    if workspace is None:
        raise ConfigError(
            "no task is named: give task ids, or --workspace for its failed tasks "
            "(and --all for those that passed too)."
        )
    with output.progress("reading tasks") as bar:
        read = [
            TaskRecord.from_ledger(ledger, workspace, task_id)
            for task_id in bar.track(ledger.tasks(workspace))
        ]
    records = [record for record in read if every or record.success is False]
    if not records:
        raise NothingFound(_no_tasks(workspace, every=every))
    return records


def task_record(ledger: Ledger, task_id: str, workspace: str | None) -> TaskRecord | None:
    """A task's record; None when there is no such task.

    Raises:
        ConfigError: it is in several workspaces, and none is named.
    """
    there = [workspace] if workspace else ledger.workspaces_of_task(task_id)
    if len(there) > 1:
        raise ConfigError(
            f"task {task_id!r} is in several workspaces ({', '.join(there)}): "
            "say which with --workspace."
        )
    if not there:
        return None
    record = TaskRecord.from_ledger(ledger, there[0], task_id)
    return record if record.sessions else None


def _no_task(task_id: str, workspace: str | None) -> str:
    place = f"workspace {workspace!r}" if workspace else "any workspace"
    return (
        f"there is no task {task_id!r} in {place}: check the id, the workspace and the store "
        "(memplugin doctor lists workspaces)."
    )


def _no_tasks(workspace: str, *, every: bool) -> str:
    if every:
        return f"workspace {workspace!r} has no tasks (memplugin doctor lists workspaces)."
    return (
        f"no task of workspace {workspace!r} was reported as failed: name tasks, or give --all "
        "to see every task."
    )
