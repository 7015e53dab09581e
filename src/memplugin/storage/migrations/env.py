"""Run by Alembic, on the connection that ``migrations.upgrade`` hands over."""

from __future__ import annotations

from typing import Any

from alembic import context

from memplugin.storage.migrations import VERSION_TABLE
from memplugin.storage.sql.tables import metadata


def _ours(name: str | None, kind: str, _parents: Any) -> bool:
    # The full-text index is spelled in SQL; other tables belong to somebody else.
    return kind != "table" or name in metadata.tables


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    include_name=_ours,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
