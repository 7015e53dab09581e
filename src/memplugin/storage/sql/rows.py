"""Converts rows of tables to records and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from sqlalchemy import Row, RowMapping, Select, select, type_coerce

from memplugin.config import MemoryContext
from memplugin.records import MemoryRecord, Proposal, SpanRef, StoredProposal, Turn, WriteReceipt
from memplugin.storage.sql.tables import memory_records, proposals, turns
from memplugin.storage.sql.types import CanonicalJson
from memplugin.text import canonical_json

IN_CHUNK = 1_000
"""Most values of one IN list: databases bound the parameters of a statement."""

RECORD_FIELDS = tuple(MemoryRecord.__dataclass_fields__)
_STORED_FIELDS = tuple(StoredProposal.__dataclass_fields__)
_TURN_FIELDS = tuple(Turn.__dataclass_fields__)

_READ_AS = {"scope": type_coerce(memory_records.c.scope, CanonicalJson)}

RECORDS = select(*(_READ_AS.get(name, memory_records.c[name]) for name in RECORD_FIELDS))
"""Everything of records that a ``MemoryRecord`` has, in the order of its fields."""

STORED_PROPOSALS = select(*(proposals.c[name] for name in _STORED_FIELDS))
TURNS = select(*(turns.c[name] for name in _TURN_FIELDS))

RECEIPTS = select(
    proposals.c.id,
    proposals.c.record_id,
    proposals.c.ruling,
    proposals.c.reason,
    proposals.c.replaced_id,
    memory_records.c.status,
    memory_records.c.indexed_at,
).select_from(proposals.outerjoin(memory_records, memory_records.c.id == proposals.c.record_id))
"""What became of proposals, with where their records stand now."""

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
AnySelect: TypeAlias = Select[*tuple[Any, ...]]
T = TypeVar("T")


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cuts a list into pieces that fit an IN list."""
    for start in range(0, len(values), IN_CHUNK):
        yield values[start : start + IN_CHUNK]


def record_from(row: Sequence[Any]) -> MemoryRecord:
    """Reads a row of ``RECORDS``."""
    return MemoryRecord(*row)


def stored_proposal_from(row: AnyRow) -> StoredProposal:
    """Reads a row of ``STORED_PROPOSALS``."""
    return StoredProposal(*row)


def turn_from(row: AnyRow) -> Turn:
    """Reads a row of ``TURNS``."""
    return Turn(*row)


def receipt_from(row: AnyRow) -> WriteReceipt:
    """Reads a row of ``RECEIPTS``.

    A proposal whose record was forgotten since is refused from then on.
    """
    if row.status == "forgotten":
        return WriteReceipt(row.id, None, "rejected", "tombstoned")
    return WriteReceipt(
        proposal_id=row.id,
        record_id=row.record_id,
        ruling=row.ruling,
        reason=row.reason,
        indexed=row.indexed_at is not None,
        replaced_id=row.replaced_id,
    )


def hop(context: MemoryContext, span: SpanRef | None) -> dict[str, str | None]:
    """The columns that every row written by a hop carries."""
    return {
        "workspace_id": context.workspace_id,
        "task_id": context.task,
        "session_id": context.session_id,
        **span_ids(span),
    }


def span_ids(span: SpanRef | None) -> dict[str, str | None]:
    """The columns of a span; NULL without one."""
    return {
        "trace_id": span.trace_id if span else None,
        "span_id": span.span_id if span else None,
    }


def span_from(row: RowMapping) -> SpanRef | None:
    """Reads ``trace_id``, ``span_id`` and ``sampled``."""
    if row["trace_id"] is None:
        return None
    return SpanRef(row["trace_id"], row["span_id"], bool(row["sampled"]))


def scope_key(scope: Mapping[str, str]) -> str:
    """The one text of a scope, by which scopes are compared."""
    return canonical_json(dict(scope)) if scope else "{}"


def claim_fields(claim: Mapping[str, Any] | None) -> str | None:
    """The one text of the fields a claim is about; None for no claim."""
    return canonical_json(sorted(claim)) if claim else None


def proposal_values(proposal: Proposal) -> dict[str, Any]:
    """A proposal's own columns, without what became of it."""
    return {
        "operation": proposal.operation,
        "content": proposal.content or None,
        "kind": proposal.kind,
        "polarity": proposal.polarity,
        "speech_act": proposal.speech_act,
        "scope": scope_key(proposal.scope),
        "claim": dict(proposal.claim) if proposal.claim is not None else None,
        "confidence": proposal.confidence,
        "pinned": proposal.pinned,
        "occurred_at": proposal.occurred_at,
        "time_phrase": proposal.time_phrase,
        "quote": proposal.quote,
        "turn_id": proposal.turn_id,
        "extractor": proposal.extractor,
    }
