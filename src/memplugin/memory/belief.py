"""Observations of records, pins, and the value that memory has for a field."""

from __future__ import annotations

from datetime import timedelta

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.memory.backend import Backend
from memplugin.memory.write import (
    Source,
    embed_proposals,
    gate_with_settings,
    index_batch,
    make_batch,
)
from memplugin.records import Evidence, MemoryRecord, Observation, Resolved, Selection
from memplugin.retrieval.scope import applicable_keys, resolved
from memplugin.telemetry import names
from memplugin.telemetry.attributes import believed, written
from memplugin.text import clean
from memplugin.write.confidence import rank_observations, weigher
from memplugin.write.proposal import evidence_from


def observe(
    backend: Backend, context: MemoryContext, record_id: str, observation: Observation
) -> MemoryRecord:
    """Adds an observation to a record, and makes or strengthens the narrower belief.

    Args:
        backend: Where the record is.
        context: Of the request in which it was observed.
        record_id: What was observed.
        observation: How it turned out.

    Returns:
        The observed record, as it stands now.

    Raises:
        RecordNotFound: no such record in this workspace.
        ConfigError: an argument can't be used, or the record is about another request.
        StoreError: the record is not active, or nothing was stored.
    """
    with backend.tracing.hop(names.UPSERT, context) as hop:
        backend.begin(context, hop)
        record = backend.get_record(context.workspace_id, record_id)
        seen, narrower = evidence_from(
            observation, record, context=context, config=backend.config, now=backend.clock.now()
        )
        proposals = [narrower] if narrower else []
        vectors = embed_proposals(backend, proposals)
        batch = make_batch(backend, context, proposals, vectors, Source(), hop)
        observed = backend.ledger.writes.observe(
            seen, batch, gate_with_settings(backend), weigher(backend.config)
        )
        backend.metrics.written(proposals, observed.receipts)
        receipts, indexed_at = index_batch(backend, observed.receipts, observed.records, vectors)
        content = backend.tracing.content
        hop.set(
            lambda: {
                **written(proposals, receipts, content, at=batch.now, indexed_at=indexed_at),
                **believed(observed.record, seen),
            }
        )
    return observed.record


def set_pinned(
    backend: Backend, context: MemoryContext, record_id: str, *, pinned: bool
) -> MemoryRecord:
    """Pins a record or lets it go.

    Args:
        backend: The store.
        context: Whose request it is.
        record_id: The record.
        pinned: Whether evidence stops moving its confidence.

    Returns:
        The record, as it stands now.

    Raises:
        RecordNotFound: no such record in this workspace.
        StoreError: the record is not active.
    """
    with backend.tracing.hop(names.UPSERT, context) as hop:
        backend.begin(context, hop)
        now = backend.clock.now()
        record = backend.ledger.evidence.set_pinned(
            context.workspace_id, record_id, pinned=pinned, weigh=weigher(backend.config)
        )
        hop.set(lambda: {**written([], [], backend.tracing.content, at=now), **believed(record)})
    return record


def observations(backend: Backend, context: MemoryContext, record_id: str) -> list[Evidence]:
    """What was observed of a record, that which counts most today first.

    Args:
        backend: The store.
        context: Its workspace counts.
        record_id: The record.

    Returns:
        By salience, weight and recency.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    backend.get_record(context.workspace_id, record_id)
    ranked = rank_observations(
        backend.ledger.evidence.of_record(context.workspace_id, record_id),
        now=backend.clock.now(),
        half_life=timedelta(days=backend.config.observation_half_life_days),
    )
    return [piece for piece, _ in ranked]


def resolve(backend: Backend, context: MemoryContext, field: str) -> Resolved | None:
    """The value that memory has for a field here; None when nothing that applies claims it.

    Args:
        backend: The store.
        context: Whose request it is; its scope decides what applies.
        field: Of a claim.

    Returns:
        The value with the record that claims it; None when nothing that applies claims the field.

    Raises:
        ConfigError: the field is no name.
    """
    if not isinstance(field, str) or not clean(field).strip():  # pyright: ignore[reportUnnecessaryIsInstance] -- callers may be untyped
        raise ConfigError(f"field is {field!r}: give the name of a claim's field.")
    name, request = clean(field), context.request_scope
    selection = Selection(context.workspace_id, applicable_keys(request))
    return resolved(backend.ledger.search.claims(selection, [name]), name, request)
