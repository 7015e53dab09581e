"""Retiring what credit says should go, and taking it back."""

from __future__ import annotations

from dataclasses import replace

from memplugin.config import MemoryContext
from memplugin.errors import StoreError
from memplugin.learning.evict import evictions
from memplugin.memory.believing import found
from memplugin.memory.indexing import try_drain
from memplugin.memory.store import Store
from memplugin.records import Eviction, MemoryRecord, Status
from memplugin.telemetry import names
from memplugin.telemetry.spans import Hop


def evict(store: Store, workspace_id: str, *, dry_run: bool) -> list[Eviction]:
    """Retires the records of a workspace that credit says should go."""
    sums = store.ledger.credit_totals(workspace_id, store.config.learn.weights)
    records = store.ledger.records(workspace_id, sums)
    due = evictions(records.values(), sums, store.config)
    if dry_run:
        return due
    for eviction in due:
        record = records[eviction.record_id]
        # Under the task that wrote it: its trace shows what became of the record.
        context = MemoryContext(workspace_id, record.source_session, record.task_id)
        with store.tracing.hop(names.DELETE, context) as hop:
            _set_status(store, record, "evicted", hop)
    return [replace(eviction, done=True) for eviction in due]


def restore(store: Store, record_id: str, context: MemoryContext) -> MemoryRecord:
    """Takes an eviction back.

    Raises:
        RecordNotFound: no such record in this workspace.
        StoreError: it is retired for another reason, or not at all.
    """
    record = found(store, context.workspace_id, record_id)
    if record.status != "evicted":
        raise StoreError(
            f"{record_id} is {record.status}: only a record that is evicted can be taken back."
        )
    with store.tracing.hop(names.UPSERT, context) as hop:
        restored = _set_status(store, record, "active", hop)
    if restored.indexed_at is None:
        try_drain(store)
    return restored


def _set_status(store: Store, record: MemoryRecord, status: Status, hop: Hop) -> MemoryRecord:
    now = store.clock.now()
    hop.set(
        {
            names.AT: now.isoformat(),
            names.RECORD_ID: record.id,
            names.RECORD_COUNT: 1,
            names.RECORD_STATUS: status,
        }
    )
    return store.ledger.set_status(record.workspace_id, record.id, status, now)
