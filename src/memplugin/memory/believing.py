"""What memory believes: observations, pins, and the value it gives for a field."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError, RecordNotFound
from memplugin.memory.store import Store
from memplugin.memory.writing import Said, batch_of, embedded, gate_of, indexed
from memplugin.ports import Selection
from memplugin.records import Evidence, MemoryRecord, Resolved
from memplugin.retrieval.resolve import resolved
from memplugin.retrieval.scope import applicable_keys
from memplugin.telemetry import names
from memplugin.telemetry.report import believed, written
from memplugin.text import clean
from memplugin.write.beliefs import rank_observations, weigher
from memplugin.write.observing import observation


def observe(
    store: Store, context: MemoryContext, record_id: str, arguments: Mapping[str, Any]
) -> MemoryRecord:
    """Adds an observation to a record, and makes or strengthens the narrower belief.

    Args:
        store: Where the record is.
        context: Of the request in which it was observed.
        record_id: What was observed.
        arguments: As of ``write.observing.observation``.

    Raises:
        RecordNotFound: no such record in this workspace.
        ConfigError: an argument can't be used, or the record is about another request.
        StoreError: the record is not active, or nothing was stored.
    """
    with store.tracing.hop(names.UPSERT, context) as hop:
        store.begin(context, hop)
        record = found(store, context.workspace_id, record_id)
        seen, narrower = observation(
            record, context=context, config=store.config, now=store.clock.now(), **arguments
        )
        proposals = [narrower] if narrower else []
        vectors = embedded(store, proposals)
        batch = batch_of(store, context, proposals, vectors, Said(), hop)
        observed = store.ledger.observe(seen, batch, gate_of(store), weigher(store.config))
        store.metrics.written(proposals, observed.receipts)
        receipts, indexed_at = indexed(store, context.workspace_id, observed.receipts, vectors)
        content = store.tracing.content
        hop.set(
            lambda: {
                **written(proposals, receipts, content, at=batch.now, indexed_at=indexed_at),
                **believed(observed.record, seen),
            }
        )
    return observed.record


def set_pinned(
    store: Store, context: MemoryContext, record_id: str, *, pinned: bool
) -> MemoryRecord:
    """Pins a record or lets it go.

    Raises:
        RecordNotFound: no such record in this workspace.
        StoreError: the record is not active.
    """
    with store.tracing.hop(names.UPSERT, context) as hop:
        store.begin(context, hop)
        now = store.clock.now()
        record = store.ledger.set_pinned(
            context.workspace_id, record_id, pinned=pinned, weigh=weigher(store.config)
        )
        hop.set(lambda: {**written([], [], store.tracing.content, at=now), **believed(record)})
    return record


def observations(store: Store, context: MemoryContext, record_id: str) -> list[Evidence]:
    """What was observed of a record, that which counts most today first.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    found(store, context.workspace_id, record_id)
    ranked = rank_observations(
        store.ledger.evidence(context.workspace_id, record_id),
        now=store.clock.now(),
        half_life=timedelta(days=store.config.observation_half_life_days),
    )
    return [piece for piece, _ in ranked]


def resolve(store: Store, context: MemoryContext, field: str) -> Resolved | None:
    """The value that memory has for a field here; None when nothing that applies claims it.

    Raises:
        ConfigError: the field is no name.
    """
    if not isinstance(field, str) or not clean(field).strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- callers may be untyped
        raise ConfigError(f"field is {field!r}: give the name of a claim's field.")
    name, request = clean(field), context.request_scope
    selection = Selection(context.workspace_id, applicable_keys(request))
    return resolved(store.ledger.claims(selection, [name]), name, request)


def found(store: Store, workspace_id: str, record_id: str) -> MemoryRecord:
    """A record of any status.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    records = store.ledger.records(workspace_id, [record_id])
    if record_id not in records:
        raise RecordNotFound(
            f"there is no record {record_id!r} in workspace {workspace_id!r}: "
            "check the id and the workspace."
        )
    return records[record_id]
