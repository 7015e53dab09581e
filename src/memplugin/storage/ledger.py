"""The ledger on SQLAlchemy: one class, whose methods live beside their subject."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from memplugin.config import MemoryContext
from memplugin.errors import StoreError
from memplugin.ports import (
    Batch,
    Entry,
    Observed,
    RowSpan,
    Rule,
    Selection,
    StoredProposal,
    TaskRows,
    Weigh,
    WorkspaceState,
    unmoved,
)
from memplugin.records import (
    Decision,
    Evidence,
    Json,
    MemoryRecord,
    Outcome,
    Retrieval,
    SpanRef,
    Turn,
    WriteReceipt,
)
from memplugin.storage import (
    forgetting,
    history,
    keeping,
    lifecycle,
    migrations,
    observing,
    readings,
    row_spans,
    searching,
    settling,
    upkeep,
    weighing,
)
from memplugin.storage.engine import Database, parsed_url, sqlite_file
from memplugin.storage.judging import SqlJudging
from memplugin.storage.knowledge import content_hash
from memplugin.storage.learning import SqlCrediting
from memplugin.storage.scoring import EntryCache

HASH_KEY = "hash_key"
"""The fact under which the key of content hashes is kept, as hex."""


class SqlLedger(SqlCrediting, SqlJudging):
    """The ``Ledger`` on SQLite or PostgreSQL. Safe in threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._entries = EntryCache()
        key = self.setdefault(HASH_KEY, secrets.token_hex(32))
        self._hashed = content_hash(bytes.fromhex(key))

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

    def setdefault(self, key: str, value: str) -> str:
        """Keeps a fact about the store; returns the one that was there first."""
        return upkeep.setdefault(self._database, key, value)

    def replace(self, key: str, value: str) -> None:
        """Overwrites a fact about the store."""
        upkeep.replace(self._database, key, value)

    def close(self) -> None:
        """Gives back connections."""
        self._database.close()

    def enter_session(
        self, context: MemoryContext, span: SpanRef | None, now: datetime
    ) -> SpanRef | None:
        """Notes that a task's session has begun (once), with the span it began with."""
        return upkeep.enter_session(self._database, context, span, now)

    def repeated(
        self, workspace_id: str, session_id: str, turn_ids: Sequence[str], extractor: str
    ) -> frozenset[str]:
        """Which of the turns this extractor has read already."""
        with self._database.reading() as connection:
            return readings.repeated(connection, workspace_id, session_id, turn_ids, extractor)

    def receipts(
        self, workspace_id: str, session_id: str, turn_ids: Sequence[str], extractor: str
    ) -> list[WriteReceipt]:
        """What came of these turns when this extractor read them."""
        with self._database.reading() as connection:
            return readings.receipts(connection, workspace_id, session_id, turn_ids, extractor)

    def settle(self, batch: Batch, rule: Rule, weigh: Weigh = unmoved) -> list[WriteReceipt]:
        """Rules on proposals and stores everything, in one transaction."""
        return settling.settle(self._database, self._hashed, batch, rule, weigh)

    def observe(
        self, evidence: Evidence, batch: Batch, rule: Rule, weigh: Weigh = unmoved
    ) -> Observed:
        """Adds evidence to a record and settles what it gives rise to, in one transaction."""
        return observing.observe(self._database, self._hashed, evidence, batch, rule, weigh)

    def evidence(self, workspace_id: str, record_id: str) -> list[Evidence]:
        """All evidence for and against a record, oldest first."""
        return weighing.evidence_of(self._database, workspace_id, record_id)

    def set_pinned(
        self, workspace_id: str, record_id: str, *, pinned: bool, weigh: Weigh = unmoved
    ) -> MemoryRecord:
        """Freezes a record's confidence, or lets it follow all of its evidence again."""
        return observing.set_pinned(
            self._database, workspace_id, record_id, pinned=pinned, weigh=weigh
        )

    def forget(self, workspace_id: str, record_id: str, reason: str, now: datetime) -> MemoryRecord:
        """Leaves a tombstone; erases content wherever the ledger holds it."""
        return forgetting.forget(self._database, workspace_id, record_id, reason, now)

    def set_status(
        self, workspace_id: str, record_id: str, status: str, now: datetime
    ) -> MemoryRecord:
        """Retires (``evicted``) or revives (``active``) a record."""
        return lifecycle.set_status(self._database, workspace_id, record_id, status, now)

    def outbox(self, limit: int) -> list[MemoryRecord]:
        """Records the index must take (active, not indexed) or drop (forgotten, indexed)."""
        return lifecycle.outbox(self._database, limit)

    def backlog(self) -> int:
        """How many records are in the outbox, of all workspaces; asked often."""
        return lifecycle.backlog(self._database)

    def indexed(
        self,
        workspace_id: str,
        record_ids: Sequence[str],
        now: datetime,
        cut_short: Sequence[str] = (),
    ) -> None:
        """The index holds these now; of ``cut_short`` the vector misses the end."""
        lifecycle.indexed(self._database, workspace_id, record_ids, now, cut_short)

    def unindexed(self, workspace_id: str, record_ids: Sequence[str]) -> None:
        """The index holds these no longer."""
        lifecycle.unindexed(self._database, workspace_id, record_ids)

    def unindex_all(self) -> int:
        """Puts every active record back into the outbox; returns how many."""
        return lifecycle.unindex_all(self._database)

    def state(self, workspace_id: str) -> WorkspaceState:
        """Returns zeros for a workspace that has no records."""
        return searching.state(self._database, workspace_id)

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that this thread reads inside is of one moment; nothing is written."""
        return self._database.snapshot()

    def pending(self, workspace_id: str) -> int:
        """How many active records the vector index does not hold yet."""
        return searching.pending(self._database, workspace_id)

    def directory(self, workspace_id: str, since: int) -> list[Entry]:
        """Every record whose state changed after ``since``, retired ones included."""
        return searching.directory(self._database, workspace_id, since)

    def records(self, workspace_id: str, record_ids: Iterable[str]) -> dict[str, MemoryRecord]:
        """The records that are there, whatever their status."""
        return searching.records(self._database, workspace_id, record_ids)

    def count(self, selection: Selection) -> int:
        """How many active records are selected."""
        return searching.count(self._database, selection)

    def lexical(self, selection: Selection, query: str, limit: int) -> list[tuple[str, float]]:
        """Full-text search; nothing in the query is syntax."""
        return searching.lexical(self._database, self._entries, selection, query, limit)

    def standing(self, selection: Selection, limit: int) -> list[str]:
        """Ids of the selected records in the order in which they should be shown."""
        return searching.standing(self._database, selection, limit)

    def claims(self, selection: Selection, fields: Sequence[str]) -> list[MemoryRecord]:
        """The selected records that claim any of these fields, those that count most first."""
        return searching.claims(self._database, selection, fields)

    def save_retrieval(self, retrieval: Retrieval, arm: str, attempt: int) -> None:
        """Keeps a retrieval, and a row for each injected candidate."""
        keeping.save_retrieval(self._database, retrieval, arm, attempt)

    def retrieval(self, workspace_id: str, retrieval_id: str) -> Retrieval | None:
        """One retrieval, as it was."""
        return keeping.retrieval(self._database, workspace_id, retrieval_id)

    def save_decision(self, decision: Decision[Any], arm: str, attempt: int) -> None:
        """Keeps a decision."""
        keeping.save_decision(self._database, decision, arm, attempt)

    def decision(self, workspace_id: str, decision_id: str) -> Decision[Any] | None:
        """One decision; its answer is plain JSON."""
        return keeping.decision(self._database, workspace_id, decision_id)

    def save_outcome(self, outcome: Outcome, span: SpanRef | None) -> None:
        """Keeps an attempt's outcome; reporting the attempt again replaces it."""
        keeping.save_outcome(self._database, outcome, span)

    def tasks(self, workspace_id: str) -> list[str]:
        """Task ids of a workspace, the latest first."""
        return history.tasks(self._database, workspace_id)

    def workspaces_of_task(self, task_id: str) -> list[str]:
        """Workspaces in which a task of this id left a row."""
        return history.workspaces_of_task(self._database, task_id)

    def workspaces_of_decision(self, decision_id: str) -> list[str]:
        """Workspaces that have a decision of this id."""
        return history.workspaces_of_decision(self._database, decision_id)

    def task_rows(self, workspace_id: str, task_id: str) -> TaskRows:
        """Everything the task's hops wrote."""
        rows = history.task_rows(self._database, workspace_id, task_id)
        return replace(rows, counterfactuals=self.counterfactuals(workspace_id, task_id))

    def row_spans(self, workspace_id: str, task_id: str) -> list[RowSpan]:
        """In which spans the task's other rows were written, oldest first."""
        return row_spans.row_spans(self._database, workspace_id, task_id)

    def proposals_of(self, workspace_id: str, record_ids: Iterable[str]) -> list[StoredProposal]:
        """Proposals that made, or were attached to, these records, oldest first."""
        return history.proposals_of(self._database, workspace_id, record_ids)

    def proposals_of_turn(self, workspace_id: str, turn_id: str) -> list[StoredProposal]:
        """Proposals taken from a turn, oldest first."""
        return history.proposals_of_turn(self._database, workspace_id, turn_id)

    def find_records(
        self, workspace_id: str, words: Sequence[str], limit: int
    ) -> list[MemoryRecord]:
        """Records of any status whose content contains any of the words, newest first."""
        return history.find_records(self._database, workspace_id, words, limit)

    def find_claims(
        self, workspace_id: str, fields: Sequence[str], limit: int
    ) -> list[MemoryRecord]:
        """Records of any status that claim exactly these fields, newest first."""
        return history.find_claims(self._database, workspace_id, fields, limit)

    def find_proposals(
        self, workspace_id: str, words: Sequence[str], limit: int
    ) -> list[StoredProposal]:
        """Proposals whose content or quote contains any of the words, newest first."""
        return history.find_proposals(self._database, workspace_id, words, limit)

    def turn(self, workspace_id: str, turn_id: str) -> Turn | None:
        """One turn."""
        return history.turn(self._database, workspace_id, turn_id)

    def find_turns(self, workspace_id: str, words: Sequence[str], limit: int) -> list[Turn]:
        """Turns whose text contains any of the words, newest first."""
        return history.find_turns(self._database, workspace_id, words, limit)

    def turns_kept(self, workspace_id: str, task_id: str | None) -> bool:
        """Whether any turn with its text is there to be looked at."""
        return history.turns_kept(self._database, workspace_id, task_id)

    def prune(self, before: datetime, workspace_id: str | None = None) -> dict[str, int]:
        """Drops turns, retrievals (with injections) and decisions older than a time."""
        return upkeep.prune(self._database, before, workspace_id)

    def statistics(self) -> Json:
        """Counts for ``doctor``: rows of each table, outbox, workspaces, schema version."""
        return upkeep.statistics(self._database)


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
