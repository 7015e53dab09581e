"""Evidence that was observed, and pins."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, select

from memplugin.errors import StoreError
from memplugin.ports import Batch, Observed, Rule, Weigh
from memplugin.records import Evidence, MemoryRecord, Proposal
from memplugin.storage.engine import Database
from memplugin.storage.knowledge import ContentHash
from memplugin.storage.lifecycle import change, found
from memplugin.storage.nouns import hop, scope_key
from memplugin.storage.sequence import next_seq
from memplugin.storage.settling import Settlement
from memplugin.storage.tables import evidence, memory_records
from memplugin.storage.weighing import reweigh, row_of

_RECORD = memory_records.c


def observe(
    database: Database,
    hashed: ContentHash,
    seen: Evidence,
    batch: Batch,
    rule: Rule,
    weigh: Weigh,
) -> Observed:
    """See ``Ledger.observe``."""
    workspace = batch.context.workspace_id
    with database.writing(workspace) as connection:
        record = found(connection, workspace, seen.record_id)
        if not _is_new(database, connection, seen, batch):
            return Observed(record)
        _check_active(record)
        seq = next_seq(database, connection, workspace)
        reweigh(connection, workspace, [record.id], weigh, seq)
        settled = Settlement(
            database, connection, _with_known_exceptions(connection, batch), hashed, seen
        )
        settled.rule(rule, weigh)
        return Observed(found(connection, workspace, record.id), settled.receipts)


def _is_new(database: Database, connection: Connection, seen: Evidence, batch: Batch) -> bool:
    row = database.insert(evidence).values(row_of(seen, hop(batch.context, batch.span)))
    added = row.on_conflict_do_nothing(index_elements=[evidence.c.id]).returning(evidence.c.id)
    return connection.scalar(added) is not None


def _check_active(record: MemoryRecord) -> None:
    if record.status == "active":
        return
    instead = f"use {record.replaced_by}" if record.replaced_by else "use one that is active"
    raise StoreError(f"{record.id} is {record.status}, and nothing about it moves: {instead}.")


def _with_known_exceptions(connection: Connection, batch: Batch) -> Batch:
    """Shows the gate, beside what is near, the exception that was made the last time."""
    workspace = batch.context.workspace_id
    near = dict(batch.near)
    for proposal in batch.proposals:
        if not proposal.claim and (known := _same_exceptions(connection, workspace, proposal)):
            near[proposal.id] = [*known, *near.get(proposal.id, ())]
    return replace(batch, near=near)


def _same_exceptions(
    connection: Connection, workspace_id: str, proposal: Proposal
) -> list[tuple[str, float]]:
    same = select(_RECORD.id).where(
        _RECORD.workspace_id == workspace_id,
        _RECORD.status == "active",
        _RECORD.kind == proposal.kind,
        _RECORD.scope == scope_key(proposal.scope),
        _RECORD.claim_fields.is_(None),
        _RECORD.source == proposal.source,
    )
    return [(str(id_), 1.0) for id_ in connection.scalars(same)]


def set_pinned(
    database: Database, workspace_id: str, record_id: str, *, pinned: bool, weigh: Weigh
) -> MemoryRecord:
    """See ``Ledger.set_pinned``."""
    with database.writing(workspace_id) as connection:
        record = found(connection, workspace_id, record_id)
        _check_active(record)
        if record.pinned == pinned:
            return record
        seq = change(database, connection, workspace_id, [record_id], pinned=pinned)
        if not pinned:
            reweigh(connection, workspace_id, [record_id], weigh, seq)
        return found(connection, workspace_id, record_id)
