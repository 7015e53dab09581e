"""``memplugin emit``: sends the trace of a task that sampling dropped, from the ledger."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from memplugin.cli import output
from memplugin.cli.options import AnyWorkspace, AsJson, NothingFound
from memplugin.cli.otlp import Spans
from memplugin.cli.store import place_of
from memplugin.errors import ConfigError
from memplugin.storage.sql.ledger import SqlLedger

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from memplugin.memory.emit import Emission

SERVICE = "memplugin"
"""Who sends it, where OTEL_SERVICE_NAME names nobody else."""


def emit(
    context: typer.Context,
    task_id: Annotated[str, typer.Argument(metavar="TASK", help="The task's id.")],
    workspace: AnyWorkspace = None,
    otlp: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The collector; as --otlp before the command."),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Although it was emitted before, or sampled; all of it."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Sends a task's trace from the ledger, for a task that was not sampled. Once.

    Its spans have the ids that they would have had, so that links from other traces find
    them, and `memplugin.rebuilt`. Their times are those of now; the original ones are in
    `memplugin.original.time`. Records that other tasks wrote bring those spans along.

    Exit code 1: there is no such task.
    """
    # Imports what the other commands do not need.
    from memplugin.memory.emit import emit as send_task  # noqa: PLC0415 -- see above

    place = place_of(context)
    spans = Spans(otlp) if otlp else place.spans
    exporter = spans.exporter()

    def send(batch: Sequence[ReadableSpan]) -> bool:
        return exporter.export(batch).name == "SUCCESS"

    try:
        with place.opened() as store:
            there = _workspace(store.ledger, task_id, workspace)
            service = os.environ.get("OTEL_SERVICE_NAME") or SERVICE
            done = send_task(store, there, task_id, send, service=service, again=again)
    finally:
        exporter.shutdown()
    if as_json:
        output.print_json(done.to_json())
    else:
        output.show(_said(done, spans.target))


def _workspace(ledger: SqlLedger, task_id: str, workspace: str | None) -> str:
    there = ledger.history.workspaces_of_task(task_id)
    if len(there) > 1 and workspace is None:
        raise ConfigError(
            f"task {task_id!r} is in several workspaces ({', '.join(there)}): "
            "say which with --workspace."
        )
    if not there or (workspace or there[0]) not in there:
        place = f"workspace {workspace!r}" if workspace else "any workspace"
        raise NothingFound(
            f"there is no task {task_id!r} in {place}: check the id, the workspace and the store "
            "(memplugin doctor lists workspaces)."
        )
    return workspace or there[0]


def _said(done: Emission, target: str | None) -> str:
    if done.before:
        return (
            f"{done.task_id} was emitted on {done.before:%Y-%m-%d %H:%M} UTC already: nothing was "
            "sent. --again sends it again."
        )
    if done.was_sampled:
        return (
            f"{done.task_id} was sampled: its spans were sent when they were made, and nothing "
            "was sent now. --again sends them all."
        )
    count = len(done.trace_ids)
    traces = "1 trace" if count == 1 else f"{count} traces"
    return f"{done.spans} spans of {done.task_id} in {traces} sent to {target}:\n" + "\n".join(
        f"  {trace_id}" for trace_id in done.trace_ids
    )
