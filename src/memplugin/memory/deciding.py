"""The use hop: what is shown and asked, the model's reply, and what is noticed about it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.memory import recalling
from memplugin.memory.overriding import hold_against_memory
from memplugin.memory.steps import ModelCall, Steps
from memplugin.memory.store import Store
from memplugin.records import Decision, Retrieval
from memplugin.telemetry import names
from memplugin.telemetry.report import decided
from memplugin.telemetry.spans import Hop
from memplugin.text import clean
from memplugin.use.decide import (
    Asked,
    Settled,
    conclude,
    decision_messages,
    next_step,
    settle_reply,
)
from memplugin.use.reasoned import Reasoned
from memplugin.use.schema import decision_schema

AnswerT = TypeVar("AnswerT", bound=BaseModel)

DEFAULT_K = 3


def decide(
    store: Store,
    question: str,
    context: MemoryContext,
    answer: type[AnswerT],
    model: BaseChatModel,
    given: Retrieval | str | None,
) -> Steps[Decision[AnswerT]]:
    """Asks the model, again where that may help, and stores the decision."""
    hop = store.tracing.start(names.USE, context)
    try:
        store.begin(context, hop)
        with hop.current():
            retrieval = _retrieval(store, question, context, given)
        _link_search(hop, retrieval)
        asked = _asked(store, question, context, answer, retrieval)
        replies = yield from _replies(store, asked, model, hop)
        held = yield from hold_against_memory(store, asked, replies, model, hop)
        decision = conclude(
            held.asked,
            held.replies,
            overrides=held.overrides,
            stale=_stale(store, retrieval),
            now=store.clock.now(),
            span=hop.ref,
        )
        store.ledger.save_decision(decision, context.arm, context.attempt)
        store.metrics.decided(decision)
        hop.set(lambda: decided(decision, retrieval.candidates, store.tracing.content))
        return cast(Decision[AnswerT], decision)
    except BaseException as error:
        hop.failed(error)
        raise
    finally:
        hop.end()


def _asked(
    store: Store, question: str, context: MemoryContext, answer: type[Any], retrieval: Retrieval
) -> Asked:
    schema = _schema(store, answer, retrieval)
    return Asked(
        id=store.new_id("d"),
        context=context,
        question=clean(question),
        schema=schema,
        sent=decision_messages(clean(question), retrieval.text, schema),
        retrieval=retrieval,
        options=store.config.structured_output,
    )


def _replies(
    store: Store, asked: Asked, model: BaseChatModel, hop: Hop
) -> Steps[tuple[Settled, ...]]:
    replies: list[Settled] = []
    while next_step(replies, store.config.decide_retries) == "again":
        reply = yield ModelCall(model, asked.schema, asked.sent, asked.options, hop)
        replies.append(settle_reply(reply, asked.schema))
    return tuple(replies)


def _retrieval(
    store: Store, question: str, context: MemoryContext, given: Retrieval | str | None
) -> Retrieval:
    if given is None:
        asked = recalling.request(store, question, context, DEFAULT_K, None, None)
        return recalling.recall(store, asked)
    found = (
        store.ledger.retrieval(context.workspace_id, clean(given))
        if isinstance(given, str)
        else given
    )
    if found is None:
        raise ConfigError(
            f"there is no retrieval {given!r} in workspace {context.workspace_id!r}: pass the "
            "Retrieval, its id, or None to recall with the question."
        )
    if found.workspace_id != context.workspace_id:
        raise ConfigError(
            f"retrieval {found.id!r} is of workspace {found.workspace_id!r}, and the context's "
            f"is {context.workspace_id!r}: recall with the same context."
        )
    return found


def _link_search(hop: Hop, retrieval: Retrieval) -> None:
    if retrieval.span and hop.ref and retrieval.span.trace_id != hop.ref.trace_id:
        hop.link(retrieval.span.traceparent, "retrieved_by")


def _schema(store: Store, answer: type[Any], retrieval: Retrieval) -> type[Reasoned]:
    config = store.config
    return decision_schema(
        answer,
        max_reasoning_chars=config.max_reasoning_chars,
        cite_from=[c.record_id for c in retrieval.injected] if config.cite_by_enum else None,
    )


def _stale(store: Store, retrieval: Retrieval) -> set[str]:
    ids = [candidate.record_id for candidate in retrieval.candidates]
    records = store.ledger.records(retrieval.workspace_id, ids)
    return {i for i in ids if i not in records or records[i].status != "active"}
