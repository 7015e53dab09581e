"""Which records count for a request, as conditions on ``memory_records``."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from memplugin.ports import Selection
from memplugin.storage.tables import memory_records


def selected(
    selection: Selection, record: ReadOnlyColumnCollection[str, Any] = memory_records.c
) -> tuple[ColumnElement[bool], ...]:
    """Conditions for a selection; one that allows no scope or no kind selects nothing.

    Args:
        selection: What counts.
        record: The columns of ``memory_records``, or of a subquery that has them.
    """
    conditions = [
        record.workspace_id == selection.workspace_id,
        record.status == "active",
        record.scope.in_(sorted(selection.scope_keys)),
    ]
    if selection.kinds is not None:
        conditions.append(record.kind.in_(sorted(selection.kinds)))
    return tuple(conditions)
