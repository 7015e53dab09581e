"""The spans of a task's writes, made again from its proposals and turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from memplugin.ports import RowSpan, StoredProposal
from memplugin.records import Json, MemoryRecord, Proposal, SpanRef, WriteReceipt
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.rebuilding.past import PastHop, Spans, TaskPast, row_ref, span_of
from memplugin.telemetry.report import written

_MADE = ("accepted", "superseded")


def write_hops(past: TaskPast, spans: Spans) -> Iterator[PastHop]:
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
    # Scope and claim are the record's: of a proposal that made none, nobody asks. A failed
    # extraction proposed nothing.
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
