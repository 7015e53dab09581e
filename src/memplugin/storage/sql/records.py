"""Records: by id, their states, the outbox of the index, and which a selection admits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, bindparam, func, or_, select, update

from memplugin.claims import precedence
from memplugin.errors import RecordNotFound, StoreError
from memplugin.records import Entry, MemoryRecord, Selection, WorkspaceState
from memplugin.storage.sql import fulltext
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.fulltext import Postings, postings
from memplugin.storage.sql.rows import RECORDS, chunks, record_from
from memplugin.storage.sql.tables import ACTIVE_CLAIM, IN_OUTBOX, memory_records, workspaces
from memplugin.text import canonical_json

_RECORD = memory_records.c

_BY_ID = RECORDS.where(
    # Not a bare column: SQLite would take the index on the workspace, and go through all of it.
    _RECORD.workspace_id.concat("") == bindparam("workspace"),
    _RECORD.id.in_(bindparam("ids", expanding=True)),
)


def next_seq(database: Database, connection: Connection, workspace_id: str) -> int:
    """Raises the workspace's number by one; holds back other writers until the commit.

    Args:
        database: Which database it is.
        connection: In whose transaction it happens.
        workspace_id: The workspace, compared by equality.

    Returns:
        The number, which no other change of the workspace has.
    """
    row = database.insert(workspaces).values(workspace_id=workspace_id, seq=1)
    raised = row.on_conflict_do_update(
        index_elements=[workspaces.c.workspace_id], set_={"seq": workspaces.c.seq + 1}
    ).returning(workspaces.c.seq)
    return int(connection.execute(raised).scalar_one())


def get_record(connection: Connection, workspace_id: str, record_id: str) -> MemoryRecord:
    """One record of a workspace.

    Args:
        connection: In whose transaction it happens.
        workspace_id: The workspace, compared by equality.
        record_id: The record.

    Returns:
        The record, whatever its status.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    row = connection.execute(
        RECORDS.where(_RECORD.workspace_id == workspace_id, _RECORD.id == record_id)
    ).one_or_none()
    if row is None:
        raise RecordNotFound(workspace_id, record_id)
    return record_from(row)


def change(
    database: Database,
    connection: Connection,
    workspace_id: str,
    record_ids: Sequence[str],
    **values: Any,
) -> int:
    """Changes records' state under a new sequence number, which is returned.

    Args:
        database: Which database it is.
        connection: In whose transaction it happens.
        workspace_id: The workspace, compared by equality.
        record_ids: The records.
        **values: New values of columns.
    """
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

        Args:
            workspace_id: The workspace, compared by equality.
            record_id: The record.
            status: The new one.
            now: When it happens.

        Returns:
            The record as it is now.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        if status not in ("active", "evicted"):
            raise StoreError(f"A record can't be set to {status!r}: use 'active' or 'evicted'.")
        with self._database.writing(workspace_id) as connection:
            record = get_record(connection, workspace_id, record_id)
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
            return get_record(connection, workspace_id, record_id)

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

        Args:
            workspace_id: The workspace, compared by equality.
            record_ids: The records.
            now: When it happens.
            cut_short: Those of them whose text is longer than the embedding model reads.
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


_ACTIVE_IN_SCOPE = (
    _RECORD.workspace_id == bindparam("workspace"),
    _RECORD.status == "active",
    _RECORD.scope.in_(bindparam("scopes", expanding=True)),
)
_OF_KINDS = _RECORD.kind.in_(bindparam("kinds", expanding=True))


def selected(selection: Selection) -> tuple[ColumnElement[bool], ...]:
    """Conditions for a selection; one that allows no scope or no kind selects nothing."""
    return _ACTIVE_IN_SCOPE if selection.kinds is None else (*_ACTIVE_IN_SCOPE, _OF_KINDS)


def values_of(selection: Selection) -> dict[str, Any]:
    """What the conditions compare with."""
    values: dict[str, Any] = {
        "workspace": selection.workspace_id,
        "scopes": sorted(selection.scope_keys),
    }
    return values if selection.kinds is None else {**values, "kinds": sorted(selection.kinds)}


_IN_WORKSPACE = _RECORD.workspace_id == bindparam("workspace")
_ACTIVE = select(func.count()).where(_IN_WORKSPACE, _RECORD.status == "active")
_STATE = select(
    workspaces.c.seq,
    _ACTIVE.scalar_subquery().label("active"),
    _ACTIVE.where(IN_OUTBOX, _RECORD.indexed_at.is_(None)).scalar_subquery().label("pending"),
).where(workspaces.c.workspace_id == bindparam("workspace"))

_PENDING = select(func.count()).where(
    _IN_WORKSPACE, _RECORD.status == "active", IN_OUTBOX, _RECORD.indexed_at.is_(None)
)
_COUNT = select(func.count()).select_from(memory_records)
_IN_ORDER = (
    select(_RECORD.id)
    .order_by(
        _RECORD.scope_size.desc(),
        _RECORD.pinned.desc(),
        _RECORD.confidence.desc(),
        _RECORD.occurred_at.desc(),
        _RECORD.number.desc(),
    )
    .limit(bindparam("most"))
)

_DIRECTORY = (
    select(
        _RECORD.id,
        _RECORD.seq,
        (_RECORD.status == "active").label("active"),
        _RECORD.indexed_at.is_not(None).label("indexed"),
        _RECORD.around.is_not(None).label("has_around"),
        _RECORD.kind,
        _RECORD.scope,
        _RECORD.number,
        func.length(_RECORD.content),
        func.coalesce(func.length(_RECORD.around), 0),
    )
    .where(_IN_WORKSPACE, _RECORD.seq > bindparam("since"))
    .order_by(_RECORD.seq, _RECORD.number)
)


class RecordSearch:
    """What a recall reads: which active records a selection admits, and what has changed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def state(self, workspace_id: str) -> WorkspaceState:
        """Returns zeros for a workspace that has no records."""
        with self._database.reading() as connection:
            row = connection.execute(_STATE, {"workspace": workspace_id}).one_or_none()
        return WorkspaceState(*row) if row else WorkspaceState(0, 0, 0)

    def pending(self, workspace_id: str) -> int:
        """How many active records the vector index does not hold yet."""
        with self._database.reading() as connection:
            return int(connection.scalar(_PENDING, {"workspace": workspace_id}) or 0)

    def changes(self, workspace_id: str, since: int) -> list[Entry]:
        """Every record whose state changed after ``since``, retired ones included."""
        asked = {"workspace": workspace_id, "since": since}
        with self._database.reading() as connection:
            return [Entry(*row) for row in connection.execute(_DIRECTORY, asked)]

    def count(self, selection: Selection) -> int:
        """How many active records are selected."""
        counted = _COUNT.where(*selected(selection))
        with self._database.reading() as connection:
            return int(connection.scalar(counted, values_of(selection)) or 0)

    def postings(self, workspace_id: str, query: str) -> list[Postings]:
        """For each word of a query the entries that hold it; empty when none holds any.

        Nothing in the query is syntax.
        """
        with self._database.reading() as connection:
            return postings(self._database, connection, workspace_id, query)

    def standing(self, selection: Selection, limit: int) -> list[str]:
        """Ids of the selected records in the order in which they should be shown.

        Most specific scope first, then pinned, then by confidence, then the newest.
        """
        ordered = _IN_ORDER.where(*selected(selection))
        with self._database.reading() as connection:
            return list(connection.scalars(ordered, {**values_of(selection), "most": limit}))

    def claims(self, selection: Selection, fields: Sequence[str]) -> list[MemoryRecord]:
        """The selected records that claim any of these fields, those that count most first.

        The order is that of ``claims.precedence``.
        """
        if not fields:
            return []
        position = func.instr if self._database.sqlite else func.strpos
        # The fields stand in their column as a JSON list. An index holds scopes and fields of
        # active claims only, and answers which rows to read.
        claiming = RECORDS.where(
            *selected(selection),
            ACTIVE_CLAIM,
            or_(*(position(_RECORD.claim_fields, canonical_json(name)) > 0 for name in fields)),
        )
        with self._database.reading() as connection:
            found = [record_from(row) for row in connection.execute(claiming, values_of(selection))]
        wanted = set(fields)
        about = [record for record in found if not wanted.isdisjoint(record.claim or {})]
        return sorted(about, key=precedence, reverse=True)
