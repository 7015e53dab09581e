"""The retrieval hop: a query to ranked candidates, what is shown, and a row for all of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from memplugin.config import USER_KEY, MemoryContext
from memplugin.errors import ConfigError, RecordNotFound
from memplugin.memory.store import Store, log
from memplugin.ports import Selection
from memplugin.records import Candidate, Explanation, MemoryRecord, Retrieval
from memplugin.retrieval.cut import Limits, choose
from memplugin.retrieval.rank import Hit, Policy, Ranked, rank
from memplugin.retrieval.scope import applicable_keys, applies
from memplugin.storage.search import DenseHits
from memplugin.telemetry import names
from memplugin.telemetry.report import candidate_events, searched
from memplugin.telemetry.spans import Hop
from memplugin.text import clean
from memplugin.use.inject import render

AROUND_WEIGHT = 1.0
"""Weight of the surrounding text when the dense source picks its hits."""


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
    named = frozenset(kinds) if kinds is not None else None
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
        created_at=store.clock.now(),
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
    """Everything the sources brought, checked against the ledger."""

    hits: Sequence[Hit]
    total: int
    stale: int
    pending: int
    degraded: tuple[str, ...]


def gather(store: Store, asked: Request, *, depth: int) -> Found:
    """Asks every source of the policy and checks each hit against the ledger."""
    vector, degraded = _embedded(store, asked)
    with store.ledger.snapshot():
        return _gathered(store, asked, depth, vector, degraded)


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
    vector: NDArray[np.float32] | None,
    degraded: tuple[str, ...],
) -> Found:
    selection, sources = asked.selection, asked.policy.sources
    lexical: dict[str, float] = {}
    if "lexical" in sources and asked.query.strip():
        lexical = dict(store.ledger.lexical(selection, asked.query, depth))
    standing = _standing(store, asked, depth) if "standing" in sources else []
    dense: DenseHits | None = None
    if vector is not None:
        dense, degraded = _dense(store, asked, vector, depth, {*lexical, *standing})
    total = dense.total if dense else store.ledger.count(selection)
    hits, dropped = _checked(store, asked, lexical, standing, dense, depth)
    return Found(
        hits=hits,
        total=total,
        stale=dropped + (dense.stale if dense else 0),
        pending=store.ledger.pending(asked.context.workspace_id),
        degraded=degraded,
    )


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


def _checked(
    store: Store,
    asked: Request,
    lexical: Mapping[str, float],
    standing: Sequence[str],
    dense: DenseHits | None,
    depth: int,
) -> tuple[list[Hit], int]:
    context = asked.context
    near = {hit.record_id: hit for hit in (*dense.hits, *dense.inapplicable)} if dense else {}
    # Beyond the depth stand those that another source brought, for their cosines.
    best = {hit.record_id for hit in dense.hits[:depth]} if dense else set[str]()
    outside = {hit.record_id for hit in dense.inapplicable} if dense else set[str]()
    places = {record_id: place for place, record_id in enumerate(standing)}
    ids = list(dict.fromkeys([*lexical, *standing, *near]))
    records = store.ledger.records(context.workspace_id, ids)
    hits: list[Hit] = []
    for record_id in ids:
        record = records.get(record_id)
        if record is None or not _counts(record, asked):
            continue
        vector = near.get(record_id)
        named = (
            ("dense", record_id in best or record_id in outside),
            ("lexical", record_id in lexical),
            ("standing", record_id in places),
        )
        hits.append(
            Hit(
                record=record,
                dense=vector.content if vector else None,
                around=vector.around if vector else None,
                lexical=lexical.get(record_id, 0.0),
                standing=places.get(record_id),
                applies=applies(record.scope, context.request_scope),
                sources=tuple(source for source, brought in named if brought),
            )
        )
    return hits, len(ids) - len(hits)


def _counts(record: MemoryRecord, asked: Request) -> bool:
    return (
        record.workspace_id == asked.context.workspace_id
        and record.status == "active"
        and (asked.kinds is None or record.kind in asked.kinds)
    )


# ---------------------------------------------------------------- explain


def explain(store: Store, asked: Request, record_id: str, as_of: datetime) -> Explanation:
    """Where a record stood for a retrieval, also beyond the depth that was searched.

    Ranks every selected record that was there at the time.

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
    found = gather(store, asked, depth=max(asked.depth, store.ledger.count(asked.selection)))
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
