"""Scores that say whether a shown record was followed, one for each injection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, case, func, or_, select, union, update

from memplugin.records import Disagreement, Followed, Score, Shown
from memplugin.storage.sql.credit import SAME_ATTEMPT, AttemptKey, recounted
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.rows import AnySelect, chunks
from memplugin.storage.sql.tables import attempts, credits, decisions, injections, memory_records

_ROW, _RECORD = injections.c, memory_records.c

_SCORES = ("followed_llm", "followed_cosine", "follow_reasoning", "follow_error", "judge_version")
"""What is known of a row beside when."""

_SAME_RECORD = and_(_RECORD.id == _ROW.record_id, _RECORD.workspace_id == _ROW.workspace_id)
_SHOWN = (
    select(
        _ROW.number,
        _ROW.workspace_id,
        _ROW.task_id,
        _ROW.arm,
        _ROW.attempt,
        _ROW.record_id,
        _RECORD.kind,
        _RECORD.content,
        attempts.c.action,
        _ROW.followed_llm,
        _ROW.followed_cosine,
    )
    .join_from(injections, attempts, SAME_ATTEMPT)
    .join(memory_records, _SAME_RECORD)
    .where(attempts.c.action.is_not(None), _RECORD.status != "forgotten")
)

_ACTION = select(attempts.c.action).where(*AttemptKey.among(attempts))


class FollowScores:
    """Whether the records that were shown were followed."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def unscored(self, workspace_id: str | None, *, judge: bool) -> list[int]:
        """Numbers of the rows that want a score, those that failed before at the end.

        Args:
            workspace_id: None for all.
            judge: Whether rows without the judge's answer count, or only those without a
                cosine.

        What was forgotten has nothing left to compare.
        """
        wanting = [
            _ROW.followed_cosine.is_(None),
            *([_ROW.followed_llm.is_(None)] if judge else []),
        ]
        waiting = (
            select(_ROW.number)
            .join_from(injections, attempts, SAME_ATTEMPT)
            .join(memory_records, _SAME_RECORD)
            .where(attempts.c.action.is_not(None), _RECORD.status != "forgotten", or_(*wanting))
            .order_by(case((_ROW.follow_error.is_(None), 0), else_=1), _ROW.number)
        )
        with self._database.reading() as connection:
            return [int(n) for n in connection.scalars(_within(waiting, workspace_id))]

    def without_action(self, workspace_id: str | None) -> int:
        """How many rows can't be scored, since their attempt was reported without its action."""
        counted = (
            select(func.count())
            .select_from(injections)
            .join(attempts, SAME_ATTEMPT)
            .where(
                attempts.c.action.is_(None),
                _ROW.followed_cosine.is_(None),
                _ROW.followed_llm.is_(None),
            )
        )
        with self._database.reading() as connection:
            return int(connection.scalar(_within(counted, workspace_id)) or 0)

    def shown(self, numbers: Sequence[int]) -> list[Shown]:
        """The rows of these numbers, in their order; rows that are gone since are left out."""
        with self._database.reading() as connection:
            rows = {
                row.number: Shown(*row)
                for some in chunks(numbers)
                for row in connection.execute(_SHOWN.where(_ROW.number.in_(some)))
            }
        return [rows[number] for number in numbers if number in rows]

    def save_scores(self, scores: Sequence[Score], now: datetime) -> None:
        """Keeps scores in one transaction.

        A row whose attempt was reported with another action since is left alone.
        """
        keys = {_key(score.shown) for score in scores}
        with self._database.writing() as connection, recounted(self._database, connection, keys):
            actions = _actions(connection, keys)
            for score in scores:
                if actions.get(_key(score.shown)) == score.shown.action:
                    _save(connection, score, now)

    def ever_shown(self, workspace_id: str) -> frozenset[str]:
        """Ids of the records that were shown at least once.

        Credit outlives the rows it came from when they are pruned.
        """
        ids = union(
            select(_ROW.record_id).where(_ROW.workspace_id == workspace_id),
            select(credits.c.record_id).where(credits.c.workspace_id == workspace_id),
        )
        with self._database.reading() as connection:
            return frozenset(connection.scalars(ids))

    def disagreements(self, workspace_id: str, gap: float, limit: int) -> list[Disagreement]:
        """Rows whose judgement (1 or 0) and cosine are at least so far apart, widest first.

        Args:
            workspace_id: The workspace, compared by equality.
            gap: Least difference, from 0 to 1.
            limit: How many to return at most.

        Returns:
            The rows, widest first.
        """
        apart = func.abs(case((_ROW.followed_llm, 1.0), else_=0.0) - _ROW.followed_cosine)
        wide = (
            select(
                _ROW.record_id,
                _RECORD.content,
                _ROW.task_id,
                _ROW.attempt,
                _ROW.followed_llm,
                _ROW.followed_cosine,
                _ROW.follow_reasoning,
            )
            .join_from(injections, memory_records, _SAME_RECORD)
            .where(_ROW.workspace_id == workspace_id, _ROW.followed_llm.is_not(None), apart >= gap)
            .order_by(apart.desc(), _ROW.number)
            .limit(limit)
        )
        with self._database.reading() as connection:
            return [Disagreement(*row) for row in connection.execute(wide)]

    def followed(self, workspace_id: str) -> list[Followed]:
        """Scored records that were shown to a decision that is kept, each once, oldest first."""
        fed = and_(
            decisions.c.workspace_id == _ROW.workspace_id,
            decisions.c.retrieval_id == _ROW.retrieval_id,
        )
        scored = (
            select(decisions.c.id, _ROW.record_id, _ROW.followed_llm, _ROW.followed_cosine)
            .join_from(injections, decisions, fed)
            .join(memory_records, _SAME_RECORD)
            .where(
                _ROW.workspace_id == workspace_id,
                or_(_ROW.followed_llm.is_not(None), _ROW.followed_cosine.is_not(None)),
                _RECORD.status != "forgotten",
            )
            .order_by(decisions.c.number, _ROW.number)
        )
        with self._database.reading() as connection:
            rows = [Followed(*row) for row in connection.execute(scored)]
        return list({row.key: row for row in rows}.values())


def forget_scores(connection: Connection, key: AttemptKey, action: str | None) -> None:
    """Drops an attempt's scores when it is reported with another action than it had.

    Args:
        connection: In whose transaction it happens.
        key: The attempt.
        action: What was done in it.
    """
    had = _actions(connection, [key])
    if key in had and had[key] != action:
        nothing = dict.fromkeys((*_SCORES, "scored_at"))
        connection.execute(
            update(injections).where(*AttemptKey.among(injections)).values(nothing), key.bound
        )


def _within(statement: AnySelect, workspace_id: str | None) -> AnySelect:
    return statement if workspace_id is None else statement.where(_ROW.workspace_id == workspace_id)


def _key(row: Shown) -> AttemptKey:
    return AttemptKey(row.workspace_id, row.task_id, row.arm, row.attempt)


def _actions(connection: Connection, keys: Iterable[AttemptKey]) -> dict[AttemptKey, str | None]:
    found: dict[AttemptKey, str | None] = {}
    for key in keys:
        for action in connection.scalars(_ACTION, key.bound):
            found[key] = action
    return found


def _save(connection: Connection, score: Score, now: datetime) -> None:
    values: dict[str, Any] = {"follow_error": score.error, "scored_at": now}
    if score.followed is not None:
        values |= {
            "followed_llm": score.followed,
            "follow_reasoning": score.reasoning,
            "judge_version": score.judge,
        }
    if score.cosine is not None:
        values["followed_cosine"] = score.cosine
    row: ColumnElement[bool] = _ROW.number == score.shown.number
    connection.execute(update(injections).where(row).values(values))
