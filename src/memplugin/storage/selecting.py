"""Which records count for a request, as conditions on ``memory_records``."""

from __future__ import annotations

from sqlalchemy import ColumnElement

from memplugin.ports import Selection
from memplugin.storage.tables import memory_records


def selected(selection: Selection) -> tuple[ColumnElement[bool], ...]:
    """Conditions for a selection; one that allows no scope or no kind selects nothing."""
    record = memory_records.c
    conditions = [
        record.workspace_id == selection.workspace_id,
        record.status == "active",
        record.scope.in_(sorted(selection.scope_keys)),
    ]
    if selection.kinds is not None:
        conditions.append(record.kind.in_(sorted(selection.kinds)))
    return tuple(conditions)
