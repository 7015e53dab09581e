"""Answers that go against memory: finding them, asking again, enforcing; and what supports one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ValidationError

from memplugin.claims import precedence
from memplugin.records import Candidate, Json, MemoryRecord, Override, Retrieval, Support
from memplugin.text import normalised
from memplugin.use.prompt import render_claims
from memplugin.use.schema import Reasoned, answer_of, keys_of, problems_of

_SHORTEST = 3
"""Characters of an answer that is looked up in texts; shorter ones stand in too many."""


def chosen_support(
    answer: Mapping[str, Any], cited: Collection[str], candidates: Sequence[Candidate]
) -> Support | None:
    """The best ranked record that supports an answer.

    Records that claim what the answer says count before those the model cited, and these
    before those whose text only names the answer. A record whose scope does not apply
    supports nothing here.

    Args:
        answer: The answer's fields as JSON values, without its reasoning.
        cited: Ids that the model cited.
        candidates: All of the retrieval, also those that were cut.

    Returns:
        The best-ranked such record; None when there is none.
    """
    applicable = [c for c in candidates if c.cut != "inapplicable_scope"]
    named = [_whole_word(text) for text in _texts(answer) if len(text) >= _SHORTEST]
    ways: tuple[Callable[[Candidate], bool], ...] = (
        lambda c: claims(c.claim or {}, answer),
        lambda c: c.record_id in cited,
        lambda c: any(word.search(normalised(c.content)) for word in named),
    )
    for supports in ways:
        if found := [c for c in applicable if supports(c)]:
            best = min(found, key=lambda c: c.rank)
            return Support(best.record_id, best.rank, best.score, best.injected)
    return None


def claims(claim: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Whether a claim shares a field with the answer, and agrees in every one it shares."""
    shared = claim.keys() & answer.keys()
    return bool(shared) and all(same(claim[field], answer[field]) for field in shared)


def same(left: object, right: object) -> bool:
    """Equality of two JSON values; of texts without regard to case and blanks."""
    if isinstance(left, str) and isinstance(right, str):
        return normalised(left) == normalised(right)
    if isinstance(left, bool) or isinstance(right, bool):  # True == 1 in Python, not in JSON
        return left is right
    return left == right


def _texts(answer: Mapping[str, Any]) -> Iterator[str]:
    for value in answer.values():
        for one in cast(list[object], value) if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield normalised(one)


def _whole_word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")


_ASK_AGAIN = """Your answer names another value than memory does, for {fields}. These are the \
memories that hold here, each with what it claims:

{block}

Decide the same request once more, from the beginning. If it calls for something else than \
these memories say, keep your answer, and say in memory_reasoning what in the request does. If \
not, follow them. Reply with one JSON object, its fields in the same order as before."""


def overrides_of(
    answer: Mapping[str, Any],
    claims: Sequence[MemoryRecord],
    sure: float,
    retrieval: Retrieval | None = None,
) -> tuple[Override, ...]:
    """Where an answer goes against memory, in the order of its fields.

    For each field the claims stand in the order in which ``resolve`` takes them. An answer
    in line with the first is none of these, whatever the others say. Any other is held
    against the first claim that is pinned or confident: a doubtful one hides no sure one.

    A null in the answer leaves the field open: it names no value, and so no other one. A
    claim of null says that the field is to be left open. A list names each of its items.

    Args:
        answer: The answer's fields as JSON values, without its reasoning.
        claims: Of active records that apply to the request, in any order.
        sure: Confidence from which a claim counts without being pinned.
        retrieval: The one that fed the decision, for the records' ranks.

    Returns:
        One for each field that goes against memory.
    """
    return tuple(
        _override(field, said, against, retrieval)
        for field, said in answer.items()
        if said is not None and (against := _against(field, said, claims, sure))
    )


def _against(
    field: str, said: object, claims: Sequence[MemoryRecord], sure: float
) -> MemoryRecord | None:
    about = [record for record in claims if field in (record.claim or {})]
    about.sort(key=precedence, reverse=True)
    if not about or _names(said, _claimed(about[0], field)):
        return None
    strong = next((r for r in about if r.pinned or r.confidence >= sure), None)
    return None if strong is None or _names(said, _claimed(strong, field)) else strong


def _claimed(record: MemoryRecord, field: str) -> Any:
    return (record.claim or {})[field]


def _names(said: object, claimed: object) -> bool:
    if isinstance(said, list):
        return any(same(one, claimed) for one in cast(list[object], said))
    return same(said, claimed)


def _override(
    field: str, said: object, record: MemoryRecord, retrieval: Retrieval | None
) -> Override:
    candidates = retrieval.candidates if retrieval else ()
    candidate = next((c for c in candidates if c.record_id == record.id), None)
    return Override(
        field=field,
        answer=said,
        claimed=_claimed(record, field),
        record_id=record.id,
        pinned=record.pinned,
        confidence=record.confidence,
        scope=record.scope,
        rank=candidate.rank if candidate else None,
        shown=candidate.injected if candidate else False,
    )


# ---------------------------------------------------------------- ask again


def ask_again_messages(
    received: Json, overrides: Sequence[Override], claims: Sequence[MemoryRecord]
) -> list[BaseMessage]:
    """What is sent after the messages of the first call: its reply, and the claims as data.

    Args:
        received: The first reply's values. They are sent as text: a tool call that nobody
            answers is an error at some providers.
        overrides: What the reply goes against; at least one.
        claims: The records among which theirs are.

    Returns:
        The model's answer, and the user's message about it.
    """
    named = {override.record_id for override in overrides}
    block = render_claims(record for record in claims if record.id in named)
    fields = ", ".join(override.field for override in overrides)
    return [
        AIMessage(json.dumps(received, ensure_ascii=False)),
        HumanMessage(_ASK_AGAIN.format(fields=fields, block=block)),
    ]


# ---------------------------------------------------------------- enforce


def enforce(
    schema: type[Reasoned], received: Json, overrides: Sequence[Override]
) -> tuple[BaseModel | None, tuple[Override, ...], str | None]:
    """Puts claimed values into an answer, as far as the answer's model takes them.

    All together, since its validators may compare fields; else one after the other.

    Args:
        schema: The decision schema.
        received: The reply's values.
        overrides: What the reply goes against; at least one.

    Returns:
        The new answer, None when it took no value; the overrides, those whose value it
        took marked; and what was wrong with the others.
    """
    keys = keys_of(schema)
    claimed = {keys.get(one.field, one.field): one.claimed for one in overrides}
    together = _validated(schema, {**received, **claimed})
    if isinstance(together, BaseModel):
        return together, tuple(replace(one, enforced=True) for one in overrides), None
    answer: BaseModel | None = None
    values, marked, wrong = received, list[Override](), list[str]()
    for one in overrides:
        changed = {**values, keys.get(one.field, one.field): one.claimed}
        tried = _validated(schema, changed)
        if isinstance(tried, BaseModel):
            answer, values = tried, changed
        else:
            wrong.append(f"what {one.record_id} claims could not be enforced ({tried})")
        marked.append(replace(one, enforced=isinstance(tried, BaseModel)))
    return answer, tuple(marked), "; ".join(wrong) or None


def _validated(schema: type[Reasoned], values: Json) -> BaseModel | str:
    try:
        return answer_of(schema, values)
    except ValidationError as error:
        return problems_of(error)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What flags are computed from.

    Attributes:
        answer: The answer's fields as JSON values, without its reasoning.
        cited: Ids that the model cited.
        reasoning_came_late: Whether a reasoning field stood after an answer's field in
            the raw reply.
        stale: Candidates that are no longer active when the decision is made.
        overrides: Where the answer goes, or went, against a claim.
        shown_again: Ids shown by the call that asked again.
    """

    answer: Json
    cited: Sequence[str]
    reasoning_came_late: bool
    retrieval: Retrieval | None
    support: Support | None
    stale: frozenset[str]
    overrides: Sequence[Override] = ()
    shown_again: Collection[str] = ()


Flag = Callable[[Evidence], str | None]


def unknown_citation(evidence: Evidence) -> str | None:
    """The model cited an id that it was not shown."""
    injected = evidence.retrieval.injected if evidence.retrieval else ()
    shown = {*(c.record_id for c in injected), *evidence.shown_again}
    return None if shown.issuperset(evidence.cited) else "unknown_citation"


def reasoning_after_answer(evidence: Evidence) -> str | None:
    """The reply gave an answer before its reasoning."""
    return "reasoning_after_answer" if evidence.reasoning_came_late else None


def memory_override(evidence: Evidence) -> str | None:
    """The model's answer names another value than a pinned or confident claim that applies."""
    return "memory_override" if evidence.overrides else None


def memory_enforced(evidence: Evidence) -> str | None:
    """A claimed value was put in place of the model's."""
    return "memory_enforced" if any(o.enforced for o in evidence.overrides) else None


def support_not_shown(evidence: Evidence) -> str | None:
    """The record that supports the answer was found and cut."""
    return "support_not_shown" if evidence.support and not evidence.support.shown else None


def stale_memory(evidence: Evidence) -> str | None:
    """A memory that was cited or supports the answer is no longer active."""
    used = {*evidence.cited, *([evidence.support.id] if evidence.support else [])}
    return "stale_memory" if used & evidence.stale else None


FLAGS: tuple[Flag, ...] = (
    memory_override,
    memory_enforced,
    unknown_citation,
    reasoning_after_answer,
    support_not_shown,
    stale_memory,
)


def flags_of(evidence: Evidence, flags: Sequence[Flag] = FLAGS) -> tuple[str, ...]:
    """The names of the flags that are up, in the order of the list."""
    return tuple(name for flag in flags if (name := flag(evidence)))
