"""Retrievals, decisions and outcomes: stored, and read back exactly as they were."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection, RowMapping, insert, select

from memplugin.records import (
    Candidate,
    Decision,
    Json,
    Outcome,
    Override,
    Reply,
    Retrieval,
    SpanRef,
    Support,
)
from memplugin.storage.sql.credit import AttemptKey, hold, is_reported, recounted
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.follows import forget_scores
from memplugin.storage.sql.rows import AnyRow, span_from, span_ids
from memplugin.storage.sql.tables import attempts, decisions, injections, retrievals

CANDIDATES: TypeAdapter[tuple[Candidate, ...]] = TypeAdapter(tuple[Candidate, ...])
_PLAIN: TypeAdapter[Any] = TypeAdapter(Any)

_RETRIEVAL_FIELDS = [
    "id",
    "workspace_id",
    "task_id",
    "session_id",
    "query",
    "filters",
    "k",
    "policy",
    "total",
    "shown",
    "pending_index",
    "stale_dropped",
    "text",
    "created_at",
]
_DECISION_FIELDS = [
    "id",
    "workspace_id",
    "task_id",
    "session_id",
    "retrieval_id",
    "question",
    "status",
    "answer",
    "reasoning",
    "considered",
    "memory_total",
    "memory_shown",
    "order_preserved",
    "raw",
    "answer_schema",
    "model",
    "usage",
    "created_at",
    "detail",
]
_OUTCOME_FIELDS = tuple(Outcome.__dataclass_fields__)

OUTCOMES = select(*(attempts.c[name] for name in _OUTCOME_FIELDS))


class Retrievals:
    """Retrievals as they were."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, retrieval: Retrieval, arm: str, attempt: int) -> None:
        """Keeps a retrieval, and a row for each injected candidate.

        Args:
            retrieval: What was recalled, with its candidates.
            arm: The arm of the experiment that it belongs to.
            attempt: The number of the task's attempt.
        """
        tried = {"arm": arm, "attempt": attempt}
        hop = _hop(retrieval)
        row = {
            **{name: getattr(retrieval, name) for name in _RETRIEVAL_FIELDS},
            **hop,
            **tried,
            **_sampled(retrieval.span),
            "candidates": CANDIDATES.dump_json(retrieval.candidates).decode(),
            "degraded": retrieval.degraded,
        }
        shown = [
            {
                **hop,
                **tried,
                "retrieval_id": retrieval.id,
                "record_id": candidate.record_id,
                "rank": candidate.rank,
                "score": candidate.score,
                "created_at": retrieval.created_at,
            }
            for candidate in retrieval.injected
        ]
        with self._database.writing() as connection:
            connection.execute(insert(retrievals), row)
            if shown:
                key = AttemptKey(retrieval.workspace_id, retrieval.task_id, arm, attempt)
                _save_shown(self._database, connection, key, shown)

    def get(self, workspace_id: str, retrieval_id: str) -> Retrieval | None:
        """One retrieval, as it was."""
        wanted = select(retrievals).where(
            retrievals.c.workspace_id == workspace_id, retrievals.c.id == retrieval_id
        )
        with self._database.reading() as connection:
            row = connection.execute(wanted).mappings().one_or_none()
        return retrieval_from(row) if row else None


class Decisions:
    """Decisions as they were."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, decision: Decision[Any], arm: str, attempt: int) -> None:
        """Keeps a decision.

        Args:
            decision: What was decided.
            arm: The arm of the experiment that it belongs to.
            attempt: The number of the task's attempt.
        """
        support = decision.chosen_support
        row = {
            **{name: getattr(decision, name) for name in _DECISION_FIELDS},
            **_hop(decision),
            **_sampled(decision.span),
            "arm": arm,
            "attempt": attempt,
            "answer": _PLAIN.dump_python(decision.answer, mode="json"),
            "cited_record_ids": decision.cited_record_ids,
            "flags": decision.flags,
            "chosen_support": support.to_json() if support else None,
            "sent": decision.sent,
            "replies": [_PLAIN.dump_python(reply) for reply in decision.replies],
            "overrides": [override.to_json() for override in decision.overrides],
            "options": decision.options,
        }
        with self._database.writing() as connection:
            connection.execute(insert(decisions), row)

    def get(self, workspace_id: str, decision_id: str) -> Decision[Any] | None:
        """One decision; its answer is plain JSON."""
        wanted = select(decisions).where(
            decisions.c.workspace_id == workspace_id, decisions.c.id == decision_id
        )
        with self._database.reading() as connection:
            row = connection.execute(wanted).mappings().one_or_none()
        return decision_from(row) if row else None


class Outcomes:
    """How attempts ended."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, outcome: Outcome, span: SpanRef | None) -> None:
        """Keeps an attempt's outcome; reporting the attempt again replaces it."""
        values = {**{name: getattr(outcome, name) for name in _OUTCOME_FIELDS}, **span_ids(span)}
        row = self._database.insert(attempts).values(values)
        again = row.on_conflict_do_update(
            index_elements=[attempts.c[name] for name in AttemptKey._fields],
            set_={name: value for name, value in values.items() if name not in AttemptKey._fields},
        )
        key = AttemptKey(outcome.workspace_id, outcome.task_id, outcome.arm, outcome.attempt)
        with self._database.writing() as connection, recounted(self._database, connection, [key]):
            forget_scores(connection, key, outcome.action)
            connection.execute(again)


def _save_shown(
    database: Database, connection: Connection, key: AttemptKey, shown: Sequence[Json]
) -> None:
    hold(database, connection, [key])
    # Nearly always the outcome comes later, and credit with it.
    late = is_reported(connection, key)
    with recounted(database, connection, [key]) if late else nullcontext():
        connection.execute(insert(injections), shown)


def retrieval_from(row: RowMapping) -> Retrieval:
    """Reads a row of ``retrievals``."""
    return Retrieval(
        **{name: row[name] for name in _RETRIEVAL_FIELDS},
        candidates=CANDIDATES.validate_json(row["candidates"]),
        degraded=tuple(row["degraded"]),
        span=span_from(row),
    )


def decision_from(row: RowMapping) -> Decision[Any]:
    """Reads a row of ``decisions``."""
    support = row["chosen_support"]
    return Decision(
        **{name: row[name] for name in _DECISION_FIELDS},
        cited_record_ids=tuple(row["cited_record_ids"]),
        flags=tuple(row["flags"]),
        chosen_support=Support(**support) if support else None,
        sent=tuple(row["sent"]),
        replies=tuple(map(_reply, row["replies"])),
        span=span_from(row),
        overrides=tuple(Override(**override) for override in row["overrides"] or ()),
        options=row["options"] or {},
    )


def _reply(kept: dict[str, Any]) -> Reply:
    return Reply(kept["status"], kept["raw"], kept["detail"], tuple(kept.get("asked", ())))


def outcome_from(row: AnyRow) -> Outcome:
    """Reads a row of ``OUTCOMES``."""
    return Outcome(*row)


def _hop(kept: Retrieval | Decision[Any]) -> dict[str, str | None]:
    return {
        "workspace_id": kept.workspace_id,
        "task_id": kept.task_id,
        "session_id": kept.session_id,
        **span_ids(kept.span),
    }


def _sampled(span: SpanRef | None) -> dict[str, bool | None]:
    return {"sampled": span.sampled if span else None}
