"""The option ``--from``, which reads a task from traces, and ``memplugin emit``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from memplugin.cli import output
from memplugin.cli.options import (
    AnyWorkspace,
    AsJson,
    NothingFound,
    moment,
    no_task,
    only_workspace,
    place_of,
)
from memplugin.cli.otlp import Spans
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError, TracesUnavailable
from memplugin.records import Need, Verdict

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

    from memplugin.memory.client import Memory
    from memplugin.memory.emit import Emission
    from memplugin.telemetry.readers.model import Note, ReadSpan, Source


LEDGER = "ledger"
LOOKED_BACK = timedelta(days=90)
"""How far back a trace backend is searched when --since says nothing."""

From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="Where to read: ledger, otlp:FILE (of the collector's file exporter), "
        "jaeger:http://host:16686 or tempo:http://host:3200.",
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="With --from: how far back, as an age (12h, 90d) or a date. 90d; all of a file.",
    ),
]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="With --from: up to then. Now.")]
Headers = Annotated[
    str | None,
    typer.Option(
        metavar="K=V,K=V",
        envvar="MEMPLUGIN_TRACE_HEADERS",
        help="With --from: sent to the backend, such as Authorization=Bearer%20… or "
        "X-Scope-OrgID=….",
    ),
]


@dataclass(frozen=True, slots=True)
class TracedTask:
    """A task's record and the spans it was read from."""

    record: TaskRecord
    spans: Sequence[ReadSpan]

    def diagnose(self, need: Need) -> Verdict:
        """Names the stage, from these spans alone."""
        # No other command needs it.
        from memplugin.diagnosis.attribution import attribute  # noqa: PLC0415 -- see above
        from memplugin.diagnosis.evidence_from_spans import evidence_from_spans  # noqa: PLC0415 -- see above

        return attribute(self.record, need, evidence_from_spans(self.spans, self.record, need))


@dataclass(frozen=True, slots=True)
class Traces:
    """A backend, and the time that is looked through."""

    source: Source
    since: datetime
    until: datetime

    def task(
        self, task_id: str, workspace: str | None, record_ids: Iterable[str] = ()
    ) -> TracedTask:
        """Reads a task; what the reading lacks is said on stderr.

        Args:
            task_id: The task.
            workspace: What ``--workspace`` says.
            record_ids: Records that should have been used: their traces are read too.

        Returns:
            The task's record and the spans it was read from.

        Raises:
            NothingFound: there is no span of it.
            TracesUnavailable: the backend gave nothing to work with.
            ConfigError: it is in several workspaces and none is named.
        """
        # Reads HTTP and protobuf: no other command waits for them.
        from memplugin.diagnosis.from_spans import record_from_spans, workspaces_of  # noqa: PLC0415 -- see above
        from memplugin.telemetry.readers.open import read_task  # noqa: PLC0415 -- see above

        read = read_task(self.source, task_id, self.since, self.until, record_ids)
        if not read.spans:
            raise _nothing(task_id, read.notes)
        for note in read.notes:
            output.warn(note.text)
        there = [] if workspace else workspaces_of(read.spans, task_id)
        chosen = only_workspace(f"task {task_id!r}", there, workspace)
        record = record_from_spans(read.spans, chosen, task_id) if chosen else None
        if record is None:
            raise NothingFound(f"no span of task {task_id!r} is of workspace {workspace!r}.")
        return TracedTask(record, read.spans)


def traces_at(
    place: str, since: str | None, until: str | None, headers: str | None
) -> Traces | None:
    """The traces that ``--from`` names.

    Args:
        place: What ``--from`` says.
        since: What ``--since`` says.
        until: What ``--until`` says.
        headers: What ``--headers`` says.

    Returns:
        Traces that are ready to be read; None for the ledger.

    Raises:
        ConfigError: an option can't be read, or is for traces only.
    """
    if place == LEDGER:
        if since or until:
            raise ConfigError("--since and --until are for traces: give --from as well.")
        return None
    # As above.
    from opentelemetry.util.re import parse_env_headers  # noqa: PLC0415 -- see above

    from memplugin.telemetry.readers.open import open_source  # noqa: PLC0415 -- see above

    end = moment(until, "--until") if until else datetime.now(UTC)
    earliest = datetime(1970, 1, 1, tzinfo=UTC) if place.startswith("otlp:") else end - LOOKED_BACK
    start = moment(since, "--since") if since else earliest
    if start >= end:
        raise ConfigError(f"--since ({start:%Y-%m-%d}) is not before --until ({end:%Y-%m-%d}).")
    given = parse_env_headers(headers, liberal=True) if headers else None
    return Traces(open_source(place, given), start, end)


def _nothing(task_id: str, notes: Sequence[Note]) -> NothingFound | TracesUnavailable:
    said = " ".join(note.text for note in notes)
    if any(note.kind in ("refused", "unreadable") for note in notes):
        return TracesUnavailable(said)
    return NothingFound(said or f"there is no span of task {task_id!r}.")


# ---------------------------------------------------------------- emit

SERVICE = "memplugin"
"""``service.name`` of the spans where OTEL_SERVICE_NAME is not set."""


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
    place = place_of(context)
    spans = Spans(otlp) if otlp else place.spans
    exporter = spans.exporter()

    def send(batch: Sequence[ReadableSpan]) -> bool:
        return exporter.export(batch).name == "SUCCESS"

    try:
        with place.opened() as memory:
            there = _workspace(memory, task_id, workspace)
            service = os.environ.get("OTEL_SERVICE_NAME") or SERVICE
            done = memory.emit(task_id, workspace_id=there, send=send, service=service, again=again)
    finally:
        exporter.shutdown()
    output.print_result(done.to_json(), [_emission(done, spans.target)], as_json=as_json)


def _workspace(memory: Memory, task_id: str, workspace: str | None) -> str:
    there = memory.workspaces_of_task(task_id)
    chosen = only_workspace(f"task {task_id!r}", there, workspace)
    if chosen not in there:
        raise no_task(task_id, workspace)
    return chosen


def _emission(done: Emission, target: str | None) -> str:
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
