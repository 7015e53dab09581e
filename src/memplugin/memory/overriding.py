"""What is done about an answer that goes against memory, as ``on_override`` says."""

from __future__ import annotations

from dataclasses import dataclass, replace

from langchain_core.language_models import BaseChatModel

from memplugin.memory.steps import ModelCall, Steps
from memplugin.memory.store import Store
from memplugin.ports import Selection
from memplugin.records import MemoryRecord, Override
from memplugin.retrieval.scope import applicable_keys
from memplugin.telemetry.spans import Hop
from memplugin.use.decide import Asked, Settled, settle_reply
from memplugin.use.override import ask_again_messages, enforce, overrides_of
from memplugin.use.reasoned import Reasoned
from memplugin.use.schema import answer_values, decision_schema


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
    store: Store, asked: Asked, replies: tuple[Settled, ...], model: BaseChatModel, hop: Hop
) -> Steps[Held]:
    """Looks for overrides in the last reply; asks again once or changes the answer if told to."""
    held = Held(asked, replies)
    claims = _claims(store, asked, replies[-1])
    found = _overrides(store, asked, replies[-1], claims)
    if not found:
        return held
    held = replace(held, overrides=found)
    if store.config.on_override == "ask_again":
        return (yield from _asked_again(store, held, claims, model, hop))
    return _enforced(held) if store.config.on_override == "enforce" else held


def _claims(store: Store, asked: Asked, reply: Settled) -> list[MemoryRecord]:
    """Every claim of the workspace that applies, whether or not the recall brought it."""
    fields = [name for name, value in (reply.values or {}).items() if value is not None]
    scopes = applicable_keys(asked.context.request_scope)
    return store.ledger.claims(Selection(asked.context.workspace_id, scopes), fields)


def _overrides(
    store: Store, asked: Asked, reply: Settled, claims: list[MemoryRecord]
) -> tuple[Override, ...]:
    sure = store.config.override_confidence
    return overrides_of(reply.values or {}, claims, sure, asked.retrieval)


def _asked_again(
    store: Store, held: Held, claims: list[MemoryRecord], model: BaseChatModel, hop: Hop
) -> Steps[Held]:
    asked, first = held.asked, held.replies[-1]
    messages = ask_again_messages(first.reply.values or {}, held.overrides, claims)
    shown = frozenset(override.record_id for override in held.overrides)
    schema = _citing(store, asked, shown)
    reply = yield ModelCall(model, schema, [*asked.sent, *messages], asked.options, hop)
    second = replace(settle_reply(reply, schema), asked=messages, shown=shown)
    replies = (*held.replies, second)
    if second.status != "decided":  # then the first answer stands, and its flag
        return replace(held, replies=replies)
    still = _overrides(store, asked, second, _claims(store, asked, second))
    return Held(replace(asked, schema=schema), replies, still)


def _citing(store: Store, asked: Asked, shown: frozenset[str]) -> type[Reasoned]:
    if not store.config.cite_by_enum:
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
