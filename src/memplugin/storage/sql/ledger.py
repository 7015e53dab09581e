"""The ledger: one opened database, and a class of operations for each subject."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from memplugin.errors import StoreError
from memplugin.storage import migrations
from memplugin.storage.sql.attempts import Decisions, Outcomes, Retrievals
from memplugin.storage.sql.credit import Credit
from memplugin.storage.sql.engine import Database, parsed_url, sqlite_file
from memplugin.storage.sql.evidence import EvidenceLog
from memplugin.storage.sql.follows import FollowScores
from memplugin.storage.sql.forget import Erasure
from memplugin.storage.sql.gate_context import content_hash
from memplugin.storage.sql.history import History
from memplugin.storage.sql.maintenance import CONTENT_HASH_KEY, Facts, Maintenance, Sessions
from memplugin.storage.sql.records import Records, RecordSearch
from memplugin.storage.sql.runs import Counterfactuals, Judgements
from memplugin.storage.sql.turns import Turns
from memplugin.storage.sql.writes import Writes


class SqlLedger:
    """The ledger on SQLite or PostgreSQL.

    Each attribute holds the operations of one subject, with their SQL. Every operation is
    atomic, safe in threads, takes the workspace and compares it by equality, and raises
    ``StoreError`` when the database fails.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.facts = Facts(database)
        hashed = content_hash(self.facts.secret(CONTENT_HASH_KEY))
        self.sessions = Sessions(database)
        self.turns = Turns(database)
        self.writes = Writes(database, hashed)
        self.evidence = EvidenceLog(database, hashed)
        self.records = Records(database)
        self.search = RecordSearch(database)
        self.retrievals = Retrievals(database)
        self.decisions = Decisions(database)
        self.outcomes = Outcomes(database)
        self.credit = Credit(database)
        self.follow_scores = FollowScores(database)
        self.counterfactuals = Counterfactuals(database)
        self.judgements = Judgements(database)
        self.history = History(database, self.counterfactuals)
        self.erasure = Erasure(database)
        self.maintenance = Maintenance(database)

    @classmethod
    def open(cls, url: str, *, create: bool = True) -> SqlLedger:
        """Opens a store; an empty one gets its tables.

        Args:
            url: ``sqlite:///path``, ``sqlite://`` (in memory) or ``postgresql+psycopg://…``.
            create: Whether a store that is not there is made.

        Raises:
            ConfigError: the URL names no supported database.
            StoreVersionError: the tables are older or newer than this release.
            StoreError: there is no store, or it can't be opened.
        """
        parsed = parsed_url(url)
        path = sqlite_file(parsed)
        if path is not None and create:
            _make_folder(path.parent)
        elif path is not None and not path.exists():
            raise StoreError(f"There is no store at {path}: check the path.")
        database = Database(parsed)
        try:
            _make_ready(database, create=create)
            return cls(database)
        except BaseException:
            database.close()
            raise

    @staticmethod
    def upgrade(url: str) -> str:
        """Brings a store's tables to this release's (``memplugin db upgrade``).

        Returns:
            The revision that it has now.

        Raises:
            StoreVersionError: the store is newer than this release.
            StoreError: it could not be upgraded; it is as it was.
        """
        database = Database(parsed_url(url))
        try:
            with database.writing("") as connection:
                found = migrations.revision(connection)
                if found is not None and found not in migrations.REVISIONS:
                    migrations.check(found)
                migrations.upgrade(connection)
        finally:
            database.close()
        return migrations.HEAD

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that this thread reads inside is of one moment; nothing is written."""
        return self._database.snapshot()

    @property
    def snapshot_token(self) -> object | None:
        """An object that stands for the snapshot this thread reads in; None outside one."""
        return self._database.snapshot_token

    def close(self) -> None:
        """Gives back connections."""
        self._database.close()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder} can't be made: {error}. Choose another folder.") from error


def _make_ready(database: Database, *, create: bool) -> None:
    with database.reading() as connection:
        found = migrations.revision(connection)
    if found is None:
        if not create:
            raise StoreError("The database holds no ledger: check the URL.")
        with database.writing("") as connection:
            # Another process may have been first.
            if migrations.revision(connection) is None:
                migrations.upgrade(connection)
            return
    migrations.check(found)
