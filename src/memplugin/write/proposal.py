"""What a caller asks to be stored or reports as observed, as checked proposals with their ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal, cast

from memplugin.claims import same_claim
from memplugin.config import USER_KEY, MemoryConfig, MemoryContext, checked_scope
from memplugin.errors import ConfigError
from memplugin.records import (
    INSTEAD_OF,
    Claim,
    Evidence,
    MemoryRecord,
    Observation,
    Proposal,
    Scope,
    WriteRequest,
)
from memplugin.text import canonical_json, clean, clean_json, digest, normalised
from memplugin.write.confidence import is_narrower


def proposal_id(
    context: MemoryContext,
    operation: Literal["write", "remember"],
    content: str,
    kind: str,
    scope: Scope,
    claim: Claim | None,
    *,
    turn_id: str | None = None,
    pinned: bool = False,
) -> str:
    """Names what is proposed; the same again is the same proposal.

    Kind, scope, claim and pin are part of it: the same words about another house are
    another memory, and writing something again to pin it is not a repetition.

    Args:
        context: Its workspace and session.
        operation: Of the proposal.
        content: Compared in its normal form.
        kind: Of the memory.
        scope: When it applies.
        claim: What it says of a field.
        turn_id: The turn it was extracted from.
        pinned: Whether evidence leaves it unmoved.

    Returns:
        ``p_`` and a hash.
    """
    parts = [context.workspace_id, context.session_id, turn_id or "-", operation]
    nature = canonical_json([kind, dict(scope), dict(claim) if claim else None, pinned])
    return "p_" + digest(*parts, normalised(content), nature)


def evidence_id(
    context: MemoryContext,
    record_id: str,
    *,
    supports: bool,
    scope: Scope,
    claim: Claim | None,
    note: str | None,
) -> str:
    """Names an observation; the same again in the same attempt of a task is counted once.

    A LangGraph node may run again from its top, and must not count twice. Weight and
    salience are left out: a model may grade the same observation otherwise the second time.
    To count it twice, say what differs in the note.

    Args:
        context: Its workspace, session, task and attempt.
        record_id: What was observed.
        supports: Whether it turned out as the record says.
        scope: Where it was observed.
        claim: What was observed instead.
        note: What was seen.

    Returns:
        ``e_`` and a hash.
    """
    parts = [context.workspace_id, record_id, context.session_id, context.task]
    nature = canonical_json([supports, dict(scope), dict(claim) if claim else None, note])
    return "e_" + digest(*parts, str(context.attempt), nature)


DIRECT_CONFIDENCE = 0.9
"""Seed of confidence of what a caller writes without saying how sure it is: trusted, with
room above for evidence to confirm it (from 1.0 a confirmation would move nothing)."""


_FIELDS = frozenset(field.name for field in fields(WriteRequest))


def write_request(item: str | Mapping[str, Any] | WriteRequest, place: int) -> WriteRequest:
    """Reads an item of ``write_many``.

    Raises:
        ConfigError: it has no content, or a field that no request has; names the place.
    """
    if isinstance(item, WriteRequest):
        return item
    if isinstance(item, str):
        return WriteRequest(item)
    if "content" not in item:
        raise ConfigError(f"item {place} has no content: give a text or a mapping with one.")
    if unknown := item.keys() - _FIELDS:
        raise ConfigError(f"item {place} has {', '.join(sorted(unknown))}: write takes no such.")
    return WriteRequest(**item)


def direct_proposal(request: WriteRequest, *, context: MemoryContext, now: datetime) -> Proposal:
    """Makes the proposal, checked and cleaned. An empty content is the gate's to reject.

    Args:
        request: What is to be stored.
        context: Where it belongs; its user is added to the scope, unless the request names
            one or is shared.
        now: When it occurred, unless the request says.

    Returns:
        A proposal of the operation ``write``.

    Raises:
        ConfigError: a field of the request can't be used; the message names it.
    """
    kind = _text("kind", request.kind).strip()
    if not kind:
        raise ConfigError("kind is empty: give one, such as 'fact'.")
    content = _text("content", request.content).strip()
    scope = _scope(request.scope, context, shared=request.shared)
    claim = checked_claim(request.claim)
    pinned = bool(request.pinned)
    return Proposal(
        id=proposal_id(context, "write", content, kind, scope, claim, pinned=pinned),
        operation="write",
        content=content,
        kind=kind,
        scope=scope,
        claim=claim,
        confidence=_confidence(request.confidence),
        occurred_at=_moment(request.occurred_at, now),
        pinned=pinned,
        source=_optional_text("source", request.source),
        around=_optional_text("around", request.around),
    )


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{name} is a {type(value).__name__}: give a string.")
    return clean(value)


def _optional_text(name: str, value: object) -> str | None:
    return None if value is None else _text(name, value).strip() or None


def _scope(scope: object, context: MemoryContext, *, shared: bool) -> dict[str, str]:
    if scope is not None and not isinstance(scope, Mapping):
        raise ConfigError(
            f"scope is a {type(scope).__name__}: give a dict of strings, "
            'such as {"trade": "pest"}.'
        )
    given = checked_scope(cast(Mapping[str, Any], scope or {}))
    if shared and USER_KEY in given:
        raise ConfigError(
            f"shared is True, but scope names the {USER_KEY} {given[USER_KEY]!r}: give one of them."
        )
    user = context.request_scope.get(USER_KEY)
    if shared or user is None:
        return given
    return checked_scope({USER_KEY: user, **given})


def checked_claim(claim: object) -> dict[str, Any] | None:
    """Returns a claim, cleaned; None for none.

    Raises:
        ConfigError: it is no mapping of fields to JSON scalars.
    """
    expected = 'give {"field": value} with JSON scalars as values, or None'
    if claim is None:
        return None
    if not isinstance(claim, Mapping) or not claim:
        raise ConfigError(f"claim is {claim!r}: {expected}.")
    pairs = cast(Mapping[object, object], claim)
    for key, value in pairs.items():
        if not isinstance(key, str) or not clean(key).strip():
            raise ConfigError(f"claim has the field {key!r}: {expected}.")
        if not isinstance(value, str | int | float | bool | None):
            raise ConfigError(f"claim[{key!r}] is a {type(value).__name__}: {expected}.")
    cleaned = cast(dict[str, Any], clean_json(pairs))
    try:
        canonical_json(cleaned)
    except ValueError as error:
        raise ConfigError(f"claim holds a number that is not finite: {expected}.") from error
    return cleaned


def _confidence(value: object) -> float:
    if value is None:
        return DIRECT_CONFIDENCE
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.0 <= value <= 1.0:
        return float(value)  # NaN is not between
    raise ConfigError(f"confidence is {value!r}: give a number from 0 to 1, or None.")


def _moment(value: object, now: datetime) -> datetime:
    if value is None:
        return now
    if not isinstance(value, datetime):
        raise ConfigError(f"occurred_at is a {type(value).__name__}: give a datetime.")
    if value.utcoffset() is None:
        raise ConfigError(
            "occurred_at has no time zone: give one, such as datetime(2026, 3, 2, tzinfo=UTC)."
        )
    return value


MOST_WEIGHT = 100.0

SCREENED = "[screened]"
"""Stands where the caller's screen stopped a note."""

NARROWER_SEED = 0.5
"""Confidence of a narrower belief before its first observation: it may be so or not."""


def evidence_from(
    observation: Observation,
    record: MemoryRecord,
    *,
    context: MemoryContext,
    config: MemoryConfig,
    now: datetime,
) -> tuple[Evidence, Proposal | None]:
    """What was observed, as evidence; and what was observed instead, as a proposal.

    There is a proposal where the record is contradicted by a request with a narrower scope
    (a narrower belief, or an exception without a claim), or by another claim in its own.

    Args:
        observation: How the record turned out. Its note is not kept where the screen stops it.
        record: What was observed.
        context: Of the request. Its scope and the record's together are where it was.
        config: The screen, and the least confidence of a record.
        now: When.

    Returns:
        The evidence, and the proposal where there is one.

    Raises:
        ConfigError: an argument can't be used, or the record is about another request.
    """
    supports = observation.supports
    where = _where(record, context)
    instead = _instead(record, checked_claim(observation.claim), supports=supports)
    said = _note(observation.note)
    kept = _screened(said, config)
    seen = Evidence(
        id=evidence_id(
            context, record.id, supports=supports, scope=where, claim=instead, note=said
        ),
        record_id=record.id,
        supports=supports,
        weight=_number("weight", observation.weight, MOST_WEIGHT),
        salience=_number("salience", observation.salience, 1.0),
        scope=where,
        at=now,
        session_id=context.session_id,
        task_id=context.task,
        note=kept or (SCREENED if said else None),
    )
    if supports or not (instead or is_narrower(where, record.scope)):
        return seen, None
    return seen, _narrower(record, seen, kept, instead, config)


def _where(record: MemoryRecord, context: MemoryContext) -> dict[str, str]:
    request = context.request_scope
    for key, value in record.scope.items():
        if request.get(key, value) != value:
            raise ConfigError(
                f"{record.id} holds where {key} is {value!r}, and the request's {key} is "
                f"{request[key]!r}: observe a record that applies to the request."
            )
    return dict(sorted({**request, **record.scope}.items()))


def _instead(record: MemoryRecord, claim: Claim | None, *, supports: bool) -> Claim | None:
    if claim and supports:
        raise ConfigError(
            "claim is what was observed instead of what the record says: leave it out, or "
            "give supports=False."
        )
    if claim and same_claim(claim, record.claim):
        raise ConfigError(
            f"claim is what {record.id} claims, and supports is False: give the value that was "
            "observed instead, or supports=True."
        )
    return claim


def _note(note: object) -> str | None:
    if note is not None and not isinstance(note, str):
        raise ConfigError(f"note is a {type(note).__name__}: give a text or None.")
    return clean(note).strip() or None if note else None


def _number(name: str, value: object, most: float) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most:
        return float(value)  # NaN is not between
    raise ConfigError(
        f"{name} is {value!r}: give a number from 0 to {most:g}. Whether it is for or against "
        "is said by supports."
    )


def _screened(note: str | None, config: MemoryConfig) -> str | None:
    return None if note and config.screen and config.screen(note) is not None else note


# ---------------------------------------------------------------- what holds there instead


def _narrower(
    record: MemoryRecord,
    seen: Evidence,
    note: str | None,
    claim: Claim | None,
    config: MemoryConfig,
) -> Proposal:
    """A proposal for where the record does not hold, for the gate to rule on."""
    return Proposal(
        id="p_" + digest(seen.id),
        operation="observe",
        content=note or _content(record, seen, claim),
        kind=record.kind,
        scope=seen.scope,
        claim=claim,
        confidence=max(NARROWER_SEED, config.min_confidence),
        occurred_at=seen.at,
        source=f"{INSTEAD_OF}{record.id}",
        # So that it is found by the questions that find what it is an exception to.
        around=record.content,
    )


def _content(record: MemoryRecord, seen: Evidence, claim: Claim | None) -> str:
    further = {key: value for key, value in seen.scope.items() if key not in record.scope}
    where = f" where {_listed(further)}" if further else ""
    if claim:
        return f"{_listed(claim)}{where}."
    return f"An exception{where}. Not so there: {record.content}"


def _listed(pairs: Mapping[str, Any]) -> str:
    values = {k: v if isinstance(v, str) else canonical_json(v) for k, v in pairs.items()}
    return " and ".join(f"{key} is {value}" for key, value in sorted(values.items()))
