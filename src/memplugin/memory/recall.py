"""The retrieval hop: a query to ranked candidates, what is shown, and a row for all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.memory.backend import Backend
from memplugin.memory.candidates import Found, Request, gather
from memplugin.records import Candidate, Explanation, MemoryRecord, Retrieval
from memplugin.retrieval.cutoff import Limits, choose
from memplugin.retrieval.rank import Ranked, rank
from memplugin.retrieval.scope import applies
from memplugin.telemetry import names
from memplugin.telemetry.attributes import candidate_events, searched
from memplugin.telemetry.spans import Hop
from memplugin.text import clean
from memplugin.use.prompt import render


def request(
    backend: Backend,
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
    chosen = policy or backend.config.policy
    if chosen not in backend.policies:
        raise ConfigError(
            f"there is no policy {chosen!r}: use one of {', '.join(sorted(backend.policies))}."
        )
    return Request(clean(query), context, k, named, backend.policies[chosen])


def recall(backend: Backend, asked: Request) -> Retrieval:
    """Runs a retrieval, stores it, and shows it on its span."""
    context = asked.context
    with (
        backend.metrics.recalling(asked.policy.label),
        backend.tracing.hop(names.SEARCH, context) as hop,
    ):
        backend.begin(context, hop)
        found = gather(backend, asked, depth=asked.depth)
        candidates = choose(
            rank(found.hits, asked.policy),
            limits(backend, asked.k, floored=asked.policy.floored),
        )
        retrieval = _retrieval(backend, asked, found, candidates, hop)
        backend.ledger.retrievals.save(retrieval, context.arm, context.attempt)
        _trace(backend, retrieval, hop)
    backend.metrics.recalled(retrieval)
    return retrieval


def _retrieval(
    backend: Backend, asked: Request, found: Found, candidates: Sequence[Candidate], hop: Hop
) -> Retrieval:
    context = asked.context
    shown = [c for c in candidates if c.injected]
    return Retrieval(
        id=backend.new_id("r"),
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


def limits(backend: Backend, k: int, *, floored: bool) -> Limits:
    """What a recall is cut by, as the store is configured."""
    config = backend.config
    return Limits(
        k=k,
        k_standing=config.k_standing,
        floor=config.floor if floored else None,
        lexical_floor=config.lexical_floor,
        token_budget=config.token_budget,
        count_tokens=config.count_tokens,
    )


def _trace(backend: Backend, retrieval: Retrieval, hop: Hop) -> None:
    if not hop.recording:
        return
    hop.set(lambda: searched(retrieval, backend.tracing.content))
    for event in candidate_events(retrieval):
        hop.event(names.CANDIDATE_EVENT, event)
    for candidate in retrieval.injected:
        hop.link(candidate.traceparent, "written_by")


# ---------------------------------------------------------------- explain


def explain(backend: Backend, asked: Request, record_id: str, as_of: datetime) -> Explanation:
    """Where a record stood for a retrieval, also beyond the depth that was searched.

    Ranks every selected record that was there at the time, with the confidence that it has
    by now.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    context = asked.context
    record = backend.get_record(context.workspace_id, record_id)
    excluded = _excluded_by(record, asked, as_of)
    if excluded:
        return Explanation(record_id, None, 0, excluded)
    depth = max(asked.depth, backend.ledger.search.count(asked.selection))
    found = gather(backend, asked, depth=depth, at=as_of)
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
