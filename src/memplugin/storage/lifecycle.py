"""Changes of a record's state after it was written, and the outbox of the vector index."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, func, select, update

from memplugin.errors import RecordNotFound, StoreError
from memplugin.records import MemoryRecord
from memplugin.storage import lexical
from memplugin.storage.engine import Database
from memplugin.storage.nouns import RECORDS, chunks, record_from
from memplugin.storage.sequence import next_seq
from memplugin.storage.tables import IN_OUTBOX, memory_records, workspaces

_RECORD = memory_records.c


def found(connection: Connection, workspace_id: str, record_id: str) -> MemoryRecord:
    """One record of a workspace.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    row = connection.execute(
        RECORDS.where(_RECORD.workspace_id == workspace_id, _RECORD.id == record_id)
    ).one_or_none()
    if row is None:
        raise RecordNotFound(
            f"No record {record_id!r} in workspace {workspace_id!r}: check both ids."
        )
    return record_from(row)


def change(
    database: Database,
    connection: Connection,
    workspace_id: str,
    record_ids: Sequence[str],
    **values: Any,
) -> int:
    """Changes records' state under a new sequence number, which is returned."""
    seq = next_seq(database, connection, workspace_id)
    for some in chunks(record_ids):
        connection.execute(
            update(memory_records)
            .where(_RECORD.workspace_id == workspace_id, _RECORD.id.in_(some))
            .values(seq=seq, **values)
        )
    return seq


def set_status(
    database: Database, workspace_id: str, record_id: str, status: str, now: datetime
) -> MemoryRecord:
    """See ``Ledger.set_status``."""
    if status not in ("active", "evicted"):
        raise StoreError(f"A record can't be set to {status!r}: use 'active' or 'evicted'.")
    with database.writing(workspace_id) as connection:
        record = found(connection, workspace_id, record_id)
        if record.status == "forgotten":
            raise StoreError(f"{record_id} was forgotten: nothing of it is left to revive.")
        if record.status == status:
            return record
        retired_at = now if status == "evicted" else None
        state: dict[str, Any] = {"status": status, "retired_at": retired_at}
        if status == "active":
            state["replaced_by"] = None
        seq = change(database, connection, workspace_id, [record_id], **state)
        lexical.refresh(database, connection, workspace_id, seq)
        return found(connection, workspace_id, record_id)


def outbox(database: Database, limit: int) -> list[MemoryRecord]:
    """See ``Ledger.outbox``."""
    by_index = (_RECORD.workspace_id, _RECORD.status, _RECORD.indexed_at, _RECORD.number)
    waiting = RECORDS.where(IN_OUTBOX).order_by(*by_index).limit(limit)
    with database.reading() as connection:
        return [record_from(row) for row in connection.execute(waiting)]


def backlog(database: Database) -> int:
    """See ``Ledger.backlog``."""
    waiting = select(func.count()).select_from(memory_records).where(IN_OUTBOX)
    with database.reading() as connection:
        return int(connection.scalar(waiting) or 0)


def indexed(
    database: Database,
    workspace_id: str,
    record_ids: Sequence[str],
    now: datetime,
    cut_short: Sequence[str],
) -> None:
    """See ``Ledger.indexed``.

    A record that was forgotten while its vector was made is marked as well: so it
    enters the outbox, and its vector is dropped.
    """
    short = frozenset(cut_short)
    whole = [id_ for id_ in record_ids if id_ not in short]
    with database.writing(workspace_id) as connection:
        for ids, covers in ((whole, True), ([id_ for id_ in record_ids if id_ in short], False)):
            if ids:
                state: dict[str, Any] = {"indexed_at": now, "vector_covers_all": covers}
                change(database, connection, workspace_id, ids, **state)


def unindexed(database: Database, workspace_id: str, record_ids: Sequence[str]) -> None:
    """See ``Ledger.unindexed``."""
    if record_ids:
        with database.writing(workspace_id) as connection:
            change(database, connection, workspace_id, record_ids, indexed_at=None)


def unindex_all(database: Database) -> int:
    """See ``Ledger.unindex_all``.

    Retired records are marked too, so that one that is revived later is indexed again.
    """
    with database.writing() as connection:
        # In one order, so that two of these can't wait for each other.
        ordered = select(workspaces.c.workspace_id).order_by(workspaces.c.workspace_id)
        connection.execute(ordered.with_for_update()).all()
        connection.execute(update(workspaces).values(seq=workspaces.c.seq + 1))
        raised = (
            select(workspaces.c.seq)
            .where(workspaces.c.workspace_id == _RECORD.workspace_id)
            .scalar_subquery()
        )
        connection.execute(
            update(memory_records)
            .where(_RECORD.indexed_at.is_not(None))
            .values(indexed_at=None, seq=raised)
        )
        active = select(func.count()).where(and_(_RECORD.status == "active"))
        return int(connection.scalar(active.select_from(memory_records)) or 0)
