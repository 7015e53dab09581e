"""Looks at a store from outside, also at one that this release can't open."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, func, inspect, select, union

from memplugin.errors import StoreError
from memplugin.storage import migrations
from memplugin.storage.sql.engine import Database, parsed_url, sqlite_file
from memplugin.storage.sql.maintenance import PRUNED
from memplugin.storage.sql.tables import IN_OUTBOX, memory_records, sessions, store


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
