"""What the commands that change a store say before they do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from memplugin.cli.views.parts import line
from memplugin.records import MemoryRecord


def pruned_view(found: Mapping[str, int], before: datetime, workspace: str | None) -> str:
    """How many rows of what would go."""
    rows = ", ".join(f"{n} {table}" for table, n in found.items())
    where = f"workspace {workspace}" if workspace else "all workspaces"
    return f"Older than {before:%Y-%m-%d %H:%M} UTC in {where}: {rows}. Records stay."


def forgotten_view(record: MemoryRecord) -> str:
    """The record that would go."""
    return (
        f"{record.id} ({record.kind}, {record.status}, session {record.source_session}): "
        f"{line(record.content)}"
    )
