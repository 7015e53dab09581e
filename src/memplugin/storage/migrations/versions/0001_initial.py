"""The first release's tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_TIME = sa.DateTime(timezone=True)
# Constants of their own: what this revision made must not change with the code.
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_IN_OUTBOX = sa.text(
    "((status = 'active' AND indexed_at IS NULL)"
    " OR (status = 'forgotten' AND indexed_at IS NOT NULL))"
)
_FTS5 = """
CREATE VIRTUAL TABLE lexical USING fts5(
    workspace, content, around, tokenize = 'porter unicode61 remove_diacritics 2'
)
"""
_TSVECTOR = """
CREATE TABLE lexical (
    number BIGINT PRIMARY KEY REFERENCES memory_records (number) ON DELETE CASCADE,
    vector tsvector NOT NULL
)
"""


def upgrade() -> None:
    """Makes every table; there is no way back from the first."""
    _store()
    _workspaces()
    _sessions()
    _turns()
    _proposals()
    _memory_records()
    _tombstones()
    _evidence()
    _retrievals()
    _injections()
    _decisions()
    _attempts()
    _full_text()


def _full_text() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute(_FTS5)
        return
    op.execute(_TSVECTOR)
    # Without the list of pending entries, which every search would have to read through.
    op.execute(
        "CREATE INDEX ix_lexical_vector ON lexical USING gin (vector) WITH (fastupdate = off)"
    )


def _number() -> sa.Column[Any]:
    return sa.Column("number", _BIG, primary_key=True, autoincrement=True)


def _text(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=False)


def _optional(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=True)


def _value(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def _maybe(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def _hop() -> list[sa.Column[Any]]:
    return [
        _text("workspace_id"),
        _text("task_id"),
        _text("session_id"),
        _optional("trace_id"),
        _optional("span_id"),
    ]


def _store() -> None:
    op.create_table(
        "store", _text("key"), _text("value"), sa.PrimaryKeyConstraint("key", name=op.f("pk_store"))
    )


def _workspaces() -> None:
    op.create_table(
        "workspaces",
        _text("workspace_id"),
        _value("seq", _BIG),
        sa.PrimaryKeyConstraint("workspace_id", name=op.f("pk_workspaces")),
    )


def _sessions() -> None:
    op.create_table(
        "sessions",
        _number(),
        *_hop(),
        _maybe("sampled", sa.Boolean()),
        _value("started_at", _TIME),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_sessions")),
        sa.UniqueConstraint(
            "workspace_id",
            "task_id",
            "session_id",
            name=op.f("uq_sessions_workspace_id_task_id_session_id"),
        ),
    )
    op.create_index(
        op.f("ix_sessions_task_id_workspace_id"), "sessions", ["task_id", "workspace_id"]
    )


def _turns() -> None:
    op.create_table(
        "turns",
        _number(),
        *_hop(),
        _text("id"),
        _text("role"),
        _optional("text"),
        _optional("text_hash"),
        _value("said_at", _TIME),
        _optional("extracted_by"),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_turns")),
        sa.UniqueConstraint("workspace_id", "id", name=op.f("uq_turns_workspace_id_id")),
    )
    op.create_index(op.f("ix_turns_said_at"), "turns", ["said_at"])
    op.create_index(op.f("ix_turns_task_id_workspace_id"), "turns", ["task_id", "workspace_id"])


def _proposals() -> None:
    op.create_table(
        "proposals",
        _number(),
        *_hop(),
        _text("id"),
        _text("proposed_as"),
        _optional("batch"),
        _maybe("place", sa.Integer()),
        _text("operation"),
        _optional("content"),
        _optional("content_hash"),
        _optional("kind"),
        _optional("polarity"),
        _optional("speech_act"),
        _optional("scope"),
        _optional("claim"),
        _maybe("confidence", sa.Double()),
        _maybe("pinned", sa.Boolean()),
        _maybe("occurred_at", _TIME),
        _optional("time_phrase"),
        _optional("quote"),
        _optional("turn_id"),
        _optional("turn_ids"),
        _optional("extractor"),
        _text("ruling"),
        _optional("reason"),
        _optional("record_id"),
        _optional("replaced_id"),
        _value("created_at", _TIME),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_proposals")),
        sa.UniqueConstraint("id", name=op.f("uq_proposals_id")),
    )
    op.create_index(
        op.f("ix_proposals_task_id_workspace_id"), "proposals", ["task_id", "workspace_id"]
    )
    op.create_index(
        op.f("ix_proposals_workspace_id_record_id"), "proposals", ["workspace_id", "record_id"]
    )
    op.create_index(
        op.f("ix_proposals_workspace_id_turn_id"), "proposals", ["workspace_id", "turn_id"]
    )
    op.create_index(
        op.f("ix_proposals_workspace_id_proposed_as"), "proposals", ["workspace_id", "proposed_as"]
    )


def _memory_records() -> None:
    op.create_table(
        "memory_records",
        _number(),
        _text("workspace_id"),
        _optional("task_id"),
        _text("source_session"),
        _optional("trace_id"),
        _optional("span_id"),
        _optional("traceparent"),
        _text("id"),
        _value("seq", _BIG),
        _text("kind"),
        _text("content"),
        _text("content_hash"),
        _text("scope"),
        _value("scope_size", sa.Integer()),
        _optional("claim"),
        _optional("claim_fields"),
        _text("polarity"),
        _text("status"),
        _value("pinned", sa.Boolean()),
        _value("confidence", sa.Double()),
        _value("alpha", sa.Double()),
        _value("beta", sa.Double()),
        _value("evidence_count", sa.Integer()),
        _value("occurred_at", _TIME),
        _value("created_at", _TIME),
        _optional("source"),
        _optional("source_turn"),
        _optional("around"),
        _optional("supersedes"),
        _optional("replaced_by"),
        _maybe("retired_at", _TIME),
        _maybe("indexed_at", _TIME),
        _value("vector_covers_all", sa.Boolean()),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_memory_records")),
        sa.UniqueConstraint("id", name=op.f("uq_memory_records_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_memory_records_outbox",
        "memory_records",
        ["workspace_id", "status", "indexed_at", "number"],
        sqlite_where=_IN_OUTBOX,
        postgresql_where=_IN_OUTBOX,
    )
    op.create_index(
        op.f("ix_memory_records_workspace_id_claim_fields"),
        "memory_records",
        ["workspace_id", "claim_fields"],
    )
    op.create_index(
        op.f("ix_memory_records_workspace_id_content_hash"),
        "memory_records",
        ["workspace_id", "content_hash"],
    )
    op.create_index(
        op.f("ix_memory_records_workspace_id_seq"), "memory_records", ["workspace_id", "seq"]
    )
    op.create_index(
        op.f("ix_memory_records_workspace_id_status_kind_scope"),
        "memory_records",
        ["workspace_id", "status", "kind", "scope"],
    )


def _tombstones() -> None:
    op.create_table(
        "tombstones",
        _number(),
        _text("workspace_id"),
        _text("record_id"),
        _text("content_hash"),
        _text("session_id"),
        _optional("turn_id"),
        _text("reason"),
        _value("forgotten_at", _TIME),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_tombstones")),
    )
    op.create_index(
        op.f("ix_tombstones_workspace_id_content_hash"),
        "tombstones",
        ["workspace_id", "content_hash"],
    )
    op.create_index(
        op.f("ix_tombstones_workspace_id_turn_id"), "tombstones", ["workspace_id", "turn_id"]
    )


def _evidence() -> None:
    op.create_table(
        "evidence",
        _number(),
        *_hop(),
        _text("record_id"),
        _optional("proposal_id"),
        _value("supports", sa.Boolean()),
        _value("weight", sa.Double()),
        _value("salience", sa.Double()),
        _optional("note"),
        _value("created_at", _TIME),
        sa.ForeignKeyConstraint(
            ["record_id"], ["memory_records.id"], name=op.f("fk_evidence_record_id")
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_evidence")),
    )
    op.create_index(
        op.f("ix_evidence_workspace_id_record_id"), "evidence", ["workspace_id", "record_id"]
    )


def _retrievals() -> None:
    op.create_table(
        "retrievals",
        _number(),
        *_hop(),
        _maybe("sampled", sa.Boolean()),
        _text("id"),
        _text("arm"),
        _value("attempt", sa.Integer()),
        _text("query"),
        _text("filters"),
        _value("k", sa.Integer()),
        _text("policy"),
        _text("candidates"),
        _value("total", sa.Integer()),
        _value("shown", sa.Integer()),
        _value("pending_index", sa.Integer()),
        _value("stale_dropped", sa.Integer()),
        _text("degraded"),
        _text("text"),
        _value("created_at", _TIME),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_retrievals")),
        sa.UniqueConstraint("workspace_id", "id", name=op.f("uq_retrievals_workspace_id_id")),
    )
    op.create_index(op.f("ix_retrievals_created_at"), "retrievals", ["created_at"])
    op.create_index(
        op.f("ix_retrievals_task_id_workspace_id"), "retrievals", ["task_id", "workspace_id"]
    )


def _injections() -> None:
    op.create_table(
        "injections",
        _number(),
        *_hop(),
        _text("retrieval_id"),
        _text("record_id"),
        _value("rank", sa.Integer()),
        _value("score", sa.Double()),
        _text("arm"),
        _value("attempt", sa.Integer()),
        _value("created_at", _TIME),
        sa.ForeignKeyConstraint(
            ["workspace_id", "retrieval_id"],
            ["retrievals.workspace_id", "retrievals.id"],
            name=op.f("fk_injections_workspace_id_retrieval_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_injections")),
    )
    op.create_index(
        op.f("ix_injections_workspace_id_record_id"), "injections", ["workspace_id", "record_id"]
    )
    op.create_index(
        op.f("ix_injections_workspace_id_retrieval_id"),
        "injections",
        ["workspace_id", "retrieval_id"],
    )


def _decisions() -> None:
    op.create_table(
        "decisions",
        _number(),
        *_hop(),
        _maybe("sampled", sa.Boolean()),
        _text("id"),
        _optional("retrieval_id"),
        _text("arm"),
        _value("attempt", sa.Integer()),
        _text("question"),
        _text("status"),
        _optional("answer"),
        _optional("reasoning"),
        _optional("considered"),
        _text("cited_record_ids"),
        _text("flags"),
        _optional("chosen_support"),
        _value("memory_total", sa.Integer()),
        _value("memory_shown", sa.Integer()),
        _maybe("order_preserved", sa.Boolean()),
        _text("sent"),
        _optional("raw"),
        _text("replies"),
        _text("answer_schema"),
        _optional("model"),
        _optional("usage"),
        _optional("detail"),
        _value("created_at", _TIME),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_decisions")),
        sa.UniqueConstraint("workspace_id", "id", name=op.f("uq_decisions_workspace_id_id")),
    )
    op.create_index(op.f("ix_decisions_created_at"), "decisions", ["created_at"])
    op.create_index(
        op.f("ix_decisions_task_id_workspace_id"), "decisions", ["task_id", "workspace_id"]
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        _number(),
        *_hop(),
        _text("id"),
        _text("arm"),
        _value("attempt", sa.Integer()),
        _value("succeeded", sa.Boolean()),
        _value("value", sa.Double()),
        _value("confidence", sa.Double()),
        _optional("failure_mode"),
        _optional("action"),
        _value("created_at", _TIME),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_attempts")),
        sa.UniqueConstraint(
            "workspace_id",
            "task_id",
            "arm",
            "attempt",
            name=op.f("uq_attempts_workspace_id_task_id_arm_attempt"),
        ),
    )
    op.create_index(
        op.f("ix_attempts_task_id_workspace_id"), "attempts", ["task_id", "workspace_id"]
    )
