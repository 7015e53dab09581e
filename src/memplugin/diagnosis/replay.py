"""A stored decision run again, and the differences between the two runs.

A replay repeats the call whose reply the decision rests on: its messages as they are stored,
its schema and its options. Where the model was asked again after an override, that is the
second call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, cast

from pydantic_core import to_jsonable_python

from memplugin.chat.messages import message_to_json, messages_from_json, usage_of
from memplugin.chat.reply import StructuredReply, read_reply
from memplugin.diagnosis.stored_call import ReadAnswer, StoredCall
from memplugin.records import Decision, DecisionStatus, Json, Noun
from memplugin.use.decide import CheckedReply, own_fields
from memplugin.use.key_order import in_order, is_reasoning


@dataclass(frozen=True, slots=True)
class Changes(Noun):
    """What a replay changes; by default nothing.

    Attributes:
        without: Records that are not shown; the rest is byte for byte the same.
        k: Cuts the candidates of the original retrieval with another k.
        policy: Runs the original query again under another policy, over the records that
            existed at the time.
        max_reasoning_chars: ``maxLength`` of the reasoning fields, for a small model that
            does not know when to stop.
        cite_by_enum: Whether the schema offers only the shown ids as citations, for the
            same reason.
    """

    without: tuple[str, ...] = ()
    k: int | None = None
    policy: str | None = None
    max_reasoning_chars: int | None = None
    cite_by_enum: bool = False


@dataclass(frozen=True, slots=True)
class Run(Noun):
    """One of the two runs.

    Attributes:
        model: The name that the provider reported.
        messages: The messages as sent, in langchain-core's JSON form.
        answer: The answer's fields as the model gave them; None unless ``status`` is
            ``decided``.
        raw: The reply as received, in langchain-core's JSON form.
    """

    model: str | None
    messages: tuple[Json, ...]
    status: DecisionStatus
    answer: Json | None
    reasoning: str | None
    considered: str | None
    cited_record_ids: tuple[str, ...]
    order_preserved: bool | None
    detail: str | None
    usage: Json | None
    raw: Json | None


@dataclass(frozen=True, slots=True)
class Difference(Noun):
    """One difference between the two runs.

    Attributes:
        what: Where it is: ``messages[1]``, ``answer.vendor_id``, ``reasoning`` …
    """

    what: str
    original: Any
    replayed: Any


@dataclass(frozen=True, slots=True)
class Replay(Noun):
    """A decision and its replay, of which nothing is stored.

    Attributes:
        exact: Whether the same messages and schema were sent, byte for byte.
        same_answer: Whether both gave the same answer, its reasoning fields left out; None
            when one of them gave none.
        notes: What to know when reading the result.
    """

    decision_id: str
    workspace_id: str
    task_id: str
    changes: Changes
    original: Run
    replayed: Run
    exact: bool
    same_answer: bool | None
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()


def check_reply(reply: StructuredReply, schema: Json, read: ReadAnswer) -> CheckedReply:
    """Checks a reply against a stored schema.

    Args:
        reply: The reply of the model.
        schema: The strict JSON schema that was asked for.
        read: Takes the answer out of the values of the reply.

    Returns:
        The answer, or why there is none.
    """
    if reply.values is None:
        status = "invalid" if reply.status == "ok" else reply.status
        return CheckedReply(reply, status, detail=reply.detail)
    answer, wrong = read(reply.values)
    return CheckedReply(
        reply,
        "invalid" if answer is None else "decided",
        values=answer,
        **own_fields(reply.values),
        order_preserved=in_order(schema, reply.values) if reply.ordered else None,
        detail=wrong,
    )


def replayed_run(settled: CheckedReply, call: StoredCall) -> Run:
    """The run of a call that was made now."""
    return Run(
        model=settled.reply.model,
        messages=tuple(message_to_json(message) for message in call.messages),
        status=settled.status,
        answer=settled.values,
        reasoning=settled.reasoning,
        considered=settled.considered,
        cited_record_ids=settled.cited,
        order_preserved=settled.order_preserved,
        detail=settled.detail,
        usage=settled.reply.usage,
        raw=settled.reply.raw,
    )


def original_run(decision: Decision[Any], call: StoredCall, read: ReadAnswer) -> Run:
    """The run of the same call when the decision was made.

    The answer is what the model gave, also where a claim was enforced afterwards. It is
    read from the raw reply, as that of the replay is, so that the two can be compared.

    Args:
        decision: The stored decision.
        call: The call that it rests on.
        read: Takes the answer out of the values of a reply.

    Returns:
        The run.
    """
    received = messages_from_json([decision.raw])[0] if decision.raw else None
    values = read_reply(received).values if received else None
    answer = read(values)[0] if values and decision.status == "decided" else None
    return Run(
        model=decision.model,
        messages=tuple(message_to_json(message) for message in call.messages),
        status=decision.status,
        answer=answer or _kept_answer(decision),
        reasoning=decision.reasoning,
        considered=decision.considered,
        cited_record_ids=decision.cited_record_ids,
        order_preserved=decision.order_preserved,
        detail=decision.detail,
        usage=usage_of(received) if received else None,
        raw=decision.raw,
    )


def _kept_answer(decision: Decision[Any]) -> Json | None:
    answer = cast(Json | None, to_jsonable_python(decision.answer))
    given = {one.field: one.answer for one in decision.overrides if one.enforced}
    return {**answer, **given} if answer is not None else None


# ---------------------------------------------------------------- compare

_COMPARED = (
    "model",
    "status",
    "reasoning",
    "considered",
    "cited_record_ids",
    "order_preserved",
    "detail",
)


def same_answer(original: Run, replayed: Run) -> bool | None:
    """Whether two runs gave the same answer, its reasoning fields left out."""
    if original.answer is None or replayed.answer is None:
        return None
    return not any(
        not is_reasoning(name) for name, _, _ in _unequal(original.answer, replayed.answer)
    )


def differences(original: Run, replayed: Run) -> Iterator[Difference]:
    """The differences between two runs, in the order of messages, reply and answer."""
    for place, (one, other) in enumerate(zip_longest(original.messages, replayed.messages)):
        if one != other:
            yield Difference(f"messages[{place}]", _content(one), _content(other))
    for name in _COMPARED:
        one, other = getattr(original, name), getattr(replayed, name)
        if one != other:
            yield Difference(name, one, other)
    for name, one, other in _unequal(original.answer or {}, replayed.answer or {}):
        yield Difference(f"answer.{name}", one, other)


def _unequal(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for name in dict.fromkeys([*one, *other]):
        # A field that is left out equals one that is null.
        if one.get(name) != other.get(name):
            yield name, one.get(name), other.get(name)


def _content(message: Json | None) -> Any:
    return message["data"]["content"] if message else None
