"""What a recall asks of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import bindparam, func, or_, select

from memplugin.claims import precedence
from memplugin.ports import Entry, Selection, WorkspaceState
from memplugin.records import MemoryRecord
from memplugin.storage import lexical as full_text
from memplugin.storage.engine import Database
from memplugin.storage.nouns import RECORDS, chunks, record_from
from memplugin.storage.scoring import EntryCache
from memplugin.storage.selecting import selected, values_of
from memplugin.storage.tables import ACTIVE_CLAIM, IN_OUTBOX, memory_records, workspaces
from memplugin.text import canonical_json

_RECORD = memory_records.c

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
_BY_ID = RECORDS.where(
    # Not a bare column: SQLite would take the index on the workspace, and go through all of it.
    _RECORD.workspace_id.concat("") == bindparam("workspace"),
    _RECORD.id.in_(bindparam("ids", expanding=True)),
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
    )
    .where(_IN_WORKSPACE, _RECORD.seq > bindparam("since"))
    .order_by(_RECORD.seq, _RECORD.number)
)


def state(database: Database, workspace_id: str) -> WorkspaceState:
    """See ``Ledger.state``."""
    with database.reading() as connection:
        row = connection.execute(_STATE, {"workspace": workspace_id}).one_or_none()
    return WorkspaceState(*row) if row else WorkspaceState(0, 0, 0)


def pending(database: Database, workspace_id: str) -> int:
    """See ``Ledger.pending``."""
    with database.reading() as connection:
        return int(connection.scalar(_PENDING, {"workspace": workspace_id}) or 0)


def directory(database: Database, workspace_id: str, since: int) -> list[Entry]:
    """See ``Ledger.directory``."""
    asked = {"workspace": workspace_id, "since": since}
    with database.reading() as connection:
        return [Entry(*row) for row in connection.execute(_DIRECTORY, asked)]


def records(
    database: Database, workspace_id: str, record_ids: Iterable[str]
) -> dict[str, MemoryRecord]:
    """See ``Ledger.records``."""
    ids = list(dict.fromkeys(record_ids))
    if not ids:
        return {}
    with database.reading() as connection:
        found = [
            record_from(row)
            for some in chunks(ids)
            for row in connection.execute(_BY_ID, {"workspace": workspace_id, "ids": some})
        ]
    return {record.id: record for record in found}


def count(database: Database, selection: Selection) -> int:
    """See ``Ledger.count``."""
    counted = _COUNT.where(*selected(selection))
    with database.reading() as connection:
        return int(connection.scalar(counted, values_of(selection)) or 0)


def lexical(
    database: Database, entries: EntryCache, selection: Selection, query: str, limit: int
) -> list[tuple[str, float]]:
    """See ``Ledger.lexical``."""
    with database.reading() as connection:
        return full_text.search(database, connection, entries, selection, query, limit)


def standing(database: Database, selection: Selection, limit: int) -> list[str]:
    """See ``Ledger.standing``."""
    ordered = _IN_ORDER.where(*selected(selection))
    with database.reading() as connection:
        return list(connection.scalars(ordered, {**values_of(selection), "most": limit}))


def claims(database: Database, selection: Selection, fields: Sequence[str]) -> list[MemoryRecord]:
    """See ``Ledger.claims``."""
    if not fields:
        return []
    position = func.instr if database.sqlite else func.strpos
    # The fields stand in their column as a JSON list. An index holds scopes and fields of
    # active claims only, and answers which rows to read.
    claiming = RECORDS.where(
        *selected(selection),
        ACTIVE_CLAIM,
        or_(*(position(_RECORD.claim_fields, canonical_json(name)) > 0 for name in fields)),
    )
    with database.reading() as connection:
        found = [record_from(row) for row in connection.execute(claiming, values_of(selection))]
    wanted = set(fields)
    about = [record for record in found if not wanted.isdisjoint(record.claim or {})]
    return sorted(about, key=precedence, reverse=True)
