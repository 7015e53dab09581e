"""Replay: a decision from the ledger, run again as it was or with something changed.

A replay leaves no row in the ledger and no span of ours: the task's record stays what it
was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.replay import (
    Changes,
    Replay,
    differences,
    run_of,
    run_then,
    same_answer,
    settle,
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
from memplugin.memory.recut import shown_again
from memplugin.memory.steps import ModelCall, Steps
from memplugin.memory.store import Store
from memplugin.records import Decision, Retrieval
from memplugin.use.decide import Settled, next_step
from memplugin.use.inject import render


def replay(
    store: Store,
    decision_id: str,
    context: MemoryContext,
    model: BaseChatModel,
    changes: Changes,
    answer: type[BaseModel] | None,
) -> Steps[Replay]:
    """Runs the call that a decision rests on, again where the reply is unusable.

    Raises:
        ConfigError: there is no such decision, or what is to be changed is not in it.
    """
    decision = stored_decision(store, context.workspace_id, decision_id)
    stored = stored_call(decision)
    read = by_class(answer) if answer else by_structure(stored.schema)
    retrieval = _retrieval(store, decision)
    call, notes = _changed(store, stored, retrieval, changes)
    replies: list[Settled] = []
    while next_step(replies, store.config.decide_retries) == "again":
        reply = yield ModelCall(model, call.schema, call.messages, call.options)
        replies.append(settle(reply, call.schema, read))
    original, replayed = run_then(decision, stored, read), run_of(replies[-1], call)
    forgotten = _forgotten(store, retrieval)
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


def stored_decision(store: Store, workspace_id: str, decision_id: str) -> Decision[Any]:
    """A decision that is there.

    Raises:
        ConfigError: there is none of this id in the workspace.
    """
    found = store.ledger.decision(workspace_id, decision_id)
    if found is None:
        raise ConfigError(
            f"there is no decision {decision_id!r} in workspace {workspace_id!r}: check both ids "
            "(`memplugin task` shows a task's decision); old ones may have been pruned."
        )
    return found


def _retrieval(store: Store, decision: Decision[Any]) -> Retrieval | None:
    if decision.retrieval_id is None:
        return None
    return store.ledger.retrieval(decision.workspace_id, decision.retrieval_id)


def _changed(
    store: Store, call: StoredCall, retrieval: Retrieval | None, changes: Changes
) -> tuple[StoredCall, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if changes.k is not None or changes.policy is not None:
        if retrieval is None:
            raise ConfigError(
                "the retrieval that fed this decision is not in the ledger (it may have been "
                "pruned), so that k and policy can't be changed: replay it without them."
            )
        candidates, notes = shown_again(store, retrieval, changes.k, changes.policy)
        call = with_memories(call, render(candidates))
    if changes.without:
        call = without_records(call, changes.without)
    if changes.cite_by_enum:
        call = with_citations(call)
    if changes.max_reasoning_chars is not None:
        call = with_max_reasoning(call, changes.max_reasoning_chars)
    return call, notes


def _forgotten(store: Store, retrieval: Retrieval | None) -> list[str]:
    if retrieval is None:
        return []
    ids = [candidate.record_id for candidate in retrieval.injected]
    records = store.ledger.records(retrieval.workspace_id, ids)
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
