"""Changes of a record's state after it was written, and the outbox of the vector index."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, select, update

from memplugin.errors import RecordNotFound, StoreError
from memplugin.records import MemoryRecord
from memplugin.storage.sql import fulltext
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.rows import RECORDS, chunks, record_from
from memplugin.storage.sql.tables import IN_OUTBOX, memory_records, workspaces

_RECORD = memory_records.c

_BY_ID = RECORDS.where(
    # Not a bare column: SQLite would take the index on the workspace, and go through all of it.
    _RECORD.workspace_id.concat("") == bindparam("workspace"),
    _RECORD.id.in_(bindparam("ids", expanding=True)),
)


def next_seq(database: Database, connection: Connection, workspace_id: str) -> int:
    """Raises the workspace's number by one; holds back other writers until the commit."""
    row = database.insert(workspaces).values(workspace_id=workspace_id, seq=1)
    raised = row.on_conflict_do_update(
        index_elements=[workspaces.c.workspace_id], set_={"seq": workspaces.c.seq + 1}
    ).returning(workspaces.c.seq)
    return int(connection.execute(raised).scalar_one())


def found(connection: Connection, workspace_id: str, record_id: str) -> MemoryRecord:
    """One record of a workspace.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    row = connection.execute(
        RECORDS.where(_RECORD.workspace_id == workspace_id, _RECORD.id == record_id)
    ).one_or_none()
    if row is None:
        raise RecordNotFound.of(workspace_id, record_id)
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


class Records:
    """Records by id, their states, and the outbox of the vector index."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_many(self, workspace_id: str, record_ids: Iterable[str]) -> dict[str, MemoryRecord]:
        """The records that are there, whatever their status."""
        ids = list(dict.fromkeys(record_ids))
        if not ids:
            return {}
        with self._database.reading() as connection:
            found = [
                record_from(row)
                for some in chunks(ids)
                for row in connection.execute(_BY_ID, {"workspace": workspace_id, "ids": some})
            ]
        return {record.id: record for record in found}

    def set_status(
        self, workspace_id: str, record_id: str, status: str, now: datetime
    ) -> MemoryRecord:
        """Retires (``evicted``) or revives (``active``) a record.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        if status not in ("active", "evicted"):
            raise StoreError(f"A record can't be set to {status!r}: use 'active' or 'evicted'.")
        with self._database.writing(workspace_id) as connection:
            record = found(connection, workspace_id, record_id)
            if record.status == "forgotten":
                raise StoreError(f"{record_id} was forgotten: nothing of it is left to revive.")
            if record.status == status:
                return record
            retired_at = now if status == "evicted" else None
            state: dict[str, Any] = {"status": status, "retired_at": retired_at}
            if status == "active":
                state["replaced_by"] = None
            seq = change(self._database, connection, workspace_id, [record_id], **state)
            fulltext.refresh(self._database, connection, workspace_id, seq)
            return found(connection, workspace_id, record_id)

    def outbox(self, limit: int) -> list[MemoryRecord]:
        """Records the index must take (active, not indexed) or drop (forgotten, indexed)."""
        by_index = (_RECORD.workspace_id, _RECORD.status, _RECORD.indexed_at, _RECORD.number)
        waiting = RECORDS.where(IN_OUTBOX).order_by(*by_index).limit(limit)
        with self._database.reading() as connection:
            return [record_from(row) for row in connection.execute(waiting)]

    def backlog(self) -> int:
        """How many records are in the outbox, of all workspaces; asked often."""
        waiting = select(func.count()).select_from(memory_records).where(IN_OUTBOX)
        with self._database.reading() as connection:
            return int(connection.scalar(waiting) or 0)

    def mark_indexed(
        self,
        workspace_id: str,
        record_ids: Sequence[str],
        now: datetime,
        cut_short: Sequence[str] = (),
    ) -> None:
        """The index holds these now; of ``cut_short`` the vector misses the end.

        A record that was forgotten while its vector was made is marked as well: so it
        enters the outbox, and its vector is dropped.
        """
        short = frozenset(cut_short)
        whole = [id_ for id_ in record_ids if id_ not in short]
        with self._database.writing(workspace_id) as connection:
            for ids, covers in (
                (whole, True),
                ([id_ for id_ in record_ids if id_ in short], False),
            ):
                if ids:
                    state: dict[str, Any] = {"indexed_at": now, "vector_covers_all": covers}
                    change(self._database, connection, workspace_id, ids, **state)

    def mark_unindexed(self, workspace_id: str, record_ids: Sequence[str]) -> None:
        """The index holds these no longer."""
        if record_ids:
            with self._database.writing(workspace_id) as connection:
                change(self._database, connection, workspace_id, record_ids, indexed_at=None)

    def unindex_all(self) -> int:
        """Puts every active record back into the outbox; returns how many.

        Retired records are marked too, so that one that is revived later is indexed again.
        """
        with self._database.writing() as connection:
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
