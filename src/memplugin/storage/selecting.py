"""Which records count for a request, as conditions on ``memory_records``.

The conditions are made once and the values given with each execution: making them anew
takes as long as the query.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, bindparam

from memplugin.ports import Selection
from memplugin.storage.tables import memory_records

_RECORD = memory_records.c
_ACTIVE_IN_SCOPE = (
    _RECORD.workspace_id == bindparam("workspace"),
    _RECORD.status == "active",
    _RECORD.scope.in_(bindparam("scopes", expanding=True)),
)
_OF_KINDS = _RECORD.kind.in_(bindparam("kinds", expanding=True))


def selected(selection: Selection) -> tuple[ColumnElement[bool], ...]:
    """Conditions for a selection; one that allows no scope or no kind selects nothing."""
    return _ACTIVE_IN_SCOPE if selection.kinds is None else (*_ACTIVE_IN_SCOPE, _OF_KINDS)


def values_of(selection: Selection) -> dict[str, Any]:
    """What the conditions compare with."""
    values: dict[str, Any] = {
        "workspace": selection.workspace_id,
        "scopes": sorted(selection.scope_keys),
    }
    return values if selection.kinds is None else {**values, "kinds": sorted(selection.kinds)}
