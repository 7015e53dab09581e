"""The deterministic look-up: which value memory has for a field, without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memplugin.claims import precedence
from memplugin.records import MemoryRecord, Resolved
from memplugin.retrieval.scope import applies


def resolved(
    records: Iterable[MemoryRecord], field: str, request: Mapping[str, str]
) -> Resolved | None:
    """The value of the record that counts most among those that apply and claim the field.

    The narrowest scope wins, then pinned, then confidence, then the newest. An exception
    without a claim says what does not hold and not what does: it takes part in nothing.

    Args:
        records: In any order; retired ones and those of other scopes count for nothing.
        field: Of a claim.
        request: The request's scope.
    """
    claiming = [
        record
        for record in records
        if record.status == "active"
        and field in (record.claim or {})
        and applies(record.scope, request)
    ]
    if not claiming:
        return None
    first = max(claiming, key=precedence)
    return Resolved(
        field=field,
        value=(first.claim or {})[field],
        record_id=first.id,
        scope=first.scope,
        confidence=first.confidence,
        pinned=first.pinned,
    )
