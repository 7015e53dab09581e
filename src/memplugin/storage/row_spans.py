"""In which spans a task's rows were written."""

from __future__ import annotations

from typing import Any

from sqlalchemy import literal, null, select, union_all

from memplugin.ports import RowSpan
from memplugin.storage.engine import Database
from memplugin.storage.nouns import AnySelect
from memplugin.storage.tables import attempts, proposals, sessions, turns


def row_spans(database: Database, workspace_id: str, task_id: str) -> list[RowSpan]:
    """See ``Ledger.row_spans``."""

    def of(table: Any, id_: Any, at: Any) -> AnySelect:
        sampled = table.c.sampled if "sampled" in table.c else null()
        return select(
            literal(table.name).label("written_to"),
            id_.label("id"),
            table.c.session_id,
            at.label("at"),
            table.c.trace_id,
            table.c.span_id,
            sampled.label("sampled"),
        ).where(table.c.workspace_id == workspace_id, table.c.task_id == task_id)

    rows = union_all(
        of(sessions, sessions.c.session_id, sessions.c.started_at),
        of(turns, turns.c.id, turns.c.said_at),
        of(proposals, proposals.c.id, proposals.c.created_at),
        of(attempts, attempts.c.id, attempts.c.created_at),
    ).subquery()
    with database.reading() as connection:
        found = connection.execute(select(rows).order_by(rows.c.at))
        return [RowSpan(*row) for row in found]
