"""A stored decision, run again: as it was, or with other memories, another k or policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.replay import (
    Changes,
    Replay,
    check_reply,
    differences,
    original_run,
    replayed_run,
    same_answer,
)
from memplugin.diagnosis.stored_call import (
    StoredCall,
    by_class,
    by_structure,
    fits,
    stored_call,
    with_citations,
    with_max_reasoning,
    with_memories,
    without_records,
)
from memplugin.errors import ConfigError
from memplugin.memory.backend import Backend
from memplugin.memory.candidates import gather
from memplugin.memory.model_call import ModelCall, Steps
from memplugin.memory.recall import checked_request, limits
from memplugin.records import Candidate, Decision, MemoryRecord, Retrieval
from memplugin.retrieval.cutoff import choose
from memplugin.retrieval.rank import Hit, Ranked, rank
from memplugin.use.decide import CheckedReply, next_step
from memplugin.use.prompt import render

_RELEVANT = ("dense", "around", "lexical", "topic")


def shown_again(
    backend: Backend, retrieval: Retrieval, k: int | None, policy: str | None
) -> tuple[list[Candidate], tuple[str, ...]]:
    """The memories to show instead, in rank order, and what to know about them.

    Another k cuts the stored ranking again; nothing is searched or scored. Another policy
    asks its own sources, so that the query is recalled again: among the records that were
    there then and still are, as sure as they were then where that is stored. How much is
    shown at most (budget, floor, standing ones) is what the store is configured with now.

    Args:
        backend: The store.
        retrieval: That fed the decision.
        k: None for the same.
        policy: None for the same ranking.

    Returns:
        The candidates that are shown, in rank order; and notes.

    Raises:
        ConfigError: k is below 1, or there is no such policy.
    """
    if k is not None and k < 1:
        raise ConfigError(f"k is {k}: give at least 1.")
    if policy is not None:
        candidates, notes = _recalled(backend, retrieval, k or retrieval.k, policy)
    else:
        candidates, notes = _cut(backend, retrieval, k or retrieval.k)
    return [c for c in candidates if c.injected], notes


# ---------------------------------------------------------------- another k


def _cut(backend: Backend, retrieval: Retrieval, k: int) -> tuple[list[Candidate], tuple[str, ...]]:
    ranked = _stored_ranking(backend, retrieval)
    policy = backend.policies.get(retrieval.policy.partition("@")[0])
    floored = policy.floored if policy else any(c.cut == "floor" for c in retrieval.candidates)
    notes: list[str] = []
    same_k = choose(ranked, limits(backend, retrieval.k, floored=floored))
    if [c.injected for c in same_k] != [c.injected for c in retrieval.candidates]:
        notes.append(
            "with the store's present settings the same k would not have shown the same "
            "memories: open it with the settings of then (budget, floor, k_standing)"
        )
    if k > len(ranked):
        notes.append(f"only {len(ranked)} candidates are stored, so that no more can be shown")
    return choose(ranked, limits(backend, k, floored=floored)), tuple(notes)


def _stored_ranking(backend: Backend, retrieval: Retrieval) -> list[Ranked]:
    ids = [candidate.record_id for candidate in retrieval.candidates]
    records = backend.ledger.records.get_many(retrieval.workspace_id, ids)
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
    backend: Backend, retrieval: Retrieval, k: int, policy: str
) -> tuple[list[Candidate], tuple[str, ...]]:
    context = MemoryContext(
        workspace_id=retrieval.workspace_id,
        session_id=retrieval.session_id,
        task_id=retrieval.task_id,
        scope=cast(dict[str, Any], retrieval.filters.get("scope") or {}),
    )
    kinds = cast(list[str] | None, retrieval.filters.get("kind"))
    request = checked_request(backend, retrieval.query, context, k, kinds, policy)
    found = gather(backend, request, depth=request.depth, at=retrieval.created_at)
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
    if gone := _retired(backend, retrieval):
        notes.append(f"no longer active, and so not recalled again: {', '.join(gone)}")
    cut = choose(rank(hits, request.policy), limits(backend, k, floored=request.policy.floored))
    return cut, tuple(notes)


def _retired(backend: Backend, retrieval: Retrieval) -> list[str]:
    ids = [candidate.record_id for candidate in retrieval.candidates]
    records = backend.ledger.records.get_many(retrieval.workspace_id, ids)
    return [i for i in ids if i not in records or records[i].status != "active"]


def replay(
    backend: Backend,
    decision_id: str,
    context: MemoryContext,
    model: BaseChatModel,
    changes: Changes,
    answer: type[BaseModel] | None,
) -> Steps[Replay]:
    """Runs the call that a decision rests on, again where the reply is unusable.

    Args:
        backend: The store.
        decision_id: The decision.
        context: Its workspace counts.
        model: The same model or another one.
        changes: What is to be different.
        answer: The class that was decided for; None reads replies by the stored schema.

    Returns:
        Both runs beside each other.

    Raises:
        ConfigError: there is no such decision, or what is to be changed is not in it.
    """
    decision = stored_decision(backend, context.workspace_id, decision_id)
    stored = stored_call(decision)
    read = by_class(answer) if answer else by_structure(stored.schema)
    retrieval = _retrieval(backend, decision)
    call, notes = _changed(backend, stored, retrieval, changes)
    replies: list[CheckedReply] = []
    while next_step(replies, backend.config.decide_retries) == "again":
        reply = yield ModelCall(model, call.schema, call.messages, call.options)
        replies.append(check_reply(reply, call.schema, read))
    original, replayed = original_run(decision, stored, read), replayed_run(replies[-1], call)
    forgotten = _forgotten(backend, retrieval)
    return Replay(
        decision_id=decision.id,
        workspace_id=decision.workspace_id,
        task_id=decision.task_id,
        changes=changes,
        original=original,
        replayed=replayed,
        exact=call == stored and not forgotten,
        same_answer=same_answer(original, replayed),
        differences=tuple(differences(original, replayed)),
        notes=(*_about(decision, forgotten), *_about_class(stored, answer), *notes),
    )


def stored_decision(backend: Backend, workspace_id: str, decision_id: str) -> Decision[Any]:
    """A decision that is there.

    Args:
        backend: The store.
        workspace_id: The workspace.
        decision_id: Its id.

    Returns:
        The decision.

    Raises:
        ConfigError: there is none of this id in the workspace.
    """
    found = backend.ledger.decisions.get(workspace_id, decision_id)
    if found is None:
        raise ConfigError(
            f"there is no decision {decision_id!r} in workspace {workspace_id!r}: check both ids "
            "(`memplugin task` shows a task's decision); old ones may have been pruned."
        )
    return found


def _retrieval(backend: Backend, decision: Decision[Any]) -> Retrieval | None:
    if decision.retrieval_id is None:
        return None
    return backend.ledger.retrievals.get(decision.workspace_id, decision.retrieval_id)


def _changed(
    backend: Backend, call: StoredCall, retrieval: Retrieval | None, changes: Changes
) -> tuple[StoredCall, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if changes.k is not None or changes.policy is not None:
        if retrieval is None:
            raise ConfigError(
                "the retrieval that fed this decision is not in the ledger (it may have been "
                "pruned), so that k and policy can't be changed: replay it without them."
            )
        candidates, notes = shown_again(backend, retrieval, changes.k, changes.policy)
        call = with_memories(call, render(candidates))
    if changes.without:
        call = without_records(call, changes.without)
    if changes.cite_by_enum:
        call = with_citations(call)
    if changes.max_reasoning_chars is not None:
        call = with_max_reasoning(call, changes.max_reasoning_chars)
    return call, notes


def _forgotten(backend: Backend, retrieval: Retrieval | None) -> list[str]:
    if retrieval is None:
        return []
    ids = [candidate.record_id for candidate in retrieval.injected]
    records = backend.ledger.records.get_many(retrieval.workspace_id, ids)
    return [i for i in ids if i in records and records[i].status == "forgotten"]


def _about(decision: Decision[Any], forgotten: list[str]) -> Iterator[str]:
    for record_id in forgotten:
        yield (
            f"{record_id} was forgotten since: its text is no longer in the stored messages, so "
            "that the model is not shown what it was shown then"
        )
    for one in decision.overrides:
        if one.enforced:
            yield (
                f"{one.field} was set to what {one.record_id} claims when the decision was made: "
                "compared is what the model itself answered"
            )
    if any(reply.asked for reply in decision.replies):
        yield "the model was asked again after an override: replayed is the call that counts"


def _about_class(call: StoredCall, answer: type[BaseModel] | None) -> Iterator[str]:
    if answer is not None and not fits(call, answer):
        yield f"{answer.__name__} has changed since: the model was sent the schema that is stored"
