"""Sending the trace of a task that was not sampled, from the ledger, once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from opentelemetry.sdk.trace import ReadableSpan

from memplugin.errors import ConfigError
from memplugin.memory.backend import Backend
from memplugin.records import MACHINE, Noun, Retrieval, TaskRows, Verdict
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.telemetry.rebuild.hops import task_hops
from memplugin.telemetry.rebuild.spans import PastHop, TaskPast, rebuilt_spans
from memplugin.text import digest

Send = Callable[[Sequence[ReadableSpan]], bool]
"""Sends spans; whether all of them arrived."""

IN_REQUEST = 50
"""Spans in one request: a collector refuses one over 4 MiB whole."""

NOT_YET = ""


@dataclass(frozen=True, slots=True)
class Emission(Noun):
    """What became of emitting a task.

    Attributes:
        spans: How many were sent.
        trace_ids: Of the traces they are in.
        before: When the task was emitted before; then nothing was sent, unless asked for.
        was_sampled: Its spans were sent when they were made; then nothing was sent now.
    """

    task_id: str
    workspace_id: str
    spans: int = 0
    trace_ids: tuple[str, ...] = ()
    before: datetime | None = None
    was_sampled: bool = False


def emit(
    backend: Backend,
    workspace_id: str,
    task_id: str,
    send: Send,
    *,
    service: str,
    again: bool = False,
) -> Emission:
    """Makes a task's spans again and sends those that were not sampled.

    Args:
        backend: Where the task is.
        workspace_id: Its workspace.
        task_id: The task.
        send: Sends spans.
        service: ``service.name`` of the sender.
        again: Also when it was emitted before, and also the spans that were sampled.

    Returns:
        What was sent, or why nothing was.

    Raises:
        ConfigError: the workspace has no such task, or the spans did not arrive.
    """
    hops = _wanted(backend.ledger, workspace_id, task_id, again=again)
    if not hops:
        return Emission(task_id, workspace_id, was_sampled=True)
    key = f"emitted_{digest(workspace_id, task_id)}"
    before = backend.ledger.facts.setdefault(key, NOT_YET)
    if before != NOT_YET and not again:
        return Emission(task_id, workspace_id, before=datetime.fromisoformat(before))
    spans = rebuilt_spans(hops, backend.tracing, service=service)
    for start in range(0, len(spans), IN_REQUEST):
        if not send(spans[start : start + IN_REQUEST]):
            raise ConfigError(
                f"the spans of task {task_id!r} did not arrive: check that a collector listens "
                "there, and try again."
            )
    backend.ledger.facts.replace(key, backend.clock.now().isoformat())
    ids = tuple(dict.fromkeys(hop.ref.trace_id for hop in hops))
    return Emission(task_id, workspace_id, spans=len(spans), trace_ids=ids)


def _wanted(ledger: SqlLedger, workspace_id: str, task_id: str, *, again: bool) -> list[PastHop]:
    past = replace(
        _read_past(ledger, workspace_id, task_id), verdict=_verdict(ledger, workspace_id, task_id)
    )
    hops = task_hops(past, _read_writers(ledger, past))
    own = [hop for hop in hops if hop.context.task_id == task_id]
    if not own:
        raise ConfigError(
            f"workspace {workspace_id!r} has no task {task_id!r}: check both ids "
            "(`memplugin doctor` lists workspaces)."
        )
    if again:
        return hops
    # The spans of its records' writers alone would tell nobody anything new.
    return [] if all(hop.sampled for hop in own) else [hop for hop in hops if not hop.sampled]


def _verdict(ledger: SqlLedger, workspace_id: str, task_id: str) -> Verdict | None:
    """The latest that the attribution gave."""
    said = [
        judgement
        for judgement in ledger.judgements.of(workspace_id)
        if judgement.task_id == task_id and judgement.by == MACHINE
    ]
    last = max(said, key=lambda judgement: judgement.at, default=None)
    if last is None:
        return None
    return Verdict(last.stage, last.cause or "", last.record_id, last.rank, last.evidence)


def _read_past(ledger: SqlLedger, workspace_id: str, task_id: str) -> TaskPast:
    """Reads everything that the ledger holds of one task.

    Args:
        ledger: The ledger.
        workspace_id: The workspace.
        task_id: The task.

    Returns:
        Rows, their spans, and the records and retrievals that they name.
    """
    rows = ledger.history.task_rows(workspace_id, task_id)
    named = {p.record_id for p in rows.proposals if p.record_id}
    named |= {c.record_id for r in rows.retrievals for c in r.candidates}
    records = ledger.records.get_many(workspace_id, named)
    replacing = {r.replaced_by for r in records.values() if r.replaced_by}
    return TaskPast(
        workspace_id=workspace_id,
        task_id=task_id,
        rows=rows,
        spans=ledger.history.row_spans(workspace_id, task_id),
        records=records | ledger.records.get_many(workspace_id, replacing),
        retrievals=_used(ledger, workspace_id, rows),
    )


def _read_writers(ledger: SqlLedger, past: TaskPast) -> list[TaskPast]:
    """Reads the other tasks in which a task's records were written or replaced."""
    proposals = ledger.history.proposals_of(past.workspace_id, past.records)
    tasks = dict.fromkeys(p.task_id for p in proposals if p.task_id != past.task_id)
    return [_read_past(ledger, past.workspace_id, task_id) for task_id in tasks]


def _used(ledger: SqlLedger, workspace_id: str, rows: TaskRows) -> dict[str, Retrieval]:
    known = {retrieval.id: retrieval for retrieval in rows.retrievals}
    return known | dict(_elsewhere(ledger, workspace_id, rows, known))


def _elsewhere(
    ledger: SqlLedger, workspace_id: str, rows: TaskRows, known: dict[str, Retrieval]
) -> Iterable[tuple[str, Retrieval]]:
    """Retrievals that a decision took over from another task."""
    for decision in rows.decisions:
        id_ = decision.retrieval_id
        if id_ and id_ not in known and (found := ledger.retrievals.get(workspace_id, id_)):
            yield id_, found
