"""Reading a task's record from traces instead of the ledger: ``--from``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from memplugin.cli import output
from memplugin.cli.operations import moment
from memplugin.cli.options import NothingFound
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError, TracesUnavailable
from memplugin.records import Need, Verdict

if TYPE_CHECKING:
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

    def judge(self, need: Need) -> Verdict:
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
        there = [workspace] if workspace else workspaces_of(read.spans, task_id)
        if len(there) > 1:
            raise ConfigError(
                f"task {task_id!r} is in several workspaces ({', '.join(there)}): "
                "say which with --workspace."
            )
        record = record_from_spans(read.spans, there[0], task_id) if there else None
        if record is None:
            raise NothingFound(f"no span of task {task_id!r} is of workspace {workspace!r}.")
        return TracedTask(record, read.spans)


def traces_at(
    place: str, since: str | None, until: str | None, headers: str | None
) -> Traces | None:
    """The traces that ``--from`` names; None for the ledger.

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
