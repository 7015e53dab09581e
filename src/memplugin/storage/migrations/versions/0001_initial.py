"""The first revision: every table of the ledger, and the full-text index beside them."""

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
_ACTIVE_CLAIM = sa.text("(status = 'active' AND claim_fields IS NOT NULL)")
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
    _credits()
    _decisions()
    _attempts()
    _counterfactuals()
    _judgements()
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


def _by_number(table: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint("number", name=op.f(f"pk_{table}"))


def _unique(table: str, *columns: str) -> sa.UniqueConstraint:
    return sa.UniqueConstraint(*columns, name=op.f("_".join(["uq", table, *columns])))


def _index(table: str, *columns: str) -> None:
    op.create_index(op.f("_".join(["ix", table, *columns])), table, list(columns))


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
        _by_number("sessions"),
        _unique("sessions", "workspace_id", "task_id", "session_id"),
    )
    _index("sessions", "task_id", "workspace_id")


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
        _by_number("turns"),
        _unique("turns", "workspace_id", "id"),
    )
    _index("turns", "said_at")
    _index("turns", "task_id", "workspace_id")


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
        _by_number("proposals"),
        _unique("proposals", "id"),
    )
    _index("proposals", "task_id", "workspace_id")
    _index("proposals", "workspace_id", "record_id")
    _index("proposals", "workspace_id", "turn_id")
    _index("proposals", "workspace_id", "proposed_as")


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
        _value("seed_confidence", sa.Double()),
        _value("seed_strength", sa.Double()),
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
        _by_number("memory_records"),
        _unique("memory_records", "id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_memory_records_outbox",
        "memory_records",
        ["workspace_id", "status", "indexed_at", "number"],
        sqlite_where=_IN_OUTBOX,
        postgresql_where=_IN_OUTBOX,
    )
    _index("memory_records", "workspace_id", "claim_fields")
    _index("memory_records", "workspace_id", "content_hash")
    _index("memory_records", "workspace_id", "seq")
    _index("memory_records", "workspace_id", "status", "kind", "scope")
    op.create_index(
        "ix_memory_records_claims",
        "memory_records",
        ["workspace_id", "scope", "claim_fields"],
        sqlite_where=_ACTIVE_CLAIM,
        postgresql_where=_ACTIVE_CLAIM,
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
        _by_number("tombstones"),
    )
    _index("tombstones", "workspace_id", "content_hash")
    _index("tombstones", "workspace_id", "turn_id")


def _evidence() -> None:
    op.create_table(
        "evidence",
        _number(),
        *_hop(),
        _text("id"),
        _text("record_id"),
        _optional("proposal_id"),
        _value("supports", sa.Boolean()),
        _value("weight", sa.Double()),
        _value("salience", sa.Double()),
        _text("scope"),
        _optional("note"),
        _value("created_at", _TIME),
        sa.ForeignKeyConstraint(
            ["record_id"], ["memory_records.id"], name=op.f("fk_evidence_record_id")
        ),
        _by_number("evidence"),
        _unique("evidence", "id"),
    )
    _index("evidence", "workspace_id", "record_id")


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
        _by_number("retrievals"),
        _unique("retrievals", "workspace_id", "id"),
    )
    _index("retrievals", "created_at")
    _index("retrievals", "task_id", "workspace_id")


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
        _maybe("followed_llm", sa.Boolean()),
        _maybe("followed_cosine", sa.Double()),
        _optional("follow_reasoning"),
        _optional("follow_error"),
        _optional("judge_version"),
        _maybe("scored_at", _TIME),
        sa.ForeignKeyConstraint(
            ["workspace_id", "retrieval_id"],
            ["retrievals.workspace_id", "retrievals.id"],
            name=op.f("fk_injections_workspace_id_retrieval_id"),
            ondelete="CASCADE",
        ),
        _by_number("injections"),
    )
    _index("injections", "workspace_id", "record_id")
    _index("injections", "workspace_id", "retrieval_id")
    _index("injections", "workspace_id", "task_id", "arm", "attempt")


def _credits() -> None:
    op.create_table(
        "credits",
        _text("workspace_id"),
        _text("record_id"),
        sa.Column("judged", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cosine", sa.Integer(), autoincrement=False, nullable=False),
        _value("attempts", sa.Integer()),
        _value("successes", sa.Integer()),
        _value("value", sa.BigInteger()),
        sa.PrimaryKeyConstraint(
            "workspace_id", "record_id", "judged", "cosine", name=op.f("pk_credits")
        ),
        sqlite_with_rowid=False,
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
        _optional("overrides"),
        _optional("options"),
        _by_number("decisions"),
        _unique("decisions", "workspace_id", "id"),
    )
    _index("decisions", "created_at")
    _index("decisions", "task_id", "workspace_id")


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
        _by_number("attempts"),
        _unique("attempts", "workspace_id", "task_id", "arm", "attempt"),
    )
    _index("attempts", "task_id", "workspace_id")


def _counterfactuals() -> None:
    op.create_table(
        "counterfactuals",
        _number(),
        _text("workspace_id"),
        _text("task_id"),
        _text("session_id"),
        _text("id"),
        _text("decision_id"),
        _text("record_id"),
        _text("verdict"),
        _value("flip", sa.Boolean()),
        _maybe("p_value", sa.Double()),
        _maybe("detectable", sa.Double()),
        _value("deterministic", sa.Boolean()),
        _text("with_record"),
        _text("without_record"),
        _value("cited", sa.Boolean()),
        _optional("model"),
        _value("created_at", _TIME),
        _by_number("counterfactuals"),
        _unique("counterfactuals", "workspace_id", "id"),
    )
    _index("counterfactuals", "task_id", "workspace_id")
    _index("counterfactuals", "created_at")


def _judgements() -> None:
    op.create_table(
        "judgements",
        _number(),
        _text("workspace_id"),
        _text("task_id"),
        _text("by"),
        _text("stage"),
        _optional("cause"),
        _maybe("should_use", sa.Boolean()),
        _optional("record_id"),
        _maybe("rank", sa.Integer()),
        _text("evidence"),
        _optional("need"),
        _optional("note"),
        _value("created_at", _TIME),
        _by_number("judgements"),
        _unique("judgements", "workspace_id", "task_id", "by"),
    )
