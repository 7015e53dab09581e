"""Queries of a recall: which records count, as conditions on ``memory_records``.

The conditions are made once and the values given with each execution: making them anew
takes as long as the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, func, or_, select

from memplugin.claims import precedence
from memplugin.records import Entry, MemoryRecord, Selection, WorkspaceState
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.fulltext import Postings, postings
from memplugin.storage.sql.rows import RECORDS, record_from
from memplugin.storage.sql.tables import ACTIVE_CLAIM, IN_OUTBOX, memory_records, workspaces
from memplugin.text import canonical_json

_RECORD = memory_records.c
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
