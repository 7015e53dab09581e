"""What diagnosis reads: the rows of a task, and searches among rows of every status."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    false,
    func,
    literal,
    null,
    or_,
    select,
    union,
    union_all,
)

from memplugin.records import MemoryRecord, RowSpan, StoredProposal, TaskRows, Turn
from memplugin.storage.sql.attempts import OUTCOMES, decision_from, outcome_from, retrieval_from
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.rows import (
    RECORDS,
    STORED_PROPOSALS,
    TURNS,
    AnySelect,
    chunks,
    claim_fields,
    record_from,
    stored_proposal_from,
    turn_from,
)
from memplugin.storage.sql.runs import Counterfactuals
from memplugin.storage.sql.tables import (
    HOPS,
    attempts,
    decisions,
    memory_records,
    proposals,
    retrievals,
    sessions,
    turns,
)
from memplugin.text import canonical_json

LONGEST_WORD = 1_000
"""SQLite refuses a LIKE pattern of 50,000 bytes."""

_WHEN = {sessions: "started_at", turns: "said_at"}
"""The column that says when, where it is not ``created_at``."""


class History:
    """What tasks left behind, and searches among rows of every status."""

    def __init__(self, database: Database, counterfactuals: Counterfactuals) -> None:
        self._database = database
        self._counterfactuals = counterfactuals

    def tasks(self, workspace_id: str) -> list[str]:
        """Task ids of a workspace, the latest first."""
        seen = union_all(
            *(
                select(table.c.task_id, table.c[_WHEN.get(table, "created_at")].label("at")).where(
                    table.c.workspace_id == workspace_id
                )
                for table in HOPS
            )
        ).subquery()
        latest = (
            select(seen.c.task_id)
            .group_by(seen.c.task_id)
            .order_by(func.max(seen.c.at).desc(), seen.c.task_id)
        )
        with self._database.reading() as connection:
            return list(connection.scalars(latest))

    def workspaces_of_task(self, task_id: str) -> list[str]:
        """Workspaces in which a task of this id left a row."""
        seen = union(
            *(select(table.c.workspace_id).where(table.c.task_id == task_id) for table in HOPS)
        )
        with self._database.reading() as connection:
            return sorted(connection.scalars(seen))

    def workspaces_of_decision(self, decision_id: str) -> list[str]:
        """Workspaces that have a decision of this id."""
        having = select(decisions.c.workspace_id).where(decisions.c.id == decision_id)
        with self._database.reading() as connection:
            return sorted(connection.scalars(having))

    def task_rows(self, workspace_id: str, task_id: str) -> TaskRows:
        """Everything the task's hops wrote."""

        def of_task(statement: AnySelect, table: Any, when: str) -> AnySelect:
            return statement.where(
                table.c.workspace_id == workspace_id, table.c.task_id == task_id
            ).order_by(table.c[when], table.c.number)

        tried = self._counterfactuals.of(workspace_id, task_id)
        with self._database.reading() as connection:
            rows = connection.execute
            return TaskRows(
                turns=[turn_from(r) for r in rows(of_task(TURNS, turns, "said_at"))],
                proposals=[
                    stored_proposal_from(r)
                    for r in rows(of_task(STORED_PROPOSALS, proposals, "created_at"))
                ],
                retrievals=[
                    retrieval_from(r)
                    for r in rows(of_task(select(retrievals), retrievals, "created_at")).mappings()
                ],
                decisions=[
                    decision_from(r)
                    for r in rows(of_task(select(decisions), decisions, "created_at")).mappings()
                ],
                outcomes=[outcome_from(r) for r in rows(of_task(OUTCOMES, attempts, "created_at"))],
                counterfactuals=tried,
            )

    def proposals_of(self, workspace_id: str, record_ids: Iterable[str]) -> list[StoredProposal]:
        """Proposals that made, or were attached to, these records, oldest first."""
        of_workspace = STORED_PROPOSALS.where(proposals.c.workspace_id == workspace_id)
        with self._database.reading() as connection:
            found = [
                stored_proposal_from(row)
                for some in chunks(list(dict.fromkeys(record_ids)))
                for row in connection.execute(
                    of_workspace.where(proposals.c.record_id.in_(some)).order_by(proposals.c.number)
                )
            ]
        return sorted(found, key=lambda proposal: proposal.created_at)

    def proposals_of_turn(self, workspace_id: str, turn_id: str) -> list[StoredProposal]:
        """Proposals taken from a turn, oldest first.

        A failed extraction is of each turn it should have read.
        """
        quoted = canonical_json(turn_id)
        position = func.instr if self._database.sqlite else func.strpos
        of_turn = or_(
            proposals.c.turn_id == turn_id,
            and_(proposals.c.ruling == "failed", position(proposals.c.turn_ids, quoted) > 0),
        )
        oldest = STORED_PROPOSALS.order_by(proposals.c.created_at, proposals.c.number)
        with self._database.reading() as connection:
            rows = connection.execute(
                oldest.where(proposals.c.workspace_id == workspace_id, of_turn)
            )
            return [stored_proposal_from(row) for row in rows]

    def find_records(
        self, workspace_id: str, words: Sequence[str], limit: int
    ) -> list[MemoryRecord]:
        """Records of any status whose content contains any of the words, newest first.

        Args:
            workspace_id: The workspace, compared by equality.
            words: Looked for anywhere in the text, whatever their case.
            limit: How many to return at most.

        Returns:
            The records, newest first.
        """
        record = memory_records.c
        holds = _holds_any(words, record.content)
        return _newest_records(self._database, limit, record.workspace_id == workspace_id, holds)

    def find_claims(
        self, workspace_id: str, fields: Sequence[str], limit: int
    ) -> list[MemoryRecord]:
        """Records of any status that claim exactly these fields, newest first.

        Args:
            workspace_id: The workspace, compared by equality.
            fields: Names of the claim's fields.
            limit: How many to return at most.

        Returns:
            The records, newest first.
        """
        record = memory_records.c
        slot = claim_fields(dict.fromkeys(fields))
        return _newest_records(
            self._database, limit, record.workspace_id == workspace_id, record.claim_fields == slot
        )

    def find_proposals(
        self, workspace_id: str, words: Sequence[str], limit: int
    ) -> list[StoredProposal]:
        """Proposals whose content or quote contains any of the words, newest first.

        Failed extractions count by the text of their turns.

        Args:
            workspace_id: The workspace, compared by equality.
            words: Looked for anywhere in the text, whatever their case.
            limit: How many to return at most.

        Returns:
            The proposals, newest first.
        """
        mine = proposals.c.workspace_id == workspace_id
        newest = STORED_PROPOSALS.order_by(proposals.c.created_at.desc(), proposals.c.number.desc())
        with self._database.reading() as connection:
            holds = _holds_any(words, proposals.c.content, proposals.c.quote)
            found = [*connection.execute(newest.where(mine, holds).limit(limit))]
            failed = _failures_over(connection, workspace_id, words)
            for some in chunks(failed):
                found += connection.execute(
                    newest.where(mine, proposals.c.id.in_(some)).limit(limit)
                )
        ordered = sorted(map(stored_proposal_from, found), key=lambda p: p.created_at, reverse=True)
        return ordered[:limit]

    def turn(self, workspace_id: str, turn_id: str) -> Turn | None:
        """One turn."""
        asked = TURNS.where(turns.c.workspace_id == workspace_id, turns.c.id == turn_id)
        with self._database.reading() as connection:
            row = connection.execute(asked).first()
        return turn_from(row) if row else None

    def find_turns(self, workspace_id: str, words: Sequence[str], limit: int) -> list[Turn]:
        """Turns whose text contains any of the words, newest first.

        Args:
            workspace_id: The workspace, compared by equality.
            words: Looked for anywhere in the text, whatever their case.
            limit: How many to return at most.

        Returns:
            The turns, newest first.
        """
        newest = TURNS.order_by(turns.c.said_at.desc(), turns.c.number.desc()).limit(limit)
        asked = newest.where(turns.c.workspace_id == workspace_id, _holds_any(words, turns.c.text))
        with self._database.reading() as connection:
            return [turn_from(row) for row in connection.execute(asked)]

    def turns_kept(self, workspace_id: str, task_id: str | None) -> bool:
        """Whether any turn with its text is there to be looked at."""
        kept = and_(turns.c.workspace_id == workspace_id, turns.c.text.is_not(None))
        if task_id is not None:
            kept = and_(kept, turns.c.task_id == task_id)
        with self._database.reading() as connection:
            return connection.scalar(select(turns.c.number).where(kept).limit(1)) is not None

    def row_spans(self, workspace_id: str, task_id: str) -> list[RowSpan]:
        """In which spans the task's other rows were written, oldest first."""

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
        with self._database.reading() as connection:
            found = connection.execute(select(rows).order_by(rows.c.at))
            return [RowSpan(*row) for row in found]


def _newest_records(
    database: Database, limit: int, *conditions: ColumnElement[bool]
) -> list[MemoryRecord]:
    record = memory_records.c
    newest = RECORDS.where(*conditions).order_by(record.occurred_at.desc(), record.number.desc())
    with database.reading() as connection:
        return [record_from(row) for row in connection.execute(newest.limit(limit))]


def _failures_over(connection: Connection, workspace_id: str, words: Sequence[str]) -> list[str]:
    """Failed extractions that should have read a turn with one of the words."""
    failed = select(proposals.c.id, proposals.c.turn_ids).where(
        proposals.c.workspace_id == workspace_id, proposals.c.ruling == "failed"
    )
    unread: dict[str, list[str]] = {
        row.id: row.turn_ids or [] for row in connection.execute(failed)
    }
    turn_ids = sorted({id_ for ids in unread.values() for id_ in ids})
    holding = select(turns.c.id).where(
        turns.c.workspace_id == workspace_id, _holds_any(words, turns.c.text)
    )
    said = {
        id_
        for some in chunks(turn_ids)
        for id_ in connection.scalars(holding.where(turns.c.id.in_(some)))
    }
    return [id_ for id_, ids in unread.items() if not said.isdisjoint(ids)]


def _holds_any(words: Sequence[str], *columns: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether a column contains a word, in any case; no word is in no text.

    SQLite folds the case of ASCII only, so other words are looked for in three spellings.
    """
    spelled = {
        spelling[:LONGEST_WORD]
        for word in words
        if word
        for spelling in (
            [word] if word.isascii() else [word, word.lower(), word.upper(), word.title()]
        )
    }
    return or_(
        false(),
        *(
            column.icontains(word, autoescape=True)
            for column in columns
            for word in sorted(spelled)
        ),
    )
