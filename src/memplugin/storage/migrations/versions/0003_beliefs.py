"""Confidence follows from evidence: each piece has an id and a scope, each record its seed.

Until now evidence was kept and moved nothing, so a record's confidence is its seed; from
here on it is what the seed and its evidence come to.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# Constants of their own: what this revision made must not change with the code.
_NUMBER: Any = sa.Double()  # pyright: ignore[reportUnknownVariableType] -- generic in SQLAlchemy alone
_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_ACTIVE_CLAIM = sa.text("(status = 'active' AND claim_fields IS NOT NULL)")

# Evidence of the first revision was always in favour, and given where the record applies.
_REWRITTEN = """
INSERT INTO evidence (
    workspace_id, task_id, session_id, trace_id, span_id, id, record_id, proposal_id,
    supports, weight, salience, scope, note, created_at
)
SELECT
    held.workspace_id, held.task_id, held.session_id, held.trace_id, held.span_id,
    'e_' || held.number, held.record_id, held.proposal_id,
    held.supports, held.weight, held.salience, record.scope, held.note, held.created_at
FROM evidence_0001 AS held JOIN memory_records AS record ON record.id = held.record_id
ORDER BY held.number
"""
# A seed of confidence c and strength 4 starts at alpha = 4c, beta = 4(1 - c); evidence in
# favour adds weight times salience to alpha.
_FOLLOWED = """
UPDATE memory_records SET confidence = (
    SELECT (memory_records.seed_confidence * 4.0 + SUM(weight * salience))
        / (4.0 + SUM(weight * salience))
    FROM evidence
    WHERE evidence.workspace_id = memory_records.workspace_id
    AND evidence.record_id = memory_records.id
)
WHERE NOT pinned AND id IN (SELECT record_id FROM evidence)
"""


def upgrade() -> None:
    """Renames the seed's columns, rewrites the evidence, and lets confidence follow it."""
    op.alter_column("memory_records", "alpha", new_column_name="seed_confidence")
    op.alter_column("memory_records", "beta", new_column_name="seed_strength")
    op.execute("UPDATE memory_records SET seed_confidence = confidence, seed_strength = 4.0")
    # Made anew rather than altered: SQLite can't add a column that must be unique.
    op.execute("CREATE TEMPORARY TABLE evidence_0001 AS SELECT * FROM evidence")
    op.drop_table("evidence")
    _evidence()
    op.execute(_REWRITTEN)
    op.execute("DROP TABLE evidence_0001")
    op.execute(_FOLLOWED)
    op.create_index(
        "ix_memory_records_claims",
        "memory_records",
        ["workspace_id", "scope", "claim_fields"],
        sqlite_where=_ACTIVE_CLAIM,
        postgresql_where=_ACTIVE_CLAIM,
    )


def _evidence() -> None:
    op.create_table(
        "evidence",
        sa.Column("number", _BIG, primary_key=True, autoincrement=True),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("trace_id", sa.Text()),
        sa.Column("span_id", sa.Text()),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("proposal_id", sa.Text()),
        sa.Column("supports", sa.Boolean(), nullable=False),
        sa.Column("weight", _NUMBER, nullable=False),
        sa.Column("salience", _NUMBER, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("note", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["record_id"], ["memory_records.id"], name=op.f("fk_evidence_record_id")
        ),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_evidence")),
        sa.UniqueConstraint("id", name=op.f("uq_evidence_id")),
    )
    op.create_index(
        op.f("ix_evidence_workspace_id_record_id"), "evidence", ["workspace_id", "record_id"]
    )
