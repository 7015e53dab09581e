"""The record of a task: what was written, retrieved and used, and the outcome.

Its shape is a contract (``schema_version`` 1). Lists are in the order in which things happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from memplugin.claims import contradicted_ids
from memplugin.diagnosis.counterfactual import latest
from memplugin.ports import LedgerReader
from memplugin.records import (
    Bearing,
    Claim,
    Counterfactual,
    Decision,
    Json,
    MemoryRecord,
    Noun,
    Override,
    Retrieval,
    Scope,
    StoredProposal,
    Support,
    TaskRows,
)

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class WriteEntry(Noun):
    """One proposal, its ruling, and the record that it made.

    Attributes:
        gate: The ruling.
        status: The status of the record at the time of reading.
    """

    session: str
    record_id: str | None
    kind: str | None
    content: str | None
    gate: str
    reason: str | None
    extractor_confidence: float | None
    indexed_at: datetime | None
    proposal_id: str
    written_at: datetime
    task_id: str | None = None
    scope: Scope = field(default_factory=dict[str, str])
    claim: Claim | None = None
    status: str | None = None
    retired_at: datetime | None = None
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True)
class CandidateEntry(Noun):
    """One candidate of a retrieval."""

    rank: int
    record_id: str
    score: float
    injected: bool
    content: str | None
    cut: str | None = None
    sources: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class RetrievalEntry(Noun):
    """One recall."""

    id: str
    session: str
    query: str | None
    filters: Json
    k: int
    policy: str
    total: int
    shown: int
    pending_index: int
    at: datetime
    candidates: tuple[CandidateEntry, ...]


@dataclass(frozen=True, slots=True)
class CounterfactualEntry(Noun):
    """What leaving one record out of the decision does to its answer."""

    record_id: str
    verdict: Bearing
    p_value: float | None = None


@dataclass(frozen=True, slots=True)
class UseEntry(Noun):
    """The decision, as far as it uses memory.

    Attributes:
        counterfactual_flip: Whether leaving some record out changes the answer; None when
            that was not tried, or chance can't be ruled out.
        contradicted_record_ids: Records that were shown and claim another value than the
            answer.
        overrides: Claims that the answer of the model contradicts, shown or not.
        counterfactuals: For each record for which it was tried, whether leaving it out
            changes the answer.
    """

    cited_record_ids: tuple[str, ...] = ()
    counterfactual_flip: bool | None = None
    decision_id: str | None = None
    retrieval_id: str | None = None
    status: str | None = None
    answer: Json | None = None
    flags: tuple[str, ...] = ()
    chosen_support: Support | None = None
    order_preserved: bool | None = None
    at: datetime | None = None
    contradicted_record_ids: tuple[str, ...] = ()
    overrides: tuple[Override, ...] = ()
    counterfactuals: tuple[CounterfactualEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskRecord(Noun):
    """Everything that the hops of one task left behind.

    Attributes:
        retrieval: The retrieval that the decision used, else the last.
        retrievals: All retrievals.
        success: The success of the last attempt; None when no outcome was reported.
    """

    task_id: str
    workspace_id: str
    arm: str
    writes: tuple[WriteEntry, ...]
    retrieval: RetrievalEntry | None
    use: UseEntry
    success: bool | None
    retrievals: tuple[RetrievalEntry, ...] = ()
    sessions: tuple[str, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @classmethod
    def from_ledger(cls, ledger: LedgerReader, workspace_id: str, task_id: str) -> TaskRecord:
        """Builds the record from the rows that the hops wrote.

        It has the writes made under the id of the task, and those of every record among its
        candidates, from any session.

        Args:
            ledger: The ledger that is read.
            workspace_id: The workspace of the task.
            task_id: The task.

        Returns:
            The record; an empty one for an unknown task.

        Raises:
            StoreError: the ledger could not be read.
        """
        rows = ledger.history.task_rows(workspace_id, task_id)
        seen = {c.record_id for r in rows.retrievals for c in r.candidates}
        proposals = {
            p.id: p for p in (*rows.proposals, *ledger.history.proposals_of(workspace_id, seen))
        }
        named = {p.record_id for p in proposals.values() if p.record_id} | seen
        records = ledger.records.get_many(workspace_id, named)
        decision = rows.decisions[-1] if rows.decisions else None
        retrievals = tuple(retrieval_entry(r) for r in rows.retrievals)
        retrieval = used_retrieval(retrievals, decision.retrieval_id if decision else None)
        return cls(
            task_id=task_id,
            workspace_id=workspace_id,
            arm=_arm(rows),
            writes=tuple(_writes(proposals.values(), records)),
            retrieval=retrieval,
            use=_use(decision, rows.retrievals, rows.counterfactuals),
            success=rows.outcomes[-1].succeeded if rows.outcomes else None,
            retrievals=retrievals,
            sessions=_sessions(rows),
        )


def _arm(rows: TaskRows) -> str:
    return rows.outcomes[-1].arm if rows.outcomes else "memory_on"


def _sessions(rows: TaskRows) -> tuple[str, ...]:
    timed = (
        [(t.said_at, t.session_id) for t in rows.turns]
        + [(p.created_at, p.session_id) for p in rows.proposals]
        + [(r.created_at, r.session_id) for r in rows.retrievals]
        + [(d.created_at, d.session_id) for d in rows.decisions]
        + [(o.created_at, o.session_id) for o in rows.outcomes]
    )
    return tuple(dict.fromkeys(session for _, session in sorted(timed)))


def _writes(
    proposals: Iterable[StoredProposal], records: Mapping[str, MemoryRecord]
) -> Iterable[WriteEntry]:
    for proposal in sorted(proposals, key=lambda p: (p.created_at, p.id)):
        yield write_entry(proposal, records.get(proposal.record_id or ""))


def write_entry(proposal: StoredProposal, record: MemoryRecord | None) -> WriteEntry:
    """Joins a proposal with the record that it made or was attached to."""
    return WriteEntry(
        session=proposal.session_id,
        record_id=proposal.record_id,
        kind=record.kind if record else proposal.kind,
        content=record.content if record else proposal.content,
        gate=proposal.ruling,
        reason=proposal.reason,
        extractor_confidence=proposal.confidence,
        indexed_at=record.indexed_at if record else None,
        proposal_id=proposal.id,
        written_at=record.created_at if record else proposal.created_at,
        task_id=proposal.task_id,
        scope=record.scope if record else {},
        claim=record.claim if record else None,
        status=record.status if record else None,
        retired_at=record.retired_at if record else None,
        replaced_by=record.replaced_by if record else None,
    )


def retrieval_entry(retrieval: Retrieval) -> RetrievalEntry:
    """A retrieval in the form of a task's record."""
    return RetrievalEntry(
        id=retrieval.id,
        session=retrieval.session_id,
        query=retrieval.query,
        filters=retrieval.filters,
        k=retrieval.k,
        policy=retrieval.policy,
        total=retrieval.total,
        shown=retrieval.shown,
        pending_index=retrieval.pending_index,
        at=retrieval.created_at,
        candidates=tuple(
            CandidateEntry(
                rank=c.rank,
                record_id=c.record_id,
                score=c.score,
                injected=c.injected,
                content=c.content,
                cut=c.cut,
                sources=c.sources,
                parts=c.parts,
            )
            for c in retrieval.candidates
        ),
    )


def used_retrieval(
    retrievals: Sequence[RetrievalEntry], retrieval_id: str | None
) -> RetrievalEntry | None:
    """The retrieval that the decision used, else the last."""
    used = (entry for entry in retrievals if entry.id == retrieval_id)
    return next(used, retrievals[-1] if retrievals else None)


def _use(
    decision: Decision[Any] | None,
    retrievals: Sequence[Retrieval],
    tried: Sequence[Counterfactual],
) -> UseEntry:
    if decision is None:
        return UseEntry()
    bearing = tuple(
        CounterfactualEntry(one.record_id, one.verdict, one.p_value)
        for one in latest(one for one in tried if one.decision_id == decision.id)
    )
    used = next((r for r in retrievals if r.id == decision.retrieval_id), None)
    return UseEntry(
        cited_record_ids=decision.cited_record_ids,
        decision_id=decision.id,
        retrieval_id=decision.retrieval_id,
        status=decision.status,
        answer=decision.answer,
        flags=decision.flags,
        chosen_support=decision.chosen_support,
        order_preserved=decision.order_preserved,
        at=decision.created_at,
        contradicted_record_ids=contradicted_ids(
            used.candidates if used else (), decision.answer or {}
        ),
        overrides=decision.overrides,
        counterfactual_flip=flip_of(bearing),
        counterfactuals=bearing,
    )


def flip_of(tried: Sequence[CounterfactualEntry]) -> bool | None:
    """Whether leaving some record out changes the answer; None when that can't be said."""
    verdicts = {one.verdict for one in tried}
    if "load_bearing" in verdicts:
        return True
    return False if verdicts == {"not"} else None
