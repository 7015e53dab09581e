"""The ledger's tables.

Every row that a hop wrote carries the workspace, task and session it was written for and
the span that wrote it (NULL without a valid one). The full-text index is made beside them
by the first migration, because each database spells it its own way.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from memplugin.storage.sql.types import BigKey, CanonicalJson, UtcTime, VerbatimJson

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

IN_OUTBOX = text(
    "((status = 'active' AND indexed_at IS NULL)"
    " OR (status = 'forgotten' AND indexed_at IS NOT NULL))"
)
"""What the vector index must take or drop. Literals: a partial index is only used by a
query that repeats its condition word for word."""

ACTIVE_CLAIM = text("(status = 'active' AND claim_fields IS NOT NULL)")
"""What a look-up by claim looks through."""


def _number() -> Column[Any]:
    return Column("number", BigKey, primary_key=True, autoincrement=True)


def _hop() -> list[Column[Any]]:
    return [
        Column("workspace_id", Text, nullable=False),
        Column("task_id", Text, nullable=False),
        Column("session_id", Text, nullable=False),
        Column("trace_id", Text),
        Column("span_id", Text),
    ]


def _required(name: str, kind: Any = Text) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _of_task() -> Index:
    return Index(None, "task_id", "workspace_id")


store = Table("store", metadata, Column("key", Text, primary_key=True), _required("value"))

workspaces = Table(
    "workspaces",
    metadata,
    Column("workspace_id", Text, primary_key=True),
    _required("seq", BigKey),
)

sessions = Table(
    "sessions",
    metadata,
    _number(),
    *_hop(),
    Column("sampled", Boolean),
    _required("started_at", UtcTime),
    UniqueConstraint("workspace_id", "task_id", "session_id"),
    _of_task(),
)

turns = Table(
    "turns",
    metadata,
    _number(),
    *_hop(),
    _required("id"),
    _required("role"),
    Column("text", Text),
    Column("text_hash", Text),
    _required("said_at", UtcTime),
    Column("extracted_by", Text),
    UniqueConstraint("workspace_id", "id"),
    _of_task(),
    Index(None, "said_at"),
)

proposals = Table(
    "proposals",
    metadata,
    _number(),
    *_hop(),
    Column("id", Text, nullable=False, unique=True),
    _required("proposed_as"),  # what was asked for: one proposal may be ruled on again
    Column("batch", Text),
    Column("place", Integer),
    _required("operation"),
    Column("content", Text),
    Column("content_hash", Text),
    Column("kind", Text),
    Column("polarity", Text),
    Column("speech_act", Text),
    Column("scope", Text),
    Column("claim", CanonicalJson),
    Column("confidence", Double),
    Column("pinned", Boolean),
    Column("occurred_at", UtcTime),
    Column("time_phrase", Text),
    Column("quote", Text),
    Column("turn_id", Text),
    Column("turn_ids", CanonicalJson),  # of a failed extraction: all it should have read
    Column("extractor", Text),
    _required("ruling"),
    Column("reason", Text),
    Column("record_id", Text),
    Column("replaced_id", Text),
    _required("created_at", UtcTime),
    _of_task(),
    Index(None, "workspace_id", "turn_id"),
    Index(None, "workspace_id", "record_id"),
    Index(None, "workspace_id", "proposed_as"),
)

memory_records = Table(
    "memory_records",
    metadata,
    _number(),  # the full-text index points to it, so it must never be used again
    Column("workspace_id", Text, nullable=False),
    Column("task_id", Text),
    Column("source_session", Text, nullable=False),
    Column("trace_id", Text),
    Column("span_id", Text),
    Column("traceparent", Text),
    Column("id", Text, nullable=False, unique=True),
    _required("seq", BigKey),
    _required("kind"),
    _required("content"),
    _required("content_hash"),
    _required("scope"),
    _required("scope_size", Integer),
    Column("claim", CanonicalJson),
    Column("claim_fields", Text),
    _required("polarity"),
    _required("status"),
    _required("pinned", Boolean),
    _required("confidence", Double),
    _required("seed_confidence", Double),  # as it was written with, before any evidence
    _required("seed_strength", Double),
    _required("evidence_count", Integer),
    _required("occurred_at", UtcTime),
    _required("created_at", UtcTime),
    Column("source", Text),
    Column("source_turn", Text),
    Column("around", Text),
    Column("supersedes", Text),
    Column("replaced_by", Text),
    Column("retired_at", UtcTime),
    Column("indexed_at", UtcTime),
    _required("vector_covers_all", Boolean),
    Index(None, "workspace_id", "seq"),
    Index(None, "workspace_id", "status", "kind", "scope"),
    Index(None, "workspace_id", "content_hash"),
    Index(None, "workspace_id", "claim_fields"),
    Index(
        "ix_memory_records_outbox",
        "workspace_id",
        "status",
        "indexed_at",
        "number",
        sqlite_where=IN_OUTBOX,
        postgresql_where=IN_OUTBOX,
    ),
    Index(
        "ix_memory_records_claims",
        "workspace_id",
        "scope",
        "claim_fields",
        sqlite_where=ACTIVE_CLAIM,
        postgresql_where=ACTIVE_CLAIM,
    ),
    sqlite_autoincrement=True,
)

tombstones = Table(
    "tombstones",
    metadata,
    _number(),
    _required("workspace_id"),
    _required("record_id"),
    _required("content_hash"),
    _required("session_id"),
    Column("turn_id", Text),
    _required("reason"),
    _required("forgotten_at", UtcTime),
    Index(None, "workspace_id", "content_hash"),
    Index(None, "workspace_id", "turn_id"),
)

evidence = Table(
    "evidence",
    metadata,
    _number(),
    *_hop(),
    Column("id", Text, nullable=False, unique=True),
    Column("record_id", Text, ForeignKey("memory_records.id"), nullable=False),
    Column("proposal_id", Text),
    _required("supports", Boolean),
    _required("weight", Double),
    _required("salience", Double),
    _required("scope"),  # of the request it comes from, canonical
    Column("note", Text),
    _required("created_at", UtcTime),
    Index(None, "workspace_id", "record_id"),
)

retrievals = Table(
    "retrievals",
    metadata,
    _number(),
    *_hop(),
    Column("sampled", Boolean),
    _required("id"),
    _required("arm"),
    _required("attempt", Integer),
    _required("query"),
    _required("filters", VerbatimJson),
    _required("k", Integer),
    _required("policy"),
    _required("candidates"),
    _required("total", Integer),
    _required("shown", Integer),
    _required("pending_index", Integer),
    _required("stale_dropped", Integer),
    _required("degraded", VerbatimJson),
    _required("text"),
    _required("created_at", UtcTime),
    UniqueConstraint("workspace_id", "id"),
    _of_task(),
    Index(None, "created_at"),
)

injections = Table(
    "injections",
    metadata,
    _number(),
    *_hop(),
    _required("retrieval_id"),
    _required("record_id"),
    _required("rank", Integer),
    _required("score", Double),
    _required("arm"),
    _required("attempt", Integer),
    _required("created_at", UtcTime),
    Column("followed_llm", Boolean),  # whether the action followed the record, as the judge says
    Column("followed_cosine", Double),
    Column("follow_reasoning", Text),
    Column("follow_error", Text),
    Column("judge_version", Text),
    Column("scored_at", UtcTime),
    ForeignKeyConstraint(
        ["workspace_id", "retrieval_id"],
        ["retrievals.workspace_id", "retrievals.id"],
        ondelete="CASCADE",
    ),
    Index(None, "workspace_id", "retrieval_id"),
    Index(None, "workspace_id", "record_id"),
    Index(None, "workspace_id", "task_id", "arm", "attempt"),
)

NOT_JUDGED = -1
"""Stands in ``credits.judged``, a part of the key, where the judge gave no answer (else 0 or 1)."""

NO_COSINE = -21
"""Stands in ``credits.cosine`` (else whole twentieths) where the judge answered or there is no
cosine."""

credits = Table(
    "credits",
    metadata,
    Column("workspace_id", Text, primary_key=True),
    Column("record_id", Text, primary_key=True),
    Column("judged", Integer, primary_key=True, autoincrement=False),
    Column("cosine", Integer, primary_key=True, autoincrement=False),
    _required("attempts", Integer),
    _required("successes", Integer),
    _required("value", BigInteger),  # sum of value times confidence, in billionths
    sqlite_with_rowid=False,  # the key is all that it is ever read by
)

decisions = Table(
    "decisions",
    metadata,
    _number(),
    *_hop(),
    Column("sampled", Boolean),
    _required("id"),
    Column("retrieval_id", Text),  # no foreign key: pruning may take the retrieval first
    _required("arm"),
    _required("attempt", Integer),
    _required("question"),
    _required("status"),
    Column("answer", VerbatimJson),
    Column("reasoning", Text),
    Column("considered", Text),
    _required("cited_record_ids", VerbatimJson),
    _required("flags", VerbatimJson),
    Column("chosen_support", VerbatimJson),
    _required("memory_total", Integer),
    _required("memory_shown", Integer),
    Column("order_preserved", Boolean),
    _required("sent", VerbatimJson),
    Column("raw", VerbatimJson),
    _required("replies", VerbatimJson),
    _required("answer_schema", VerbatimJson),
    Column("model", Text),
    Column("usage", VerbatimJson),
    Column("detail", Text),
    _required("created_at", UtcTime),
    Column("overrides", VerbatimJson),
    Column("options", VerbatimJson),
    UniqueConstraint("workspace_id", "id"),
    _of_task(),
    Index(None, "created_at"),
)

attempts = Table(
    "attempts",
    metadata,
    _number(),
    *_hop(),
    _required("id"),
    _required("arm"),
    _required("attempt", Integer),
    _required("succeeded", Boolean),
    _required("value", Double),
    _required("confidence", Double),
    Column("failure_mode", Text),
    Column("action", Text),
    _required("created_at", UtcTime),
    UniqueConstraint("workspace_id", "task_id", "arm", "attempt"),
    _of_task(),
)

counterfactuals = Table(
    "counterfactuals",
    metadata,
    _number(),
    Column("workspace_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    _required("id"),
    _required("decision_id"),  # no foreign key: pruning may take the decision first
    _required("record_id"),
    _required("verdict"),
    _required("flip", Boolean),
    Column("p_value", Double),
    Column("detectable", Double),
    _required("deterministic", Boolean),
    _required("with_record", VerbatimJson),
    _required("without_record", VerbatimJson),
    _required("cited", Boolean),
    Column("model", Text),
    _required("created_at", UtcTime),
    UniqueConstraint("workspace_id", "id"),
    _of_task(),
    Index(None, "created_at"),
)

judgements = Table(
    "judgements",
    metadata,
    _number(),
    Column("workspace_id", Text, nullable=False),
    Column("task_id", Text, nullable=False),
    _required("by"),
    _required("stage"),
    Column("cause", Text),
    Column("should_use", Boolean),
    Column("record_id", Text),
    Column("rank", Integer),
    _required("evidence", VerbatimJson),
    Column("need", VerbatimJson),
    Column("note", Text),
    _required("created_at", UtcTime),
    UniqueConstraint("workspace_id", "task_id", "by"),
)

HOPS = (sessions, turns, proposals, retrievals, decisions, attempts)
"""Tables in which a task leaves rows."""
