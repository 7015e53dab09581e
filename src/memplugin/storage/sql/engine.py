"""Connections and transactions, for SQLite and PostgreSQL alike."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import RLock, local
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from memplugin.errors import ConfigError, StoreError

BUSY_TIMEOUT_MS = 10_000
"""How long a SQLite writer waits for another one."""

POOL_SIZE = 16
"""SQLite connections kept open: as many threads as read at once."""

_IMMEDIATE = "memplugin_immediate"


class _Thread(local):
    """What is a thread's own."""

    snapshot: Connection | None = None
    token: object | None = None


class Database:
    """An engine, and the two kinds of transaction there are."""

    def __init__(self, url: URL) -> None:
        self.sqlite = url.get_backend_name() == "sqlite"
        self.in_memory = self.sqlite and url.database in (None, "", ":memory:")
        self.engine = _engine(url, in_memory=self.in_memory)
        self.insert: Callable[..., Any] = sqlite.insert if self.sqlite else postgresql.insert
        # One thread at a time: for writers of a file it is a fair queue in front of
        # SQLite's own lock, which wakes waiters at random; in memory there is only one
        # connection, so readers queue as well.
        self._queue = RLock()
        self._thread = _Thread()
        if self.sqlite:
            self._reader = self.engine
            self._writer = self.engine.execution_options(**{_IMMEDIATE: True})
        else:
            self._reader = self.engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
            # Said, not left to the server: a writer that has waited its turn must see
            # what the one before it wrote.
            self._writer = self.engine.execution_options(isolation_level="READ COMMITTED")

    @contextmanager
    def reading(self) -> Generator[Connection]:
        """A transaction that sees one state of the store throughout.

        Raises:
            StoreError: the database could not do it.
        """
        if self._thread.snapshot is not None:
            with translated():
                yield self._thread.snapshot
            return
        with (
            self._queue if self.in_memory else nullcontext(),
            translated(),
            self._reader.begin() as connection,
        ):
            yield connection

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """One reading transaction for everything that this thread reads inside.

        A transaction takes as long as a small query, and on a server a way there and back.

        Raises:
            StoreError: the database could not do it.
        """
        if self._thread.snapshot is not None:
            yield
            return
        with self.reading() as connection:
            self._thread.snapshot, self._thread.token = connection, object()
            try:
                yield
            finally:
                self._thread.snapshot = self._thread.token = None

    @property
    def snapshot_token(self) -> object | None:
        """An object that stands for the snapshot this thread reads in; None outside one."""
        return self._thread.token

    @contextmanager
    def writing(self, workspace_id: str | None = None) -> Generator[Connection]:
        """A transaction that writes; writers of one workspace take turns.

        On SQLite all writers take turns. On PostgreSQL those that name no workspace
        don't: they only add rows that nobody else changes.

        Raises:
            StoreError: the database could not do it; nothing was written.
        """
        with (
            self._queue if self.sqlite else nullcontext(),
            translated(),
            self._writer.begin() as connection,
        ):
            if workspace_id is not None:
                self.hold(connection, [workspace_id])
            yield connection

    def hold(self, connection: Connection, names: Iterable[str]) -> None:
        """Lets the writers that hold a name take turns until their commit; on SQLite all do."""
        if not self.sqlite:
            # In one order, so that two who hold several can't wait for each other.
            for key in sorted(map(_lock_key, names)):
                connection.execute(select(func.pg_advisory_xact_lock(key)))

    def fold_log(self) -> None:
        """Empties SQLite's write-ahead log, where pages stay as they were before a change.

        Best effort: a reader that is in the middle of something keeps it until the next time.
        """
        if self.sqlite and not self.in_memory:
            connection = self.engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()

    def close(self) -> None:
        """Gives back every connection."""
        self.engine.dispose()


def parsed_url(url: str) -> URL:
    """Reads a ledger's URL.

    Raises:
        ConfigError: it names no database that is supported.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            "The ledger's URL can't be read: use sqlite:///path or postgresql+psycopg://…"
        ) from error
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise ConfigError(
            f"{parsed.drivername} is no database for a ledger: use sqlite:///path or "
            "postgresql+psycopg://…"
        )
    return parsed


@contextmanager
def translated() -> Generator[None]:
    """Turns SQLAlchemy's errors into ours.

    The driver's own words are kept, never the parameters: they are a user's text.

    Raises:
        StoreError: with the original as its cause.
    """
    try:
        yield
    except SQLAlchemyError as error:
        said = str(getattr(error, "orig", None) or error).strip()
        raise StoreError(f"The ledger could not do it: {said}. {_advice(error, said)}") from error


def _advice(error: SQLAlchemyError, said: str) -> str:
    if "locked" in said or "busy" in said:
        return (
            f"Another process has been writing for over {BUSY_TIMEOUT_MS // 1000} s: try again, "
            "or use PostgreSQL for more than one process."
        )
    if isinstance(error, IntegrityError):
        return "A row contradicts one that is there: check that ids are not shared by workspaces."
    return "Check that the database can be reached, has room, and was made by memplugin."


def _engine(url: URL, *, in_memory: bool) -> Engine:
    if url.get_backend_name() == "sqlite":
        options: dict[str, Any] = {"pool_size": POOL_SIZE}
        if in_memory:
            options = {"poolclass": StaticPool, "connect_args": {"check_same_thread": False}}
        engine = create_engine(url, hide_parameters=True, **options)
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    try:
        return create_engine(url, hide_parameters=True, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise ConfigError(
            "PostgreSQL needs psycopg: install it with pip install 'memplugin[postgres]'."
        ) from error


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # sqlite3's own BEGIN comes before the first INSERT only, so reads would not be
    # repeatable and two writers could fail half way. _begin_sqlite says it instead.
    connection.isolation_level = None
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "foreign_keys = ON",
        "secure_delete = ON",  # what was forgotten must not stay in free pages
    ):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")


def _lock_key(workspace_id: str) -> int:
    digest = hashlib.sha256(b"memplugin:" + workspace_id.encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def sqlite_file(url: URL) -> Path | None:
    """The file that a SQLite URL names; None in memory and for other databases."""
    if url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database))
