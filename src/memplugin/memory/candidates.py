"""What the sources bring for a query, checked against the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from memplugin.config import USER_KEY, MemoryContext
from memplugin.learning.utility import credit
from memplugin.memory.backend import Backend, log
from memplugin.records import MemoryRecord, Selection
from memplugin.retrieval.rank import Hit, Policy
from memplugin.retrieval.scope import (
    applicable_keys,
    applies,
    linked,
    linked_keys,
    topic,
    words_beside,
)
from memplugin.storage.vector.scoring import DenseHit, DenseHits

_NOW, _DAY = timedelta(0), timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Request:
    """One question to the store."""

    query: str
    context: MemoryContext
    k: int
    kinds: frozenset[str] | None
    policy: Policy

    @property
    def depth(self) -> int:
        """How many candidates each source brings at least."""
        return max(4 * self.k, 20)

    @property
    def selection(self) -> Selection:
        """Which records count."""
        return Selection(
            self.context.workspace_id, applicable_keys(self.context.request_scope), self.kinds
        )


@dataclass(frozen=True, slots=True)
class Found:
    """Everything the sources brought, checked against the ledger.

    Attributes:
        at: As of when: ages are counted to here.
    """

    hits: Sequence[Hit]
    total: int
    stale: int
    pending: int
    degraded: tuple[str, ...]
    at: datetime


def gather(backend: Backend, asked: Request, *, depth: int, at: datetime | None = None) -> Found:
    """Asks every source of the policy and checks each hit against the ledger.

    Args:
        backend: Where to look.
        asked: The question.
        depth: How many each source brings.
        at: To when ages are counted; None for now.
    """
    vector, degraded = _embedded(backend, asked)
    with backend.ledger.snapshot():
        return _gathered(backend, asked, depth, at, vector, degraded)


def _embedded(
    backend: Backend, asked: Request
) -> tuple[NDArray[np.float32] | None, tuple[str, ...]]:
    if "dense" not in asked.policy.sources or not asked.query.strip():
        return None, ()
    try:
        return backend.embedder.embed([asked.query])[0], ()
    except Exception as error:  # noqa: BLE001 -- a model that is down is one source less
        return None, _without_dense(error)


def _gathered(
    backend: Backend,
    asked: Request,
    depth: int,
    at: datetime | None,
    vector: NDArray[np.float32] | None,
    degraded: tuple[str, ...],
) -> Found:
    sources = asked.policy.sources
    lexical = _lexical(backend, asked.selection, asked.query, depth) if "lexical" in sources else {}
    standing = _standing(backend, asked, depth) if "standing" in sources else []
    structural = _structural(backend, asked, depth) if "structural" in sources else []
    dense: DenseHits | None = None
    if vector is not None:
        also = {*lexical, *standing, *structural}
        dense, degraded = _dense(backend, asked, vector, depth, also)
    brought = _Brought(
        lexical=lexical,
        beside=_beside(backend, asked, depth) if lexical else None,
        standing={record_id: place for place, record_id in enumerate(standing)},
        structural=structural,
        # Beyond the depth stand those that another source brought, for their cosines.
        nearest=(*dense.hits[:depth], *dense.inapplicable) if dense else (),
        others=dense.hits[depth:] if dense else (),
    )
    now = at or backend.clock.now()
    hits, dropped = _checked(backend, asked, brought, now)
    return Found(
        hits=hits,
        total=dense.total if dense else backend.ledger.search.count(asked.selection),
        stale=dropped + (dense.stale if dense else 0),
        pending=backend.ledger.search.pending(asked.context.workspace_id),
        degraded=degraded,
        at=now,
    )


def _lexical(backend: Backend, selection: Selection, query: str, depth: int) -> dict[str, float]:
    return dict(backend.search.full_text(selection, query, depth)) if query.strip() else {}


def _beside(backend: Backend, asked: Request, depth: int) -> dict[str, float] | None:
    """Full-text scores of linked records, without the words that name what links them.

    That a record about 12 Elm St holds the words of a question about 12 Elm St says no more
    than its scope does. None where the query has no such words.
    """
    request, keys = asked.context.request_scope, backend.config.structural_keys
    rest = words_beside(asked.query, [request[key] for key in keys if key in request])
    if rest == asked.query:
        return None
    scopes = linked_keys(request, keys)
    return _lexical(
        backend, Selection(asked.context.workspace_id, scopes, asked.kinds), rest, depth
    )


def _structural(backend: Backend, asked: Request, depth: int) -> list[str]:
    """Records that apply and are linked to what the request is about, the surest first."""
    scopes = linked_keys(asked.context.request_scope, backend.config.structural_keys)
    if not scopes:
        return []
    return backend.ledger.search.standing(
        Selection(asked.context.workspace_id, scopes, asked.kinds), depth
    )


def _standing(backend: Backend, asked: Request, depth: int) -> list[str]:
    kinds = backend.config.standing_kinds & (asked.kinds or backend.config.standing_kinds)
    if not kinds:
        return []
    selection = asked.selection
    return backend.ledger.search.standing(
        Selection(selection.workspace_id, selection.scope_keys, kinds), depth
    )


def _dense(
    backend: Backend,
    asked: Request,
    vector: NDArray[np.float32],
    depth: int,
    also: Collection[str],
) -> tuple[DenseHits | None, tuple[str, ...]]:
    try:
        hits = backend.search.search(
            asked.selection,
            vector,
            depth=depth,
            also=also,
            spare=asked.k,
            user=asked.context.request_scope.get(USER_KEY),
        )
    except Exception as error:  # noqa: BLE001 -- an index that is down is one source less
        return None, _without_dense(error)
    return hits, ()


def _without_dense(error: Exception) -> tuple[str, ...]:
    """Without vectors recall still has full text and what stands; it says so."""
    log.warning("recall without the dense source: %s", error)
    return (f"dense: {type(error).__name__}",)


@dataclass(frozen=True, slots=True)
class _Brought:
    """What each source brought.

    Attributes:
        beside: Full-text scores of linked records, as ``_beside`` gives them.
        standing: Place of each in the order of standing records.
        nearest: What the dense source brought itself.
        others: Cosines of what only other sources brought.
    """

    lexical: Mapping[str, float]
    beside: Mapping[str, float] | None
    standing: Mapping[str, int]
    structural: Sequence[str]
    nearest: Sequence[DenseHit]
    others: Sequence[DenseHit]

    def named(self) -> dict[str, Collection[str]]:
        """The records of each source."""
        return {
            "dense": {hit.record_id for hit in self.nearest},
            "lexical": self.lexical,
            "standing": self.standing,
            "structural": frozenset(self.structural),
        }


def _checked(
    backend: Backend, asked: Request, brought: _Brought, now: datetime
) -> tuple[list[Hit], int]:
    """Hits for what the ledger counts, and how many it does not."""
    near = {hit.record_id: hit for hit in (*brought.nearest, *brought.others)}
    ids = list(dict.fromkeys([*brought.lexical, *brought.standing, *brought.structural, *near]))
    records = backend.ledger.records.get_many(asked.context.workspace_id, ids)
    named, credited = brought.named(), _credit(backend, asked, records)
    request, keys = asked.context.request_scope, backend.config.structural_keys
    no_topic = {*keys, USER_KEY}
    hits = [
        Hit(
            record=record,
            dense=near[i].content if i in near else None,
            around=near[i].around if i in near else None,
            lexical=brought.lexical.get(i, 0.0),
            standing=brought.standing.get(i),
            credit=credited.get(i, 0.0),
            sources=tuple(source for source, found in named.items() if i in found),
            applies=applies(record.scope, request),
            topic=topic(record.scope, request, no_topic),
            linked=linked(record.scope, request, keys),
            age_days=max(now - record.occurred_at, _NOW) / _DAY,
        )
        for i in ids
        if (record := records.get(i)) and _counts(record, asked)
    ]
    if brought.beside is not None:
        scores = brought.beside
        hits = [replace(h, beside=scores.get(h.record.id, 0.0)) if h.linked else h for h in hits]
    return hits, len(ids) - len(hits)


def _credit(backend: Backend, asked: Request, record_ids: Iterable[str]) -> Mapping[str, float]:
    if not asked.policy.credited:
        return {}
    config = backend.config.learn
    sums = backend.ledger.credit.of_records(asked.context.workspace_id, record_ids, config.weights)
    return {record_id: credit(totals, config) for record_id, totals in sums.items()}


def _counts(record: MemoryRecord, asked: Request) -> bool:
    return (
        record.workspace_id == asked.context.workspace_id
        and record.status == "active"
        and (asked.kinds is None or record.kind in asked.kinds)
    )
