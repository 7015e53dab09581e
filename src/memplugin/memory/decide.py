"""The decision hop: a model is asked with the memories in front of it, and the decision kept."""

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
    CheckedReply,
    DecisionRequest,
    check_reply,
    conclude,
    decision_messages,
    next_step,
)
from memplugin.use.overrides import ask_again_messages, enforce, overrides_of
from memplugin.use.schema import Reasoned, answer_values, decision_schema

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
    """Asks the model, again where that may help, and stores the decision.

    Args:
        backend: The store.
        question: What is to be decided.
        context: Whose request it is.
        answer: Its Pydantic model, or what ``decision_schema`` made of one.
        model: Any chat model with structured output.
        given: A retrieval or its id; None recalls with the question.

    Returns:
        The decision; a model that fails is its ``status``.

    Raises:
        SchemaError: the answer can't become a decision schema.
        ConfigError: there is no such retrieval.
    """
    hop = backend.tracing.start(names.USE, context)
    try:
        backend.begin(context, hop)
        with hop.current():
            retrieval = _retrieval(backend, question, context, given)
        _link_search(hop, retrieval)
        request = _request(backend, question, context, answer, retrieval)
        replies = yield from _replies(backend, request, model, hop)
        compared = yield from _compare_with_memory(backend, request, replies, model, hop)
        decision = conclude(
            compared.request,
            compared.replies,
            overrides=compared.overrides,
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


def _request(
    backend: Backend, question: str, context: MemoryContext, answer: type[Any], retrieval: Retrieval
) -> DecisionRequest:
    schema = _schema(backend, answer, retrieval)
    return DecisionRequest(
        id=backend.new_id("d"),
        context=context,
        question=clean(question),
        schema=schema,
        sent=decision_messages(clean(question), retrieval.text, schema),
        retrieval=retrieval,
        options=backend.config.structured_output,
    )


def _replies(
    backend: Backend, request: DecisionRequest, model: BaseChatModel, hop: Hop
) -> Steps[tuple[CheckedReply, ...]]:
    replies: list[CheckedReply] = []
    while next_step(replies, backend.config.decide_retries) == "again":
        reply = yield ModelCall(model, request.schema, request.sent, request.options, hop)
        replies.append(check_reply(reply, request.schema))
    return tuple(replies)


def _retrieval(
    backend: Backend, question: str, context: MemoryContext, given: Retrieval | str | None
) -> Retrieval:
    if given is None:
        request = recall.checked_request(backend, question, context, DEFAULT_K)
        return recall.recall(backend, request)
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


# ---------------------------------------------------------------- answers against memory


@dataclass(frozen=True, slots=True)
class _Compared:
    """A decision's calls, compared with memory.

    Attributes:
        request: With the schema of the reply that counts.
        replies: Every call, that which asked again included.
        overrides: Where the reply that counts goes, or went, against memory.
    """

    request: DecisionRequest
    replies: tuple[CheckedReply, ...]
    overrides: tuple[Override, ...] = ()


def _compare_with_memory(
    backend: Backend,
    request: DecisionRequest,
    replies: tuple[CheckedReply, ...],
    model: BaseChatModel,
    hop: Hop,
) -> Steps[_Compared]:
    """Looks for overrides in the last reply; does about them what ``on_override`` says."""
    compared = _Compared(request, replies)
    claims = _claims(backend, request, replies[-1])
    found = _overrides(backend, request, replies[-1], claims)
    if not found:
        return compared
    compared = replace(compared, overrides=found)
    if backend.config.on_override == "ask_again":
        return (yield from _ask_again(backend, compared, claims, model, hop))
    return _enforce(compared) if backend.config.on_override == "enforce" else compared


def _claims(backend: Backend, request: DecisionRequest, reply: CheckedReply) -> list[MemoryRecord]:
    """Every claim of the workspace that applies, whether or not the recall brought it."""
    fields = [name for name, value in (reply.values or {}).items() if value is not None]
    scopes = applicable_keys(request.context.request_scope)
    return backend.ledger.search.claims(Selection(request.context.workspace_id, scopes), fields)


def _overrides(
    backend: Backend, request: DecisionRequest, reply: CheckedReply, claims: list[MemoryRecord]
) -> tuple[Override, ...]:
    sure = backend.config.override_confidence
    return overrides_of(reply.values or {}, claims, sure, request.retrieval)


def _ask_again(
    backend: Backend,
    compared: _Compared,
    claims: list[MemoryRecord],
    model: BaseChatModel,
    hop: Hop,
) -> Steps[_Compared]:
    request, first = compared.request, compared.replies[-1]
    messages = ask_again_messages(first.reply.values or {}, compared.overrides, claims)
    shown = frozenset(override.record_id for override in compared.overrides)
    schema = _citing(backend, request, shown)
    reply = yield ModelCall(model, schema, [*request.sent, *messages], request.options, hop)
    second = replace(check_reply(reply, schema), follow_up=messages, shown=shown)
    replies = (*compared.replies, second)
    if second.status != "decided":  # then the first answer stands, and its flag
        return replace(compared, replies=replies)
    still = _overrides(backend, request, second, _claims(backend, request, second))
    return _Compared(replace(request, schema=schema), replies, still)


def _citing(backend: Backend, request: DecisionRequest, shown: frozenset[str]) -> type[Reasoned]:
    if not backend.config.cite_by_enum:
        return request.schema
    injected = [c.record_id for c in request.retrieval.injected] if request.retrieval else []
    return decision_schema(
        request.schema, cite_from=list(dict.fromkeys([*injected, *sorted(shown)]))
    )


def _enforce(compared: _Compared) -> _Compared:
    last = compared.replies[-1]
    answer, overrides, wrong = enforce(
        compared.request.schema, last.reply.values or {}, compared.overrides
    )
    if answer is not None:
        values = answer_values(compared.request.schema, answer)
        last = replace(last, answer=answer, values=values)
    last = replace(last, detail=wrong)
    return replace(compared, replies=(*compared.replies[:-1], last), overrides=overrides)
