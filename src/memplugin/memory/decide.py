"""What is done about an answer that goes against memory, as ``on_override`` says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.memory import recall
from memplugin.memory.backend import Backend
from memplugin.memory.model_call import ModelCall, Steps
from memplugin.records import Decision, MemoryRecord, Override, Retrieval, Selection
from memplugin.retrieval.scope import applicable_keys
from memplugin.telemetry import names
from memplugin.telemetry.attributes import decided
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
from memplugin.use.overrides import ask_again_messages, enforce, overrides_of
from memplugin.use.schema import Reasoned, answer_values, decision_schema


@dataclass(frozen=True, slots=True)
class Held:
    """A decision's calls, held against memory.

    Attributes:
        asked: With the schema that the reply that counts was asked for.
        replies: Every call, that which asked again included.
        overrides: Where the reply that counts goes, or went, against memory.
    """

    asked: Asked
    replies: tuple[Settled, ...]
    overrides: tuple[Override, ...] = ()


def hold_against_memory(
    backend: Backend, asked: Asked, replies: tuple[Settled, ...], model: BaseChatModel, hop: Hop
) -> Steps[Held]:
    """Looks for overrides in the last reply; asks again once or changes the answer if told to."""
    held = Held(asked, replies)
    claims = _claims(backend, asked, replies[-1])
    found = _overrides(backend, asked, replies[-1], claims)
    if not found:
        return held
    held = replace(held, overrides=found)
    if backend.config.on_override == "ask_again":
        return (yield from _asked_again(backend, held, claims, model, hop))
    return _enforced(held) if backend.config.on_override == "enforce" else held


def _claims(backend: Backend, asked: Asked, reply: Settled) -> list[MemoryRecord]:
    """Every claim of the workspace that applies, whether or not the recall brought it."""
    fields = [name for name, value in (reply.values or {}).items() if value is not None]
    scopes = applicable_keys(asked.context.request_scope)
    return backend.ledger.search.claims(Selection(asked.context.workspace_id, scopes), fields)


def _overrides(
    backend: Backend, asked: Asked, reply: Settled, claims: list[MemoryRecord]
) -> tuple[Override, ...]:
    sure = backend.config.override_confidence
    return overrides_of(reply.values or {}, claims, sure, asked.retrieval)


def _asked_again(
    backend: Backend, held: Held, claims: list[MemoryRecord], model: BaseChatModel, hop: Hop
) -> Steps[Held]:
    asked, first = held.asked, held.replies[-1]
    messages = ask_again_messages(first.reply.values or {}, held.overrides, claims)
    shown = frozenset(override.record_id for override in held.overrides)
    schema = _citing(backend, asked, shown)
    reply = yield ModelCall(model, schema, [*asked.sent, *messages], asked.options, hop)
    second = replace(settle_reply(reply, schema), asked=messages, shown=shown)
    replies = (*held.replies, second)
    if second.status != "decided":  # then the first answer stands, and its flag
        return replace(held, replies=replies)
    still = _overrides(backend, asked, second, _claims(backend, asked, second))
    return Held(replace(asked, schema=schema), replies, still)


def _citing(backend: Backend, asked: Asked, shown: frozenset[str]) -> type[Reasoned]:
    if not backend.config.cite_by_enum:
        return asked.schema
    injected = [c.record_id for c in asked.retrieval.injected] if asked.retrieval else []
    return decision_schema(asked.schema, cite_from=list(dict.fromkeys([*injected, *sorted(shown)])))


def _enforced(held: Held) -> Held:
    last = held.replies[-1]
    answer, overrides, wrong = enforce(held.asked.schema, last.reply.values or {}, held.overrides)
    if answer is not None:
        values = answer_values(held.asked.schema, answer)
        last = replace(last, answer=answer, values=values)
    last = replace(last, detail=wrong)
    return replace(held, replies=(*held.replies[:-1], last), overrides=overrides)


AnswerT = TypeVar("AnswerT", bound=BaseModel)

DEFAULT_K = 3


def decide(
    backend: Backend,
    question: str,
    context: MemoryContext,
    answer: type[AnswerT],
    model: BaseChatModel,
    given: Retrieval | str | None,
) -> Steps[Decision[AnswerT]]:
    """Asks the model, again where that may help, and stores the decision."""
    hop = backend.tracing.start(names.USE, context)
    try:
        backend.begin(context, hop)
        with hop.current():
            retrieval = _retrieval(backend, question, context, given)
        _link_search(hop, retrieval)
        asked = _asked(backend, question, context, answer, retrieval)
        replies = yield from _replies(backend, asked, model, hop)
        held = yield from hold_against_memory(backend, asked, replies, model, hop)
        decision = conclude(
            held.asked,
            held.replies,
            overrides=held.overrides,
            stale=_stale(backend, retrieval),
            now=backend.clock.now(),
            span=hop.ref,
        )
        backend.ledger.decisions.save(decision, context.arm, context.attempt)
        backend.metrics.decided(decision)
        hop.set(lambda: decided(decision, retrieval.candidates, backend.tracing.content))
        return cast(Decision[AnswerT], decision)
    except BaseException as error:
        hop.failed(error)
        raise
    finally:
        hop.end()


def _asked(
    backend: Backend, question: str, context: MemoryContext, answer: type[Any], retrieval: Retrieval
) -> Asked:
    schema = _schema(backend, answer, retrieval)
    return Asked(
        id=backend.new_id("d"),
        context=context,
        question=clean(question),
        schema=schema,
        sent=decision_messages(clean(question), retrieval.text, schema),
        retrieval=retrieval,
        options=backend.config.structured_output,
    )


def _replies(
    backend: Backend, asked: Asked, model: BaseChatModel, hop: Hop
) -> Steps[tuple[Settled, ...]]:
    replies: list[Settled] = []
    while next_step(replies, backend.config.decide_retries) == "again":
        reply = yield ModelCall(model, asked.schema, asked.sent, asked.options, hop)
        replies.append(settle_reply(reply, asked.schema))
    return tuple(replies)


def _retrieval(
    backend: Backend, question: str, context: MemoryContext, given: Retrieval | str | None
) -> Retrieval:
    if given is None:
        asked = recall.request(backend, question, context, DEFAULT_K, None, None)
        return recall.recall(backend, asked)
    if isinstance(given, str):
        return recall.stored_retrieval(backend, context.workspace_id, clean(given))
    if given.workspace_id != context.workspace_id:
        raise ConfigError(
            f"retrieval {given.id!r} is of workspace {given.workspace_id!r}, and the context's "
            f"is {context.workspace_id!r}: recall with the same context."
        )
    return given


def _link_search(hop: Hop, retrieval: Retrieval) -> None:
    if retrieval.span and hop.ref and retrieval.span.trace_id != hop.ref.trace_id:
        hop.link(retrieval.span.traceparent, "retrieved_by")


def _schema(backend: Backend, answer: type[Any], retrieval: Retrieval) -> type[Reasoned]:
    config = backend.config
    return decision_schema(
        answer,
        max_reasoning_chars=config.max_reasoning_chars,
        cite_from=[c.record_id for c in retrieval.injected] if config.cite_by_enum else None,
    )


def _stale(backend: Backend, retrieval: Retrieval) -> set[str]:
    ids = [candidate.record_id for candidate in retrieval.candidates]
    records = backend.ledger.records.get_many(retrieval.workspace_id, ids)
    return {i for i in ids if i not in records or records[i].status != "active"}
