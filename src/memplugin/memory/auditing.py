"""What the audit is made from, read from ledger and index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from memplugin.diagnosis.audit import (
    Audit,
    contradictions,
    duplicates,
    misleading,
    never_shown,
)
from memplugin.memory.store import Store, log
from memplugin.records import MemoryRecord

MOST_FAR_APART = 1_000
"""Rows on which judge and cosine disagree: enough to see what goes wrong."""

_CHUNK = 512
_NEIGHBOURS = 8


def audit(store: Store, workspace_id: str) -> Audit:
    """Looks through a workspace."""
    ledger, config = store.ledger, store.config.learn
    active = [entry.record_id for entry in ledger.directory(workspace_id, 0) if entry.active]
    records = list(ledger.records(workspace_id, active).values())
    near, notes = _near(store, workspace_id, records)
    return Audit(
        workspace_id=workspace_id,
        records=len(records),
        misleading=misleading(records, ledger.credit_totals(workspace_id, config.weights), config),
        far_apart=tuple(ledger.disagreements(workspace_id, config.far_apart, MOST_FAR_APART)),
        never_shown=never_shown(records, ledger.ever_shown(workspace_id)),
        duplicates=duplicates(records, near),
        contradictions=contradictions(records),
        notes=notes,
    )


def _near(
    store: Store, workspace_id: str, records: Sequence[MemoryRecord]
) -> tuple[list[tuple[str, str, float]], tuple[str, ...]]:
    try:
        return list(_pairs(store, workspace_id, [record.id for record in records])), ()
    except Exception as error:  # noqa: BLE001 -- an index that is down is one section less
        log.warning("the audit did not look for duplicates: %s", error)
        return [], (f"duplicates were not looked for: {type(error).__name__}",)


def _pairs(
    store: Store, workspace_id: str, record_ids: Sequence[str]
) -> Iterator[tuple[str, str, float]]:
    for start in range(0, len(record_ids), _CHUNK):
        held = store.index.fetch(workspace_id, record_ids[start : start + _CHUNK])
        matrix = np.asarray(list(held.values()), np.float32)
        similar = store.search.similar(
            workspace_id, matrix, _NEIGHBOURS, store.config.near_duplicate
        )
        for record_id, hits in zip(held, similar, strict=True):
            yield from ((record_id, other, cosine) for other, cosine in hits)
