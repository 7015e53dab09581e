"""From an observation to evidence, and to the narrower belief that it may give rise to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.errors import ConfigError
from memplugin.records import INSTEAD_OF, Claim, Evidence, MemoryRecord, Observation, Proposal
from memplugin.text import canonical_json, clean, digest
from memplugin.write.confidence import is_narrower
from memplugin.write.proposal import checked_claim, evidence_id
from memplugin.write.sameness import same_claim

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
