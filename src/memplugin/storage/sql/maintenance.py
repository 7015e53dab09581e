"""Facts about the store, sessions, pruning, counts, and looking into a store unopened."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, and_, case, delete, exists, func, inspect, select, union

from memplugin.config import MemoryContext
from memplugin.errors import StoreError
from memplugin.records import Json, SpanRef
from memplugin.storage import migrations
from memplugin.storage.sql import fulltext
from memplugin.storage.sql.engine import Database, parsed_url, sqlite_file
from memplugin.storage.sql.rows import hop, span_from
from memplugin.storage.sql.tables import (
    IN_OUTBOX,
    counterfactuals,
    decisions,
    memory_records,
    metadata,
    retrievals,
    sessions,
    store,
    turns,
)

PRUNED = (
    (turns, turns.c.said_at),
    (retrievals, retrievals.c.created_at),
    (decisions, decisions.c.created_at),
)
"""What ``Ledger.prune`` drops, and by which time."""

_DECISION_THERE = exists().where(
    decisions.c.workspace_id == counterfactuals.c.workspace_id,
    decisions.c.id == counterfactuals.c.decision_id,
)


CONTENT_HASH_KEY = "hash_key"
"""The fact that holds the key of the content hashes in the ledger's own tables, by which
repeated and forgotten contents are recognised. It must never change."""

SPAN_HASH_KEY = "span_hash_key"
"""The fact that holds the key of the content hashes on spans, which leave the store. It is
another key, so that nobody finds a record by a hash that was exported; an application may
bring its own (``MemoryConfig.hash_key``)."""


class Facts:
    """Facts about the store itself, by key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def setdefault(self, key: str, value: str) -> str:
        """Keeps a fact about the store; returns the one that was there first."""
        with self._database.writing() as connection:
            row = self._database.insert(store).values(key=key, value=value)
            connection.execute(row.on_conflict_do_nothing(index_elements=[store.c.key]))
            return str(connection.scalar(select(store.c.value).where(store.c.key == key)))

    def secret(self, key: str) -> bytes:
        """The secret key that is kept under a name, made at random the first time."""
        return bytes.fromhex(self.setdefault(key, secrets.token_hex(32)))

    def replace(self, key: str, value: str) -> None:
        """Overwrites a fact about the store."""
        row = self._database.insert(store).values(key=key, value=value)
        with self._database.writing() as connection:
            connection.execute(
                row.on_conflict_do_update(index_elements=[store.c.key], set_={"value": value})
            )


class Sessions:
    """The sessions of a task, and the spans they began with."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def enter(self, context: MemoryContext, span: SpanRef | None, now: datetime) -> SpanRef | None:
        """Notes that a task's session has begun (once), with the span it began with.

        Args:
            context: The call's workspace, task and session.
            span: The call's span; None without a valid one.
            now: When it happens.

        Returns:
            The first span of the session of this task that began before this one, when
            this is the session's first call and there is such a span.
        """
        of_task = and_(
            sessions.c.workspace_id == context.workspace_id, sessions.c.task_id == context.task
        )
        this = select(sessions.c.number).where(of_task, sessions.c.session_id == context.session_id)
        with self._database.reading() as connection:
            if connection.scalar(this) is not None:
                return None  # nearly every call: no need to hold up writers
        with self._database.writing() as connection:
            row = self._database.insert(sessions).values(
                **hop(context, span), sampled=span.sampled if span else None, started_at=now
            )
            key = [sessions.c.workspace_id, sessions.c.task_id, sessions.c.session_id]
            number = connection.scalar(
                row.on_conflict_do_nothing(index_elements=key).returning(sessions.c.number)
            )
            if number is None:
                return None
            earlier = (
                select(sessions)
                .where(of_task, sessions.c.number < number, sessions.c.trace_id.is_not(None))
                .order_by(sessions.c.number.desc())
                .limit(1)
            )
            before = connection.execute(earlier).mappings().one_or_none()
            return span_from(before) if before else None


class Maintenance:
    """Pruning and counting."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def prune(self, before: datetime, workspace_id: str | None = None) -> dict[str, int]:
        """Drops turns, retrievals (with injections) and decisions older than a time.

        Records stay. Returns how many rows of each table went.

        A turn is as old as what was said; injections go with retrievals, counterfactuals with
        decisions.
        """
        with self._database.writing() as connection:
            dropped: dict[str, int] = {}
            for table, when in PRUNED:
                old = [when < before]
                if workspace_id is not None:
                    old.append(table.c.workspace_id == workspace_id)
                dropped[table.name] = connection.execute(delete(table).where(*old)).rowcount
            connection.execute(delete(counterfactuals).where(~_DECISION_THERE))
        fulltext.tidy(self._database)
        self._database.fold_log()
        return dropped

    def statistics(self) -> Json:
        """Counts for ``doctor``: rows of each table, outbox, workspaces, schema version."""
        with self._database.reading() as connection:
            rows = {table.name: _count(connection, table) for table in metadata.sorted_tables}
            waiting = select(func.count()).select_from(memory_records).where(IN_OUTBOX)
            by_status = select(memory_records.c.status, func.count()).group_by(
                memory_records.c.status
            )
            return {
                "rows": rows,
                "records": {str(status): int(n) for status, n in connection.execute(by_status)},
                "outbox": int(connection.scalar(waiting) or 0),
                "workspaces": rows["workspaces"],
                "schema": migrations.revision(connection),
                "database": connection.dialect.name,
            }


def _count(connection: Connection, table: Table, *conditions: Any) -> int:
    counted = select(func.count()).select_from(table).where(*conditions)
    return int(connection.scalar(counted) or 0)


@dataclass(frozen=True, slots=True)
class WorkspaceSize:
    """How much a workspace holds.

    Attributes:
        waiting: Records that the index must take or drop.
    """

    workspace_id: str
    records: int
    active: int
    waiting: int


class Survey:
    """Reads facts about a store; changes nothing in it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def revision(self) -> str | None:
        """The revision of its tables; None when there are none."""
        with self._database.reading() as connection:
            return migrations.revision(connection)

    def fact(self, key: str) -> str | None:
        """A fact that the store keeps about itself; None when it does not."""
        with self._database.reading() as connection:
            if not inspect(connection).has_table(store.name):
                return None
            return connection.scalar(select(store.c.value).where(store.c.key == key))

    def workspaces(self, limit: int) -> list[WorkspaceSize]:
        """The workspaces with the most records; those in which things were only said last."""
        record = memory_records.c
        known = union(select(sessions.c.workspace_id), select(record.workspace_id)).subquery()
        sizes = (
            select(
                known.c.workspace_id,
                func.count(record.id),
                func.count(case((record.status == "active", 1))),
                func.count(case((IN_OUTBOX, 1))),
            )
            .outerjoin_from(known, memory_records, record.workspace_id == known.c.workspace_id)
            .group_by(known.c.workspace_id)
            .order_by(func.count(record.id).desc(), known.c.workspace_id)
            .limit(limit)
        )
        with self._database.reading() as connection:
            return [
                WorkspaceSize(str(name), int(records), int(active), int(waiting))
                for name, records, active, waiting in connection.execute(sizes)
            ]

    def prunable(self, before: datetime, workspace_id: str | None) -> dict[str, int]:
        """How many rows of each table ``Ledger.prune`` would drop."""
        counts: dict[str, int] = {}
        with self._database.reading() as connection:
            for table, when in PRUNED:
                old = select(func.count()).select_from(table).where(when < before)
                if workspace_id is not None:
                    old = old.where(table.c.workspace_id == workspace_id)
                counts[table.name] = int(connection.scalar(old) or 0)
        return counts


@contextmanager
def survey(url: str) -> Generator[Survey]:
    """Looks at the store of a URL.

    Raises:
        ConfigError: the URL names no supported database.
        StoreError: there is no such store, or it can't be read.
    """
    parsed = parsed_url(url)
    path = sqlite_file(parsed)
    if path is not None and not path.exists():
        raise StoreError(f"There is no store at {path}: check the path.")
    database = Database(parsed)
    try:
        yield Survey(database)
    finally:
        database.close()


def shown_url(url: str) -> str:
    """A ledger's URL as it may be shown: without its password."""
    return parsed_url(url).render_as_string(hide_password=True)
