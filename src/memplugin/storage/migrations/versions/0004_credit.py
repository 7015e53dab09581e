"""Whether what was shown was followed, and credit, added up for each record.

Attempts of before are credited with what is known of them: neither judge nor cosine.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# -1: no judge has spoken; -21: there is no cosine; values are in billionths.
_CREDITED = """
INSERT INTO credits (workspace_id, record_id, judged, cosine, attempts, successes, value)
SELECT
    shown.workspace_id, shown.record_id, -1, -21, COUNT(*),
    SUM(CASE WHEN tried.succeeded THEN 1 ELSE 0 END),
    SUM(CAST(ROUND(tried.value * tried.confidence * 1000000000) AS BIGINT))
FROM (
    SELECT DISTINCT workspace_id, record_id, task_id, arm, attempt FROM injections
) AS shown
JOIN attempts AS tried
    ON tried.workspace_id = shown.workspace_id AND tried.task_id = shown.task_id
    AND tried.arm = shown.arm AND tried.attempt = shown.attempt
GROUP BY shown.workspace_id, shown.record_id
"""


def upgrade() -> None:
    """Adds the scores' columns, all NULL, and makes the table of sums from what is there."""
    op.add_column("injections", sa.Column("followed_llm", sa.Boolean()))
    op.add_column("injections", sa.Column("followed_cosine", sa.Double()))
    op.add_column("injections", sa.Column("follow_reasoning", sa.Text()))
    op.add_column("injections", sa.Column("follow_error", sa.Text()))
    op.add_column("injections", sa.Column("judge_version", sa.Text()))
    op.add_column("injections", sa.Column("scored_at", sa.DateTime(timezone=True)))
    op.create_index(
        op.f("ix_injections_workspace_id_task_id_arm_attempt"),
        "injections",
        ["workspace_id", "task_id", "arm", "attempt"],
    )
    op.create_table(
        "credits",
        sa.Column("workspace_id", sa.Text(), nullable=False),
        sa.Column("record_id", sa.Text(), nullable=False),
        sa.Column("judged", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("cosine", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("successes", sa.Integer(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint(
            "workspace_id", "record_id", "judged", "cosine", name=op.f("pk_credits")
        ),
        sqlite_with_rowid=False,
    )
    op.execute(_CREDITED)
