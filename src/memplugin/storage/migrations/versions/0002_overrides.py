"""What of a decision went against memory, and the options it was asked with."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Adds the columns; of older decisions neither is known."""
    op.add_column("decisions", sa.Column("overrides", sa.Text()))
    op.add_column("decisions", sa.Column("options", sa.Text()))
