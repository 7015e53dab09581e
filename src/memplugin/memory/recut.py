"""What a decision would have been shown under another k or another policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.memory.gathering import gather
from memplugin.memory.recalling import limits, request
from memplugin.memory.store import Store
from memplugin.records import Candidate, MemoryRecord, Retrieval
from memplugin.retrieval.cut import choose
from memplugin.retrieval.rank import Hit, Ranked, rank

_RELEVANT = ("dense", "around", "lexical", "topic")


def shown_again(
    store: Store, retrieval: Retrieval, k: int | None, policy: str | None
) -> tuple[list[Candidate], tuple[str, ...]]:
    """The memories to show instead, in rank order, and what to know about them.

    Another k cuts the stored ranking again; nothing is searched or scored. Another policy
    asks its own sources, so that the query is recalled again: among the records that were
    there then and still are, as sure as they were then where that is stored. How much is
    shown at most (budget, floor, standing ones) is what the store is configured with now.

    Raises:
        ConfigError: k is below 1, or there is no such policy.
    """
    if k is not None and k < 1:
        raise ConfigError(f"k is {k}: give at least 1.")
    if policy is not None:
        candidates, notes = _recalled(store, retrieval, k or retrieval.k, policy)
    else:
        candidates, notes = _cut(store, retrieval, k or retrieval.k)
    return [c for c in candidates if c.injected], notes


# ---------------------------------------------------------------- another k


def _cut(store: Store, retrieval: Retrieval, k: int) -> tuple[list[Candidate], tuple[str, ...]]:
    ranked = _stored_ranking(store, retrieval)
    policy = store.policies.get(retrieval.policy.partition("@")[0])
    floored = policy.floored if policy else any(c.cut == "floor" for c in retrieval.candidates)
    notes: list[str] = []
    same_k = choose(ranked, limits(store, retrieval.k, floored=floored))
    if [c.injected for c in same_k] != [c.injected for c in retrieval.candidates]:
        notes.append(
            "with the store's present settings the same k would not have shown the same "
            "memories: open it with the settings of then (budget, floor, k_standing)"
        )
    if k > len(ranked):
        notes.append(f"only {len(ranked)} candidates are stored, so that no more can be shown")
    return choose(ranked, limits(store, k, floored=floored)), tuple(notes)


def _stored_ranking(store: Store, retrieval: Retrieval) -> list[Ranked]:
    ids = [candidate.record_id for candidate in retrieval.candidates]
    records = store.ledger.records(retrieval.workspace_id, ids)
    places = _standing_places(retrieval.candidates)
    return [
        Ranked(_hit(c, records[c.record_id], places), c.rank, c.score, c.parts)
        for c in retrieval.candidates
        if c.record_id in records
    ]


def _standing_places(candidates: Sequence[Candidate]) -> Mapping[str, int]:
    standing = sorted(
        (c for c in candidates if "standing" in c.sources),
        key=lambda c: (len(c.scope), c.pinned, c.confidence, c.occurred_at),
        reverse=True,
    )
    return {candidate.record_id: place for place, candidate in enumerate(standing)}


def _hit(candidate: Candidate, record: MemoryRecord, places: Mapping[str, int]) -> Hit:
    return Hit(
        record=_as_then(record, candidate),
        **_relevance(candidate),
        standing=places.get(candidate.record_id),
        applies=candidate.cut != "inapplicable_scope",
        sources=candidate.sources,
    )


def _relevance(candidate: Candidate) -> dict[str, Any]:
    """What the floor is about. What was shown is above it, and what it cut is below.

    Of the others the score parts tell; a policy of the caller's may have none of these, and
    then they count as relevant.
    """
    parts = {name: candidate.parts[name] for name in _RELEVANT if name in candidate.parts}
    if candidate.cut == "floor":
        return {}
    return {"dense": 1.0} if candidate.injected or not parts else parts


def _as_then(record: MemoryRecord, candidate: Candidate) -> MemoryRecord:
    return replace(
        record,
        content=candidate.content,
        claim=candidate.claim,
        confidence=candidate.confidence,
        pinned=candidate.pinned,
    )


# ---------------------------------------------------------------- another policy


def _recalled(
    store: Store, retrieval: Retrieval, k: int, policy: str
) -> tuple[list[Candidate], tuple[str, ...]]:
    context = MemoryContext(
        workspace_id=retrieval.workspace_id,
        session_id=retrieval.session_id,
        task_id=retrieval.task_id,
        scope=cast(dict[str, Any], retrieval.filters.get("scope") or {}),
    )
    kinds = cast(list[str] | None, retrieval.filters.get("kind"))
    asked = request(store, retrieval.query, context, k, kinds, policy)
    found = gather(store, asked, depth=asked.depth, at=retrieval.created_at)
    then = {candidate.record_id: candidate for candidate in retrieval.candidates}
    hits = [
        replace(hit, record=_as_then(hit.record, then[hit.record.id]))
        if hit.record.id in then
        else hit
        for hit in found.hits
        if hit.record.created_at <= retrieval.created_at
    ]
    notes = [f"{source}: it did not answer" for source in found.degraded]
    if later := len(found.hits) - len(hits):
        notes.append(f"{later} records written since were left out of the recall")
    if gone := _retired(store, retrieval):
        notes.append(f"no longer active, and so not recalled again: {', '.join(gone)}")
    cut = choose(rank(hits, asked.policy), limits(store, k, floored=asked.policy.floored))
    return cut, tuple(notes)


def _retired(store: Store, retrieval: Retrieval) -> list[str]:
    ids = [candidate.record_id for candidate in retrieval.candidates]
    records = store.ledger.records(retrieval.workspace_id, ids)
    return [i for i in ids if i not in records or records[i].status != "active"]
