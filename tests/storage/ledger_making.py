"""Short ways to make what a ledger is given."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from memplugin.config import MemoryContext
from memplugin.ports import Batch
from memplugin.records import (
    Candidate,
    Decision,
    Known,
    MemoryRecord,
    Override,
    Proposal,
    Reply,
    Retrieval,
    Ruling,
    Selection,
    SpanRef,
    Support,
    Turn,
    WriteReceipt,
)
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.text import digest

NOW = datetime(2026, 3, 2, 9, 14, 11, tzinfo=UTC)
LATER = NOW + timedelta(days=21)
WORKSPACE = "ws_8841"
SPAN = SpanRef("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
EVERYWHERE = frozenset({"{}"})


def context(
    workspace: str = WORKSPACE, session: str = "s_1", task: str | None = "t_0417"
) -> MemoryContext:
    return MemoryContext(workspace, session, task)


def proposal(content: str, workspace: str = WORKSPACE, **fields: Any) -> Proposal:
    values: dict[str, Any] = {
        "id": "p_" + digest(workspace, content, str(fields.get("turn_id"))),
        "operation": "write",
        "kind": "fact",
        "scope": {},
        "claim": None,
        "confidence": 0.8,
        "occurred_at": NOW,
    }
    return Proposal(content=content, **{**values, **fields})


def turn(text: str, session: str = "s_1", **fields: Any) -> Turn:
    id_ = "u_" + digest(session, text)
    return Turn(
        **{"id": id_, "session_id": session, "role": "user", "text": text, "said_at": NOW, **fields}
    )


def gate(proposed: Proposal, known: Known) -> Ruling:
    """Refuses what was forgotten, attaches repetitions, supersedes another value."""
    if known.tombstones:
        return Ruling(proposed, "rejected", "tombstoned")
    if known.same_content:
        return Ruling(proposed, "attached", "duplicate", record_id=known.same_content[0].id)
    for held in known.same_slot:
        if held.scope == proposed.scope and held.claim != proposed.claim:
            return Ruling(proposed, "superseded", record_id=proposed.record_id, replaced_id=held.id)
    return Ruling(proposed, "accepted", record_id=proposed.record_id)


def accept(proposed: Proposal, known: Known) -> Ruling:
    return Ruling(proposed, "accepted", record_id=proposed.record_id)


def refuse(proposed: Proposal, known: Known) -> Ruling:
    return Ruling(proposed, "rejected", "confidence: 0.2 is below 0.5")


def batch(*proposals: Proposal, workspace: str = WORKSPACE, **fields: Any) -> Batch:
    values: dict[str, Any] = {"context": context(workspace), "now": NOW}
    return Batch(proposals=proposals, **{**values, **fields})


def settle(ledger: SqlLedger, *proposals: Proposal, **fields: Any) -> list[WriteReceipt]:
    return ledger.writes.settle(batch(*proposals, **fields), gate).receipts


def write(
    ledger: SqlLedger, content: str, workspace: str = WORKSPACE, **fields: Any
) -> MemoryRecord:
    """Writes one memory; returns its record."""
    [receipt] = settle(ledger, proposal(content, workspace, **fields), workspace=workspace)
    assert receipt.record_id is not None, receipt
    return ledger.records.get_many(workspace, [receipt.record_id])[receipt.record_id]


def selection(
    workspace: str = WORKSPACE,
    scopes: frozenset[str] = EVERYWHERE,
    kinds: frozenset[str] | None = None,
) -> Selection:
    return Selection(workspace, scopes, kinds)


def found(ledger: SqlLedger, query: str, **fields: Any) -> list[str]:
    """Ids that full-text search brings."""
    return [id_ for id_, _ in ledger.search.full_text(selection(**fields), query, 20)]


def candidate(record: MemoryRecord, rank: int = 1, *, injected: bool = True) -> Candidate:
    return Candidate(
        record_id=record.id,
        content=record.content,
        kind=record.kind,
        scope=record.scope,
        claim=record.claim,
        confidence=record.confidence,
        pinned=record.pinned,
        occurred_at=record.occurred_at,
        rank=rank,
        score=0.71,
        parts={"dense": 0.69, "lexical": 0.1 + 0.2},
        sources=("dense", "lexical"),
        injected=injected,
        cut=None if injected else "below_cutoff",
        traceparent=SPAN.traceparent,
    )


def retrieval(*candidates: Candidate, **fields: Any) -> Retrieval:
    values: dict[str, Any] = {
        "id": "r_1",
        "workspace_id": WORKSPACE,
        "task_id": "t_0417",
        "session_id": "s_2",
        "query": "Q3 revenue by region",
        "filters": {"workspace_id": WORKSPACE, "kind": ["preference", "fact"], "scope": {}},
        "k": 3,
        "policy": "balanced@1",
        "total": 12,
        "shown": 1,
        "pending_index": 0,
        "stale_dropped": 2,
        "text": "".join(c.content for c in candidates if c.injected),
        "created_at": LATER,
        "degraded": ("dense: the index did not answer",),
        "span": SPAN,
    }
    return Retrieval(candidates=candidates, **{**values, **fields})


def decision(**fields: Any) -> Decision[Any]:
    raw = {"type": "ai", "data": {"content": '{"z": 1, "a": 2}', "tool_calls": []}}
    values: dict[str, Any] = {
        "id": "d_1",
        "workspace_id": WORKSPACE,
        "task_id": "t_0417",
        "session_id": "s_2",
        "retrieval_id": "r_1",
        "question": "Which vendor?",
        "status": "decided",
        "answer": {"vendor_id": "primex", "amount": 1.5},
        "reasoning": "The memory says primex.",
        "considered": "wasp: too far",
        "cited_record_ids": ("m_1",),
        "flags": ("memory_override",),
        "chosen_support": Support("m_1", 7, 0.54, shown=False),
        "memory_total": 12,
        "memory_shown": 3,
        "order_preserved": True,
        "sent": ({"type": "human", "data": {"z": "last first", "a": ["é", "🦆"]}},),
        "raw": raw,
        "replies": (
            Reply("invalid", None, "no reply"),
            Reply("decided", raw, asked=({"type": "human", "data": {"z": "again", "a": 1}},)),
        ),
        "overrides": (
            Override(
                field="vendor_id",
                answer="primex",
                claimed="dever",
                record_id="m_2",
                pinned=True,
                confidence=0.96,
                scope={"trade": "pest"},
                rank=19,
                enforced=False,
            ),
        ),
        "options": {"method": "function_calling", "strict": True},
        "answer_schema": {"title": "Vendor", "properties": {"z": {}, "a": {}}},
        "model": "scripted",
        "usage": {"total_tokens": 12},
        "created_at": LATER,
        "span": SPAN,
    }
    return Decision(**{**values, **fields})


def connection_of(ledger: SqlLedger) -> Any:
    """A reading transaction beside the port: tests look at rows as an operator would."""
    return ledger._database.reading()


def everything_stored(connection: Connection) -> Sequence[str]:
    """Every value of every table, the full-text index's included, as text."""
    from memplugin.storage.sql.tables import metadata

    names = [*metadata.tables, "lexical"]
    if connection.dialect.name == "sqlite":
        names += ["lexical_content"]
    return [
        str(value)
        for name in names
        for row in connection.exec_driver_sql(f"SELECT * FROM {name}")
        for value in row
    ]
