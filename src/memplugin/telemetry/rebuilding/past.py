"""What is known of a task's past, and the spans its hops had or would have had.

The ids are those of the spans that were not sampled, which the rows kept: a link from
another trace finds its target. A row from a time without an SDK gets ids made from its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memplugin.config import MemoryContext
from memplugin.ports import RowSpan, TaskRows
from memplugin.records import Json, MemoryRecord, Retrieval, SpanRef, Verdict
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy
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
    """The span of a row, or one made up from the row where there was none."""
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
