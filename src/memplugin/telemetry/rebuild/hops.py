"""The hops of a task, in order, made again from its rows: writes, recalls, decisions, ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from memplugin.records import (
    Candidate,
    Decision,
    Json,
    MemoryRecord,
    Proposal,
    RowSpan,
    SpanRef,
    StoredProposal,
    WriteReceipt,
)
from memplugin.telemetry import names
from memplugin.telemetry.attributes import (
    candidate_events,
    decided,
    finished,
    left_out,
    reported,
    searched,
    written,
)
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.rebuild.spans import Link, PastHop, Spans, TaskPast, row_ref, span_of

_MADE = ("accepted", "superseded")


def _write_hops(past: TaskPast, spans: Spans) -> Iterator[PastHop]:
    """One hop for each span that wrote proposals or read turns."""
    proposals = {proposal.id: proposal for proposal in past.rows.proposals}
    read_by = {turn.id: turn.extracted_by for turn in past.rows.turns}
    batches: dict[SpanRef, list[RowSpan]] = defaultdict(list)
    for row in past.spans:
        if row.table in ("turns", "proposals"):
            # Without a span, proposals of one call are known by their time.
            key = (row.table, row.at.isoformat() if row.table == "proposals" else "")
            batches[span_of(past, row.session_id, key, row_ref(row))].append(row)
    for ref, rows in batches.items():
        made = [proposals[row.id] for row in rows if row.table == "proposals"]
        turns = [row for row in rows if row.table == "turns"]
        extractors = [*(p.extractor for p in made), *(read_by.get(row.id) for row in turns)]
        context = past.context(rows[0].session_id)
        yield PastHop(
            operation=names.UPSERT,
            context=context,
            at=made[0].created_at if made else rows[-1].at,
            ref=ref,
            sampled=spans.sampled(context, ref),
            describe=_Written(
                made,
                [past.records.get(p.record_id or "") for p in made],
                at=made[0].created_at if made else rows[-1].at,
                turns=len(turns),
                extractor=next((name for name in extractors if name), None),
            ),
            names_records=[p.record_id for p in made if p.record_id],
            made_records=[p.record_id for p in made if p.record_id and p.ruling in _MADE],
        )


class _Written:
    """What the span of a write says."""

    def __init__(
        self,
        proposals: Sequence[StoredProposal],
        records: Sequence[MemoryRecord | None],
        *,
        at: datetime,
        turns: int,
        extractor: str | None,
    ) -> None:
        self._proposals = proposals
        self._records = records
        self._at = at
        self._turns = turns
        self._extractor = extractor

    def __call__(self, content: ContentPolicy) -> Json:
        pairs = list(zip(self._proposals, self._records, strict=True))
        said = written(
            [_proposal(*pair) for pair in pairs if pair[0].kind is not None],
            [_receipt(*pair) for pair in pairs],
            content,
            at=self._at,
            # Where turns are not kept, at least one must have been read all the same.
            turns=max(self._turns, 1) if self._extractor else None,
            extractor=self._extractor,
        )
        # Each record's own: the outbox may have been drained in between.
        indexed = [r.indexed_at.isoformat() if r and r.indexed_at else "" for r in self._records]
        return {**said, names.INDEXED_AT: indexed[: names.MAX_CANDIDATES]}


def _proposal(stored: StoredProposal, record: MemoryRecord | None) -> Proposal:
    # Scope and claim are the record's; those of a proposal without a record are never read. A
    # failed extraction proposed nothing.
    return Proposal(
        id=stored.id,
        operation="remember" if stored.operation == "remember" else "write",
        content=stored.content or "",
        kind=stored.kind or "",
        scope=record.scope if record else {},
        claim=record.claim if record else None,
        confidence=stored.confidence or 0.0,
        occurred_at=stored.created_at,
    )


def _receipt(stored: StoredProposal, record: MemoryRecord | None) -> WriteReceipt:
    ruling: Any = stored.ruling  # one of the five: the ledger keeps no other
    return WriteReceipt(
        proposal_id=stored.id,
        record_id=stored.record_id,
        ruling=ruling,
        reason=stored.reason,
        indexed=record is not None and record.indexed_at is not None,
        replaced_id=stored.replaced_id,
    )


def task_hops(past: TaskPast, others: Sequence[TaskPast] = ()) -> list[PastHop]:
    """A task's hops, and those of other tasks that wrote what it recalled, by time.

    Args:
        past: The task.
        others: Tasks that wrote, or replaced, its records.
    """
    spans = Spans([past, *others])
    own, foreign = list(_write_hops(past, spans)), list(_foreign(past, others, spans))
    writers = {record_id: hop.ref for hop in (*foreign, *own) for record_id in hop.made_records}
    own += [*_recalls(past, spans, writers), *_decisions(past, spans), *_outcomes(past, spans)]
    own += _trials(past, spans)
    if not own:
        return []
    own.sort(key=lambda hop: hop.at)
    own += _afterwards(past, own)
    # A record that was replaced before it was forgotten keeps the first of the two times.
    whole = [*_chained(own), *foreign]
    return sorted(whole, key=lambda hop: (hop.at, hop.operation is names.DELETE))


def _foreign(past: TaskPast, others: Iterable[TaskPast], spans: Spans) -> Iterator[PastHop]:
    for other in others:
        for hop in _write_hops(other, spans):
            if not past.records.keys().isdisjoint(hop.names_records):
                yield hop


def _recalls(past: TaskPast, spans: Spans, writers: Mapping[str, SpanRef]) -> Iterator[PastHop]:
    for kept in past.rows.retrievals:
        candidates = tuple(_pointing(candidate, writers) for candidate in kept.candidates)
        retrieval = replace(kept, candidates=candidates)
        ref = span_of(past, kept.session_id, ("retrievals", kept.id), kept.span)
        context = past.context(kept.session_id)
        yield PastHop(
            operation=names.SEARCH,
            context=context,
            at=kept.created_at,
            ref=ref,
            sampled=spans.sampled(context, ref),
            describe=lambda content, retrieval=retrieval: searched(retrieval, content),
            events=[*candidate_events(retrieval)],
            links=[(c.traceparent, "written_by") for c in retrieval.injected if c.traceparent],
        )


def _pointing(candidate: Candidate, writers: Mapping[str, SpanRef]) -> Candidate:
    # As it is sent now: readers do not look for what was not sampled.
    ref = writers.get(candidate.record_id)
    return replace(candidate, traceparent=ref.traceparent) if ref else candidate


def _decisions(past: TaskPast, spans: Spans) -> Iterator[PastHop]:
    for decision in past.rows.decisions:
        ref = span_of(past, decision.session_id, ("decisions", decision.id), decision.span)
        context = past.context(decision.session_id)
        yield PastHop(
            operation=names.USE,
            context=context,
            at=decision.created_at,
            ref=ref,
            sampled=spans.sampled(context, ref),
            describe=_decided(past, decision),
            links=[*_retrieved_by(past, decision, ref)],
        )


def _decided(past: TaskPast, decision: Decision[Any]) -> Callable[[ContentPolicy], Json]:
    used = past.retrievals.get(decision.retrieval_id or "")
    return lambda content: decided(decision, used.candidates if used else (), content)


def _retrieved_by(past: TaskPast, decision: Decision[Any], ref: SpanRef) -> Iterator[Link]:
    used = past.retrievals.get(decision.retrieval_id or "")
    if used:
        search = span_of(past, used.session_id, ("retrievals", used.id), used.span)
        if search.trace_id != ref.trace_id:
            yield search.traceparent, "retrieved_by"


def _outcomes(past: TaskPast, spans: Spans) -> Iterator[PastHop]:
    refs = {row.id: row_ref(row) for row in past.spans if row.table == "attempts"}
    for outcome in past.rows.outcomes:
        row = ("attempts", outcome.id)
        ref = span_of(past, outcome.session_id, row, refs.get(outcome.id))
        context = past.context(outcome.session_id)
        yield PastHop(
            operation=names.OUTCOME,
            context=context,
            at=outcome.created_at,
            ref=ref,
            sampled=spans.sampled(context, ref),
            describe=lambda content, outcome=outcome: reported(outcome, content),
        )


def _trials(past: TaskPast, spans: Spans) -> Iterator[PastHop]:
    for tried in past.rows.counterfactuals:
        ref = span_of(past, tried.session_id, ("counterfactuals", tried.id), None)
        context = past.context(tried.session_id)
        yield PastHop(
            operation=names.LEAVE_OUT,
            context=context,
            at=tried.created_at,
            ref=ref,
            sampled=spans.sampled(context, ref),
            describe=lambda _, tried=tried: left_out([tried], at=tried.created_at),
        )


def _afterwards(past: TaskPast, own: Sequence[PastHop]) -> list[PastHop]:
    """What no row kept a span of: what became of its records since, and the task's end."""
    sampled = all(hop.sampled for hop in own)
    session, at = own[-1].context.session_id, own[-1].at
    gone = [r for r in past.records.values() if r.status in ("forgotten", "evicted")]
    hops = [_deletion(past, session, record, sampled=sampled) for record in gone]
    if past.rows.outcomes or past.verdict:
        success = past.rows.outcomes[-1].succeeded if past.rows.outcomes else None
        hops.append(
            PastHop(
                operation=names.TASK,
                context=past.context(session),
                at=at,
                ref=span_of(past, session, ("task",), None),
                sampled=sampled,
                describe=lambda _: finished(success, past.verdict, at=at),
            )
        )
    return hops


def _deletion(past: TaskPast, session: str, record: MemoryRecord, *, sampled: bool) -> PastHop:
    at = record.retired_at or record.created_at
    said: Json = {
        names.AT: at.isoformat(),
        names.RECORD_ID: record.id,
        names.RECORD_COUNT: 1,
        names.RECORD_STATUS: "evicted" if record.status == "evicted" else None,
    }
    return PastHop(
        operation=names.DELETE,
        context=past.context(session),
        at=at,
        ref=span_of(past, session, (record.status, record.id), None),
        sampled=sampled,
        describe=lambda _: said,
    )


def _chained(hops: Iterable[PastHop]) -> Iterator[PastHop]:
    """Links the first hop of each session to the first of the session before."""
    first: dict[str, PastHop] = {}
    for hop in hops:
        session = hop.context.session_id
        if session in first:
            yield hop
            continue
        before = [(one.ref.traceparent, "previous_session") for one in [*first.values()][-1:]]
        first[session] = hop
        yield replace(hop, links=[*before, *hop.links])
