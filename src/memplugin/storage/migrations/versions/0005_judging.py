"""What leaving a record out does to an answer, and what is said of a task, by whom."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_BIG = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Adds two tables, empty."""
    op.create_table(
        "counterfactuals",
        sa.Column("number", _BIG, primary_key=True, autoincrement=True),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("decision_id", sa.Text(), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("verdict", sa.Text(), nullable=False),
        sa.Column("flip", sa.Boolean(), nullable=False),
        sa.Column("p_value", sa.Double[float]()),
        sa.Column("detectable", sa.Double[float]()),
        sa.Column("deterministic", sa.Boolean(), nullable=False),
        sa.Column("with_record", sa.Text(), nullable=False),
        sa.Column("without_record", sa.Text(), nullable=False),
        sa.Column("cited", sa.Boolean(), nullable=False),
        sa.Column("model", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_counterfactuals")),
        sa.UniqueConstraint("workspace_id", "id", name=op.f("uq_counterfactuals_workspace_id_id")),
    )
    op.create_index(
        op.f("ix_counterfactuals_task_id_workspace_id"),
        "counterfactuals",
        ["task_id", "workspace_id"],
    )
    op.create_index(op.f("ix_counterfactuals_created_at"), "counterfactuals", ["created_at"])
    op.create_table(
        "judgements",
        sa.Column("number", _BIG, primary_key=True, autoincrement=True),
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text()),
        sa.Column("should_use", sa.Boolean()),
        sa.Column("record_id", sa.Text()),
        sa.Column("rank", sa.Integer()),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("need", sa.Text()),
        sa.Column("note", sa.Text()),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_judgements")),
        sa.UniqueConstraint(
            "workspace_id", "task_id", "by", name=op.f("uq_judgements_workspace_id_task_id_by")
        ),
    )
