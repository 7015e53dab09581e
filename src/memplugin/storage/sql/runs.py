"""Counterfactual runs of decisions, and what the attribution and people say of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import RowMapping, insert, select

from memplugin.records import Counterfactual, Judgement, Need, Runs
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.tables import counterfactuals, judgements

_PLAIN = tuple(
    name
    for name in Counterfactual.__dataclass_fields__
    if name not in ("with_record", "without_record")
)
_SAID = tuple(
    name for name in Judgement.__dataclass_fields__ if name not in ("at", "need", "evidence")
)
_OF_TASK = ("workspace_id", "task_id", "by")


class Counterfactuals:
    """Counterfactual runs of stored decisions."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, found: Sequence[Counterfactual]) -> None:
        """Keeps counterfactuals, in one transaction."""
        if not found:
            return
        rows = [
            {
                **{name: getattr(one, name) for name in _PLAIN},
                "with_record": one.with_record.to_json(),
                "without_record": one.without_record.to_json(),
            }
            for one in found
        ]
        with self._database.writing() as connection:
            connection.execute(insert(counterfactuals), rows)

    def of(self, workspace_id: str, task_id: str | None = None) -> list[Counterfactual]:
        """Those of a workspace, or of one of its tasks, oldest first."""
        column = counterfactuals.c
        wanted = select(counterfactuals).where(column.workspace_id == workspace_id)
        if task_id is not None:
            wanted = wanted.where(column.task_id == task_id)
        with self._database.reading() as connection:
            rows = connection.execute(wanted.order_by(column.created_at, column.number))
            return [_counterfactual(row) for row in rows.mappings()]


class Judgements:
    """What the attribution and people say of tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, said: Sequence[Judgement]) -> None:
        """Keeps judgements, in one transaction; one of the same task by the same replaces it."""
        with self._database.writing() as connection:
            for judgement in said:
                connection.execute(_upsert(self._database, judgement))

    def of(self, workspace_id: str) -> list[Judgement]:
        """Everybody's of a workspace, oldest first."""
        column = judgements.c
        mine = select(judgements).where(column.workspace_id == workspace_id)
        with self._database.reading() as connection:
            rows = connection.execute(mine.order_by(column.created_at, column.number))
            return [_judgement(row) for row in rows.mappings()]


def _counterfactual(row: RowMapping) -> Counterfactual:
    return Counterfactual(
        **{name: row[name] for name in _PLAIN},
        with_record=Runs.from_json(row["with_record"]),
        without_record=Runs.from_json(row["without_record"]),
    )


def _upsert(database: Database, judgement: Judgement) -> Any:
    values = {
        **{name: getattr(judgement, name) for name in _SAID},
        "evidence": judgement.evidence,
        "need": judgement.need.to_json() if judgement.need else None,
        "created_at": judgement.at,
    }
    return (
        database.insert(judgements)
        .values(values)
        .on_conflict_do_update(
            index_elements=[judgements.c[name] for name in _OF_TASK],
            set_={name: value for name, value in values.items() if name not in _OF_TASK},
        )
    )


def _judgement(row: RowMapping) -> Judgement:
    return Judgement(
        **{name: row[name] for name in _SAID},
        evidence=tuple(row["evidence"]),
        need=Need.from_json(row["need"]) if row["need"] else None,
        at=row["created_at"],
    )
