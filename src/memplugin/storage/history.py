"""What diagnosis asks of the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select, union, union_all

from memplugin.ports import StoredProposal, TaskRows
from memplugin.records import MemoryRecord, Turn
from memplugin.storage.engine import Database
from memplugin.storage.keeping import OUTCOMES, decision_from, retrieval_from
from memplugin.storage.rows import (
    RECORDS,
    STORED_PROPOSALS,
    TURNS,
    chunks,
    claim_fields,
    record_from,
    stored_proposal_from,
    turn_from,
)
from memplugin.storage.tables import (
    HOPS,
    attempts,
    decisions,
    memory_records,
    proposals,
    retrievals,
    sessions,
    turns,
)

LONGEST_WORD = 1_000
"""SQLite refuses a LIKE pattern of 50,000 bytes."""

_HAPPENED = {sessions: sessions.c.started_at, turns: turns.c.said_at}
"""The column that says when, where it is not ``created_at``."""


def tasks(database: Database, workspace_id: str) -> list[str]:
    """See ``Ledger.tasks``."""
    seen = union_all(*(
        select(table.c.task_id, _HAPPENED.get(table, table.c.get("created_at")).label("at")).where(
            table.c.workspace_id == workspace_id
        )
        for table in HOPS
    )).subquery()
    latest = (
        select(seen.c.task_id)
        .group_by(seen.c.task_id)
        .order_by(func.max(seen.c.at).desc(), seen.c.task_id)
    )
    with database.reading() as connection:
        return list(connection.scalars(latest))


def workspaces_of_task(database: Database, task_id: str) -> list[str]:
    """See ``Ledger.workspaces_of_task``."""
    seen = union(*(select(table.c.workspace_id).where(table.c.task_id == task_id) for table in HOPS))
    with database.reading() as connection:
        return sorted(connection.scalars(seen))


def task_rows(database: Database, workspace_id: str, task_id: str) -> TaskRows:
    """See ``Ledger.task_rows``."""

    def of_task(statement: Select[Any], table: Any, when: str) -> Select[Any]:
        return statement.where(
            table.c.workspace_id == workspace_id, table.c.task_id == task_id
        ).order_by(table.c[when], table.c.number)

    with database.reading() as connection:
        rows = connection.execute
        return TaskRows(
            turns=[turn_from(r) for r in rows(of_task(TURNS, turns, "said_at"))],
            proposals=[
                stored_proposal_from(r)
                for r in rows(of_task(STORED_PROPOSALS, proposals, "created_at"))
            ],
            retrievals=[
                retrieval_from(r)
                for r in rows(of_task(select(retrievals), retrievals, "created_at"))
            ],
            decisions=[
                decision_from(r) for r in rows(of_task(select(decisions), decisions, "created_at"))
            ],
            outcomes=[outcome_from(r) for r in rows(of_task(OUTCOMES, attempts, "created_at"))],
        )


def proposals_of(
    database: Database, workspace_id: str, record_ids: Iterable[str]
) -> list[StoredProposal]:
    """See ``Ledger.proposals_of``."""
    of_workspace = STORED_PROPOSALS.where(proposals.c.workspace_id == workspace_id)
    with database.reading() as connection:
        found = [
            stored_proposal_from(row)
            for some in chunks(list(dict.fromkeys(record_ids)))
            for row in connection.execute(
                of_workspace.where(proposals.c.record_id.in_(some)).order_by(proposals.c.number)
            )
        ]
    return sorted(found, key=lambda proposal: proposal.created_at)


def find_records(
    database: Database, workspace_id: str, words: Sequence[str], limit: int
) -> list[MemoryRecord]:
    """See ``Ledger.find_records``."""
    record = memory_records.c
    holds = _holds_any(words, record.content)
    return _newest_records(database, limit, record.workspace_id == workspace_id, holds)


def find_claims(
    database: Database, workspace_id: str, fields: Sequence[str], limit: int
) -> list[MemoryRecord]:
    """See ``Ledger.find_claims``."""
    record = memory_records.c
    slot = claim_fields(dict.fromkeys(fields))
    return _newest_records(
        database, limit, record.workspace_id == workspace_id, record.claim_fields == slot
    )


def find_proposals(
    database: Database, workspace_id: str, words: Sequence[str], limit: int
) -> list[StoredProposal]:
    """See ``Ledger.find_proposals``."""
    mine = proposals.c.workspace_id == workspace_id
    newest = STORED_PROPOSALS.order_by(proposals.c.created_at.desc(), proposals.c.number.desc())
    with database.reading() as connection:
        holds = _holds_any(words, proposals.c.content, proposals.c.quote)
        found = [*connection.execute(newest.where(mine, holds).limit(limit))]
        failed = _failures_over(connection, workspace_id, words)
        for some in chunks(failed):
            found += connection.execute(newest.where(mine, proposals.c.id.in_(some)).limit(limit))
    ordered = sorted(map(stored_proposal_from, found), key=lambda p: p.created_at, reverse=True)
    return ordered[:limit]


def find_turns(
    database: Database, workspace_id: str, words: Sequence[str], limit: int
) -> list[Turn]:
    """See ``Ledger.find_turns``."""
    newest = TURNS.order_by(turns.c.said_at.desc(), turns.c.number.desc()).limit(limit)
    asked = newest.where(turns.c.workspace_id == workspace_id, _holds_any(words, turns.c.text))
    with database.reading() as connection:
        return [turn_from(row) for row in connection.execute(asked)]


def turns_kept(database: Database, workspace_id: str, task_id: str | None) -> bool:
    """See ``Ledger.turns_kept``."""
    kept = and_(turns.c.workspace_id == workspace_id, turns.c.text.is_not(None))
    if task_id is not None:
        kept = and_(kept, turns.c.task_id == task_id)
    with database.reading() as connection:
        return connection.scalar(select(turns.c.number).where(kept).limit(1)) is not None
