"""Making a task's spans again: what is known of its past, and the ids that its spans had.

The ids are those of the spans that were not sampled, which the rows kept: a link from
another trace finds its target. A row from a time without an SDK gets ids made from its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from opentelemetry import context as otel
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from memplugin.config import MemoryContext
from memplugin.records import Json, MemoryRecord, Retrieval, RowSpan, SpanRef, TaskRows, Verdict
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.spans import Tracing
from memplugin.text import digest

Link = tuple[str, str]
"""A traceparent and the relation."""


@dataclass(frozen=True, slots=True)
class TaskPast:
    """What the ledger holds of one task.

    Attributes:
        spans: Where the rows were written that do not say it themselves.
        records: Those that its proposals and candidates name, and what replaced them.
        retrievals: Those that its decisions used, by id.
        verdict: The latest that was given, if any.
    """

    workspace_id: str
    task_id: str
    rows: TaskRows
    spans: Sequence[RowSpan]
    records: Mapping[str, MemoryRecord]
    retrievals: Mapping[str, Retrieval]
    verdict: Verdict | None = None

    def context(self, session_id: str) -> MemoryContext:
        """Of a session; with the arm of the task's last attempt, as in its record."""
        arm = self.rows.outcomes[-1].arm if self.rows.outcomes else "memory_on"
        return MemoryContext(self.workspace_id, session_id, task_id=self.task_id, arm=arm)


@dataclass(frozen=True, slots=True)
class PastHop:
    """One span to be made again.

    Attributes:
        ref: Its ids.
        sampled: Whether it was sent when it was made.
        describe: What it says.
        names_records: Records that a write made or was attached to.
        made_records: Of these, the ones it made.
    """

    operation: names.Operation
    context: MemoryContext
    at: datetime
    ref: SpanRef
    sampled: bool
    describe: Callable[[ContentPolicy], Json]
    events: Sequence[Json] = ()
    links: Sequence[Link] = ()
    names_records: Sequence[str] = ()
    made_records: Sequence[str] = ()


class Spans:
    """The spans in which the rows of some tasks were written."""

    def __init__(self, pasts: Iterable[TaskPast]) -> None:
        self._sampled: dict[str, bool] = {}
        self._sessions: dict[tuple[str, str], bool] = {}
        for past in pasts:
            for record in past.records.values():
                self._note(_ref(record.traceparent))
            for kept in (*past.rows.retrievals, *past.rows.decisions):
                self._note(kept.span)
            for row in past.spans:
                if row.sampled is not None:
                    self._note(row_ref(row, sampled=row.sampled))
                    self._sessions[past.task_id, row.session_id] = row.sampled

    def _note(self, ref: SpanRef | None) -> None:
        if ref:
            self._sampled[ref.trace_id] = self._sampled.get(ref.trace_id, False) or ref.sampled

    def sampled(self, context: MemoryContext, ref: SpanRef) -> bool:
        """Whether a span was sent when it was made: as another one of its trace was.

        Of a trace of which nothing else is known, as the first one of its session was.
        """
        session = self._sessions.get((context.task, context.session_id), False)
        return self._sampled.get(ref.trace_id, session)


def span_of(past: TaskPast, session_id: str, row: Sequence[str], ref: SpanRef | None) -> SpanRef:
    """The span in which a row was written.

    Args:
        past: The row's task.
        session_id: The row's session.
        row: What distinguishes the row from others of the session, such as its table and id.
        ref: The span that the row names; None where it names none.

    Returns:
        ``ref`` as sampled, or ids that are made from the row and are the same each time.
    """
    if ref:
        return replace(ref, sampled=True)
    session = (past.workspace_id, past.task_id, session_id)
    return SpanRef(digest("trace", *session, length=32), digest("span", *session, *row, length=16))


def row_ref(row: RowSpan, *, sampled: bool = True) -> SpanRef | None:
    """Where a row says it was written."""
    return SpanRef(row.trace_id, row.span_id, sampled) if row.trace_id and row.span_id else None


def _ref(traceparent: str | None) -> SpanRef | None:
    parts = (traceparent or "").split("-")
    return SpanRef(parts[1], parts[2], parts[3] == "01") if len(parts) == 4 else None


class _GivenIds(IdGenerator):
    """Gives the next span the ids it had."""

    def __init__(self) -> None:
        self.ref = SpanRef("0", "0")

    def generate_trace_id(self) -> int:
        return int(self.ref.trace_id, 16)

    def generate_span_id(self) -> int:
        return int(self.ref.span_id, 16)


def rebuilt_spans(
    hops: Iterable[PastHop], tracing: Tracing, *, service: str
) -> tuple[ReadableSpan, ...]:
    """Makes the spans, each a root: the host's own spans around them are in no ledger.

    Their times are those of now, and the original one is an attribute: Tempo finds spans by
    the time they came in, and backends drop or hide those from before their retention.

    Args:
        hops: In the order in which they are to be seen.
        tracing: The store's.
        service: ``service.name`` of who sends them.

    Returns:
        The ended spans, in the order of the hops.
    """
    ids, kept = _GivenIds(), InMemorySpanExporter()
    resource = Resource.create({"service.name": service})
    # Its sampler is given, so that OTEL_TRACES_SAMPLER can't drop what is wanted.
    provider = TracerProvider(
        sampler=ALWAYS_ON, id_generator=ids, resource=resource, shutdown_on_exit=False
    )
    provider.add_span_processor(SimpleSpanProcessor(kept))
    again = tracing.on(provider)
    outside = otel.attach(otel.Context())
    try:
        for hop in hops:
            ids.ref = hop.ref
            _make(hop, again)
    finally:
        otel.detach(outside)
    return kept.get_finished_spans()


def _make(past: PastHop, tracing: Tracing) -> None:
    hop = tracing.start(past.operation, past.context)
    hop.set({names.REBUILT: True, names.ORIGINAL_TIME: past.at.isoformat()})
    hop.set(lambda: past.describe(tracing.content))
    for event in past.events:
        hop.event(names.CANDIDATE_EVENT, event)
    for traceparent, relation in past.links:
        hop.link(traceparent, relation)
    hop.end()
