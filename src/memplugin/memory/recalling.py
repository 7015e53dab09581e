"""The retrieval hop: a query to ranked candidates, what is shown, and a row for all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from memplugin.config import USER_KEY, MemoryContext
from memplugin.errors import ConfigError, RecordNotFound
from memplugin.memory.store import Store, log
from memplugin.ports import Selection
from memplugin.records import Candidate, Explanation, MemoryRecord, Retrieval
from memplugin.retrieval.cut import Limits, choose
from memplugin.retrieval.rank import Hit, Policy, Ranked, rank
from memplugin.retrieval.scope import applicable_keys, applies, linked, linked_keys, share
from memplugin.storage.search import DenseHit, DenseHits
from memplugin.telemetry import names
from memplugin.telemetry.report import candidate_events, searched
from memplugin.telemetry.spans import Hop
from memplugin.text import clean
from memplugin.use.inject import render

AROUND_WEIGHT = 1.0
"""Weight of the surrounding text when the dense source picks its hits."""

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


def request(
    store: Store,
    query: str,
    context: MemoryContext,
    k: int,
    kinds: Iterable[str] | None,
    policy: str | None,
) -> Request:
    """Checks what a caller asked for.

    Raises:
        ConfigError: the query is no text, k is below 1, kinds is a text or empty, or there
            is no such policy.
    """
    if not isinstance(query, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers may be untyped
        raise ConfigError(f"query is a {type(query).__name__}: give a text.")
    if k < 1:
        raise ConfigError(f"k is {k}: give at least 1.")
    if isinstance(kinds, str):
        raise ConfigError(f"kinds is the text {kinds!r}: give a list, such as [{kinds!r}].")
    named = frozenset(map(clean, kinds)) if kinds is not None else None
    if named is not None and not named:
        raise ConfigError("kinds is empty: name at least one kind, or None for every kind.")
    chosen = policy or store.config.policy
    if chosen not in store.policies:
        raise ConfigError(
            f"there is no policy {chosen!r}: use one of {', '.join(sorted(store.policies))}."
        )
    return Request(clean(query), context, k, named, store.policies[chosen])


def recall(store: Store, asked: Request) -> Retrieval:
    """Runs a retrieval, stores it, and shows it on its span."""
    context = asked.context
    with (
        store.metrics.recalling(asked.policy.label),
        store.tracing.hop(names.SEARCH, context) as hop,
    ):
        store.begin(context, hop)
        found = gather(store, asked, depth=asked.depth)
        candidates = choose(
            rank(found.hits, asked.policy),
            limits(store, asked.k, floored=asked.policy.floored),
        )
        retrieval = _retrieval(store, asked, found, candidates, hop)
        store.ledger.save_retrieval(retrieval, context.arm, context.attempt)
        _trace(store, retrieval, hop)
    store.metrics.recalled(retrieval)
    return retrieval


def _retrieval(
    store: Store, asked: Request, found: Found, candidates: Sequence[Candidate], hop: Hop
) -> Retrieval:
    context = asked.context
    shown = [c for c in candidates if c.injected]
    return Retrieval(
        id=store.new_id("r"),
        workspace_id=context.workspace_id,
        task_id=context.task,
        session_id=context.session_id,
        query=asked.query,
        filters={
            "workspace_id": context.workspace_id,
            "kind": sorted(asked.kinds) if asked.kinds is not None else None,
            "scope": context.request_scope,
        },
        k=asked.k,
        policy=asked.policy.label,
        candidates=tuple(candidates),
        total=found.total,
        shown=len(shown),
        pending_index=found.pending,
        stale_dropped=found.stale,
        text=render(shown),
        created_at=found.at,
        degraded=found.degraded,
        span=hop.ref,
    )


def limits(store: Store, k: int, *, floored: bool) -> Limits:
    """What a recall is cut by, as the store is configured."""
    config = store.config
    return Limits(
        k=k,
        k_standing=config.k_standing,
        floor=config.floor if floored else None,
        lexical_floor=config.lexical_floor,
        token_budget=config.token_budget,
        count_tokens=config.count_tokens,
    )


def _trace(store: Store, retrieval: Retrieval, hop: Hop) -> None:
    if not hop.recording:
        return
    hop.set(lambda: searched(retrieval, store.tracing.content))
    for event in candidate_events(retrieval):
        hop.event(names.CANDIDATE_EVENT, event)
    for candidate in retrieval.injected:
        hop.link(candidate.traceparent, "written_by")


# ---------------------------------------------------------------- the sources


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


def gather(store: Store, asked: Request, *, depth: int, at: datetime | None = None) -> Found:
    """Asks every source of the policy and checks each hit against the ledger.

    Args:
        store: Where to look.
        asked: The question.
        depth: How many each source brings.
        at: To when ages are counted; None for now.
    """
    vector, degraded = _embedded(store, asked)
    with store.ledger.snapshot():
        return _gathered(store, asked, depth, at, vector, degraded)


def _embedded(store: Store, asked: Request) -> tuple[NDArray[np.float32] | None, tuple[str, ...]]:
    if "dense" not in asked.policy.sources or not asked.query.strip():
        return None, ()
    try:
        return store.embedder.embed([asked.query])[0], ()
    except Exception as error:  # noqa: BLE001 -- a model that is down is one source less
        return None, _without_dense(error)


def _gathered(
    store: Store,
    asked: Request,
    depth: int,
    at: datetime | None,
    vector: NDArray[np.float32] | None,
    degraded: tuple[str, ...],
) -> Found:
    selection, sources = asked.selection, asked.policy.sources
    lexical: dict[str, float] = {}
    if "lexical" in sources and asked.query.strip():
        lexical = dict(store.ledger.lexical(selection, asked.query, depth))
    standing = _standing(store, asked, depth) if "standing" in sources else []
    structural = _structural(store, asked, depth) if "structural" in sources else []
    dense: DenseHits | None = None
    if vector is not None:
        also = {*lexical, *standing, *structural}
        dense, degraded = _dense(store, asked, vector, depth, also)
    total = dense.total if dense else store.ledger.count(selection)
    brought = _Brought.of(lexical, standing, structural, dense, depth)
    now = at or store.clock.now()
    hits, dropped = _checked(store, asked, brought, now)
    return Found(
        hits=hits,
        total=total,
        stale=dropped + (dense.stale if dense else 0),
        pending=store.ledger.pending(asked.context.workspace_id),
        degraded=degraded,
        at=now,
    )


def _structural(store: Store, asked: Request, depth: int) -> list[str]:
    """Records that apply and are linked to what the request is about, the surest first."""
    scopes = linked_keys(asked.context.request_scope, store.config.structural_keys)
    if not scopes:
        return []
    return store.ledger.standing(Selection(asked.context.workspace_id, scopes, asked.kinds), depth)


def _standing(store: Store, asked: Request, depth: int) -> list[str]:
    kinds = store.config.standing_kinds & (asked.kinds or store.config.standing_kinds)
    if not kinds:
        return []
    selection = asked.selection
    return store.ledger.standing(
        Selection(selection.workspace_id, selection.scope_keys, kinds), depth
    )


def _dense(
    store: Store,
    asked: Request,
    vector: NDArray[np.float32],
    depth: int,
    also: Collection[str],
) -> tuple[DenseHits | None, tuple[str, ...]]:
    try:
        hits = store.search.search(
            asked.selection,
            vector,
            depth=depth,
            also=also,
            spare=asked.k,
            user=asked.context.request_scope.get(USER_KEY),
            around_weight=AROUND_WEIGHT,
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
        standing: Place of each in the order of standing records.
        near: Cosines, also of those that only other sources brought.
        nearest: Those that the dense source brought itself.
    """

    lexical: Mapping[str, float]
    standing: Mapping[str, int]
    structural: Collection[str]
    near: Mapping[str, DenseHit]
    nearest: Collection[str]

    @classmethod
    def of(
        cls,
        lexical: Mapping[str, float],
        standing: Sequence[str],
        structural: Collection[str],
        dense: DenseHits | None,
        depth: int,
    ) -> _Brought:
        """Puts together what the sources answered."""
        hits = (*dense.hits[:depth], *dense.inapplicable) if dense else ()
        # Beyond the depth stand those that another source brought, for their cosines.
        also = dense.hits[depth:] if dense else ()
        return cls(
            lexical=lexical,
            standing={record_id: place for place, record_id in enumerate(standing)},
            structural=structural,
            near={hit.record_id: hit for hit in (*hits, *also)},
            nearest={hit.record_id for hit in hits},
        )

    @property
    def ids(self) -> list[str]:
        """Every record, once."""
        return list(dict.fromkeys([*self.lexical, *self.standing, *self.structural, *self.near]))

    def sources_of(self, record_id: str) -> tuple[str, ...]:
        """The names of the sources that brought a record."""
        named = (
            ("dense", self.nearest),
            ("lexical", self.lexical),
            ("standing", self.standing),
            ("structural", self.structural),
        )
        return tuple(source for source, brought in named if record_id in brought)


def _checked(
    store: Store, asked: Request, brought: _Brought, now: datetime
) -> tuple[list[Hit], int]:
    """Hits for what the ledger counts, and how many it does not."""
    ids = brought.ids
    records = store.ledger.records(asked.context.workspace_id, ids)
    hits = [
        _hit(store, asked, record, brought, now)
        for record_id in ids
        if (record := records.get(record_id)) and _counts(record, asked)
    ]
    return hits, len(ids) - len(hits)


def _hit(
    store: Store, asked: Request, record: MemoryRecord, brought: _Brought, now: datetime
) -> Hit:
    vector, request = brought.near.get(record.id), asked.context.request_scope
    return Hit(
        record=record,
        dense=vector.content if vector else None,
        around=vector.around if vector else None,
        lexical=brought.lexical.get(record.id, 0.0),
        standing=brought.standing.get(record.id),
        applies=applies(record.scope, request),
        share=share(record.scope, request),
        linked=linked(record.scope, request, store.config.structural_keys),
        age_days=max(now - record.occurred_at, _NOW) / _DAY,
        sources=brought.sources_of(record.id),
    )


def _counts(record: MemoryRecord, asked: Request) -> bool:
    return (
        record.workspace_id == asked.context.workspace_id
        and record.status == "active"
        and (asked.kinds is None or record.kind in asked.kinds)
    )


# ---------------------------------------------------------------- explain


def explain(store: Store, asked: Request, record_id: str, as_of: datetime) -> Explanation:
    """Where a record stood for a retrieval, also beyond the depth that was searched.

    Ranks every selected record that was there at the time, with the confidence that it has
    by now.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    context = asked.context
    record = store.ledger.records(context.workspace_id, [record_id]).get(record_id)
    if record is None:
        raise RecordNotFound(
            f"there is no record {record_id!r} in workspace {context.workspace_id!r}: "
            "check the id and the workspace."
        )
    excluded = _excluded_by(record, asked, as_of)
    if excluded:
        return Explanation(record_id, None, 0, excluded)
    depth = max(asked.depth, store.ledger.count(asked.selection))
    found = gather(store, asked, depth=depth, at=as_of)
    was_there = [h for h in found.hits if h.applies and h.record.created_at <= as_of]
    ranked: list[Ranked] = rank(was_there, asked.policy)
    # With a source missing, the rank would not be the one that the retrieval gave.
    complete = not found.degraded
    place = next((r.rank for r in ranked if complete and r.hit.record.id == record_id), None)
    return Explanation(record_id, place, len(ranked), None)


def _excluded_by(record: MemoryRecord, asked: Request, as_of: datetime) -> str | None:
    if record.created_at > as_of:
        return "not_written_yet"
    if record.retired_at and record.retired_at <= as_of:
        return "status"
    if asked.kinds is not None and record.kind not in asked.kinds:
        return "kinds"
    if not applies(record.scope, asked.context.request_scope):
        return "scope"
    return None
