"""What makes two proposals the same one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, cast

from memplugin.config import USER_KEY, MemoryContext, checked_scope
from memplugin.errors import ConfigError
from memplugin.records import Claim, Proposal, Scope
from memplugin.text import canonical_json, clean, clean_json, digest, normalised


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
    """
    parts = [context.workspace_id, record_id, context.session_id, context.task]
    nature = canonical_json([supports, dict(scope), dict(claim) if claim else None, note])
    return "e_" + digest(*parts, str(context.attempt), nature)


DIRECT_CONFIDENCE = 0.9
"""Seed of confidence of what a caller writes without saying how sure it is: trusted, with
room above for evidence to confirm it (from 1.0 a confirmation would move nothing)."""


def direct_proposal(
    content: str,
    *,
    context: MemoryContext,
    now: datetime,
    kind: str = "fact",
    scope: Mapping[str, str] | None = None,
    claim: Mapping[str, Any] | None = None,
    confidence: float | None = None,
    pinned: bool = False,
    occurred_at: datetime | None = None,
    source: str | None = None,
    around: str | None = None,
    shared: bool = False,
) -> Proposal:
    """Makes the proposal, checked and cleaned. An empty content is the gate's to reject.

    Args:
        content: The memory.
        context: Where it belongs.
        now: When it occurred, unless ``occurred_at`` says.
        kind: ``preference``, ``instruction``, ``fact``, ``belief``, ``tip``, ``episode``
            or one of the caller's.
        scope: When it applies; the context's user is added, unless a ``user`` is given.
        claim: ``{field: value}``, values JSON scalars.
        confidence: 0 to 1; None for ``DIRECT_CONFIDENCE``.
        pinned: Whether evidence leaves it unmoved.
        occurred_at: With a time zone.
        source: Where it comes from, in the caller's words.
        around: Text that is indexed with it and never shown.
        shared: True leaves the context's user out: it applies to everyone in the workspace.

    Raises:
        ConfigError: an argument can't be used; the message names it.
    """
    text = _text("content", content)
    name = _text("kind", kind).strip()
    if not name:
        raise ConfigError("kind is empty: give one, such as 'fact'.")
    where = _scope(scope, context, shared=shared)
    says = checked_claim(claim)
    stripped = text.strip()
    return Proposal(
        id=proposal_id(context, "write", stripped, name, where, says, pinned=bool(pinned)),
        operation="write",
        content=stripped,
        kind=name,
        scope=where,
        claim=says,
        confidence=_confidence(confidence),
        occurred_at=_moment(occurred_at, now),
        pinned=bool(pinned),
        source=_optional_text("source", source),
        around=_optional_text("around", around),
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
    fields = cast(Mapping[object, object], claim)
    for key, value in fields.items():
        if not isinstance(key, str) or not clean(key).strip():
            raise ConfigError(f"claim has the field {key!r}: {expected}.")
        if not isinstance(value, str | int | float | bool | None):
            raise ConfigError(f"claim[{key!r}] is a {type(value).__name__}: {expected}.")
    cleaned = cast(dict[str, Any], clean_json(fields))
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
