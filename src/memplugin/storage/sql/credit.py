"""Credit sums: one row for each record and each sign that it was followed.

A recall must not read through the history of every candidate, so the sums are kept up to
date by whatever changes them: an outcome, a score, a retrieval of an attempt that was
reported already. Weights are applied when the sums are read, so that they may change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    select,
    text,
)

from memplugin.config import CreditWeights, twentieths
from memplugin.records import Credited, CreditTotals
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.rows import chunks
from memplugin.storage.sql.tables import NO_COSINE, NOT_JUDGED, attempts, credits, injections

_CREDIT, _SHOWN = credits.c, injections.c

UNIT = 1_000_000_000
"""Of ``credits.value`` in one: whole numbers add up exactly, whatever is taken off again."""


class AttemptKey(NamedTuple):
    """What joins a retrieval to the outcome of its attempt."""

    workspace_id: str
    task_id: str
    arm: str
    attempt: int

    @classmethod
    def among(cls, table: Table) -> list[ColumnElement[bool]]:
        """Conditions for the rows of an attempt, which is bound when they are executed."""
        return [table.c[name] == bindparam(f"of_{name}") for name in cls._fields]

    @property
    def bound(self) -> dict[str, str | int]:
        """What ``among`` is executed with."""
        return {f"of_{name}": value for name, value in self._asdict().items()}


class _Sign(NamedTuple):
    """One row of ``credits``."""

    workspace_id: str
    record_id: str
    judged: int
    cosine: int


@dataclass(slots=True)
class _Sums:
    attempts: int = 0
    successes: int = 0
    value: int = 0

    def add(self, other: _Sums, sign: int = 1) -> None:
        self.attempts += sign * other.attempts
        self.successes += sign * other.successes
        self.value += sign * other.value


_NONE = _Sums()

SAME_ATTEMPT = and_(
    _SHOWN.workspace_id == attempts.c.workspace_id,
    _SHOWN.task_id == attempts.c.task_id,
    _SHOWN.arm == attempts.c.arm,
    _SHOWN.attempt == attempts.c.attempt,
)
"""Joins injected candidates to the outcome of their attempt."""

_OUTCOME = select(
    attempts.c.succeeded, (attempts.c.value * attempts.c.confidence).label("value")
).where(*AttemptKey.among(attempts))
_SIGNS = select(_SHOWN.record_id, _SHOWN.followed_llm, _SHOWN.followed_cosine).where(
    *AttemptKey.among(injections)
)
_EMPTY = delete(credits).where(
    *(_CREDIT[name] == bindparam(f"of_{name}") for name in _Sign._fields), _CREDIT.attempts == 0
)


@contextmanager
def recounted(
    database: Database, connection: Connection, keys: Iterable[AttemptKey]
) -> Generator[None]:
    """Brings credit up to date after a change of anything it is made of in these attempts.

    Args:
        database: Which database it is.
        connection: In whose transaction it happens.
        keys: The attempts.

    Returns:
        A context to make the change in; credit follows when it ends.
    """
    held = sorted(set(keys))
    hold(database, connection, held)
    before = _of_attempts(connection, held)
    yield
    _change(database, connection, before, _of_attempts(connection, held))


def hold(database: Database, connection: Connection, keys: Iterable[AttemptKey]) -> None:
    """Makes whoever else changes these attempts wait until the commit.

    Args:
        database: Which database it is.
        connection: In whose transaction it happens.
        keys: The attempts.
    """
    database.hold(connection, ("\n".join(map(str, key)) for key in keys))


def is_reported(connection: Connection, key: AttemptKey) -> bool:
    """Whether the attempt has an outcome."""
    return connection.scalar(_OUTCOME, key.bound) is not None


def _of_attempts(connection: Connection, keys: Sequence[AttemptKey]) -> dict[_Sign, _Sums]:
    sums: dict[_Sign, _Sums] = defaultdict(_Sums)
    for key in keys:
        outcome = connection.execute(_OUTCOME, key.bound).one_or_none()
        if outcome is None:
            continue
        worth = _Sums(1, int(outcome.succeeded), round(outcome.value * UNIT))
        for record_id, sign in _signs(connection, key).items():
            sums[_Sign(key.workspace_id, record_id, *sign)].add(worth)
    return sums


def _signs(connection: Connection, key: AttemptKey) -> dict[str, tuple[int, int]]:
    """Whether each record that was shown was followed: judge, and cosine without a judge.

    One that was shown twice in the attempt has had one chance: the better sign counts.
    """
    signs: dict[str, tuple[int, int]] = {}
    for record_id, followed, cosine in connection.execute(_SIGNS, key.bound):
        judged, close = signs.get(record_id, (NOT_JUDGED, NO_COSINE))
        judged = max(judged, NOT_JUDGED if followed is None else int(followed))
        close = max(close, NO_COSINE if cosine is None else twentieths(cosine))
        signs[record_id] = judged, close
    return {
        record_id: (judged, NO_COSINE if judged != NOT_JUDGED else close)
        for record_id, (judged, close) in signs.items()
    }


def _change(
    database: Database,
    connection: Connection,
    before: Mapping[_Sign, _Sums],
    after: Mapping[_Sign, _Sums],
) -> None:
    changes: dict[_Sign, _Sums] = defaultdict(_Sums)
    for sums, direction in ((before, -1), (after, 1)):
        for sign, of_sign in sums.items():
            changes[sign].add(of_sign, direction)
    # In one order, so that two writers can't wait for each other.
    rows = [
        {**sign._asdict(), "attempts": d.attempts, "successes": d.successes, "value": d.value}
        for sign, d in sorted(changes.items(), key=lambda change: change[0])
        if d != _Sums()
    ]
    if not rows:
        return
    added = database.insert(credits)
    connection.execute(
        added.on_conflict_do_update(
            index_elements=[_CREDIT[name] for name in _Sign._fields],
            set_={
                name: _CREDIT[name] + added.excluded[name]
                for name in ("attempts", "successes", "value")
            },
        ),
        rows,
    )
    gone = [row for row in rows if row["attempts"] < 0]
    if gone:
        connection.execute(
            _EMPTY, [{f"of_{name}": row[name] for name in _Sign._fields} for row in gone]
        )


# ---------------------------------------------------------------- reading


_SIGN_OF = case(
    (_CREDIT.judged == 1, "followed"),
    (_CREDIT.judged == 0, "ignored"),
    (_CREDIT.cosine == NO_COSINE, "unknown"),
    (_CREDIT.cosine >= bindparam("close_from"), "close"),
    else_="far",
).label("sign")
"""As the weights are called, in the order in which ``learning.credit.weight`` asks."""

_BY_SIGN = (
    select(
        _CREDIT.record_id,
        _SIGN_OF,
        func.sum(_CREDIT.attempts),
        func.sum(_CREDIT.successes),
        func.sum(_CREDIT.value),
    )
    .where(_CREDIT.workspace_id == bindparam("workspace"))
    .group_by(_CREDIT.record_id, text("sign"))
)


def _given(name: str) -> ColumnElement[float]:
    return bindparam(name, type_=Double[float]())


_WEIGHT = case(
    (_CREDIT.judged == 1, _given("followed")),
    (_CREDIT.judged == 0, _given("ignored")),
    (_CREDIT.cosine == NO_COSINE, _given("unknown")),
    (_CREDIT.cosine >= bindparam("close_from"), _given("close")),
    else_=_given("far"),
)
# Weighted by the database: half the time of grouping by sign, and a recall waits for it.
_CREDITED = (
    select(_CREDIT.record_id, func.sum(_CREDIT.attempts), func.sum(_CREDIT.value * _WEIGHT))
    .where(
        _CREDIT.workspace_id == bindparam("workspace"),
        _CREDIT.record_id.in_(bindparam("ids", expanding=True)),
    )
    .group_by(_CREDIT.record_id)
)


class Credit:
    """What outcomes have earned records."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_records(
        self, workspace_id: str, record_ids: Iterable[str], weights: CreditWeights
    ) -> dict[str, Credited]:
        """What a ranking needs to know of records, in one query however long the history.

        Args:
            workspace_id: The workspace.
            record_ids: The candidates.
            weights: Who gets how much of an outcome.

        Returns:
            A record that was shown in no reported attempt is absent.
        """
        named = {n: getattr(weights, n) for n in ("followed", "ignored", "close", "far", "unknown")}
        asked = {"workspace": workspace_id, "close_from": weights.close_twentieths, **named}
        with self._database.reading() as connection:
            return {
                record_id: Credited(int(tried), float(credited) / UNIT)
                for some in chunks(list(dict.fromkeys(record_ids)))
                for record_id, tried, credited in connection.execute(
                    _CREDITED, {**asked, "ids": some}
                )
            }

    def totals(self, workspace_id: str, weights: CreditWeights) -> dict[str, CreditTotals]:
        """Everything that is known of each record of a workspace that was shown."""
        asked = {"workspace": workspace_id, "close_from": weights.close_twentieths}
        signs: dict[str, dict[str, _Sums]] = defaultdict(dict)
        with self._database.reading() as connection:
            for record_id, sign, tried, passed, value in connection.execute(_BY_SIGN, asked):
                signs[record_id][sign] = _Sums(int(tried), int(passed), int(value))
        return {record_id: _totals(by_sign, weights) for record_id, by_sign in signs.items()}


def _totals(by_sign: Mapping[str, _Sums], weights: CreditWeights) -> CreditTotals:
    def sums(name: str) -> _Sums:
        return by_sign.get(name, _NONE)

    followed, ignored, close, far = map(sums, ("followed", "ignored", "close", "far"))
    return CreditTotals(
        attempts=sum(each.attempts for each in by_sign.values()),
        successes=sum(each.successes for each in by_sign.values()),
        outcome=sum(each.value for each in by_sign.values()) / UNIT,
        credited=sum(each.value * getattr(weights, name) for name, each in by_sign.items()) / UNIT,
        judged=followed.attempts + ignored.attempts,
        followed=followed.attempts,
        judged_successes=followed.successes + ignored.successes,
        followed_successes=followed.successes,
        compared=close.attempts + far.attempts,
        close=close.attempts,
        compared_successes=close.successes + far.successes,
        close_successes=close.successes,
    )
