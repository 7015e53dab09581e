"""Extraction: from a model's reply to proposals. No model is called here.

What the model is sent is in ``extraction_prompt`` and ``extraction_schema``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import cast

from pydantic import ValidationError

from memplugin.chat.reply import StructuredReply
from memplugin.config import USER_KEY, MemoryConfig, MemoryContext, checked_scope
from memplugin.records import Proposal, Turn
from memplugin.text import clean, clean_json
from memplugin.write import quotes
from memplugin.write.dates import occurred_at, zone_of
from memplugin.write.extraction_prompt import (
    EXTRACTION_PROMPT,
    EXTRACTION_VERSION,
    extraction_messages,
    extractor_version,
)
from memplugin.write.extraction_schema import ExtractionReply, ProposedMemory
from memplugin.write.proposal import proposal_id
from memplugin.write.turns import numbered_turns

__all__ = [
    "EXTRACTION_PROMPT",
    "EXTRACTION_VERSION",
    "ExtractionReply",
    "ProposedMemory",
    "extraction_failure",
    "extraction_messages",
    "extractor_version",
    "numbered_turns",
    "proposals_from",
]


def extraction_failure(reply: StructuredReply) -> str | None:
    """Why the reply can't be read, None when it can. An empty list can be read.

    ``truncated``, ``refused``, ``no_reply``, ``invalid: …`` or ``error: …``.
    """
    match reply.status:
        case "ok":
            memories = cast(object, (reply.values or {}).get("memories"))
            return None if isinstance(memories, list) else "invalid: memories is not a list"
        case "no_decision":
            return "no_reply"
        case "truncated" | "refused":
            return reply.status
        case "invalid" | "error":
            return f"{reply.status}: {reply.detail or 'no detail'}"


def proposals_from(
    reply: StructuredReply,
    turns: Sequence[Turn],
    *,
    context: MemoryContext,
    now: datetime,
    config: MemoryConfig,
    unread_ids: Collection[str] | None = None,
) -> list[Proposal]:
    """The proposals in a reply that ``extraction_failure`` found nothing wrong with.

    A malformed item becomes a proposal with a ``defect``, which the gate fails: it is not
    lost, and does not take the others with it. Items that come to the same id are one.

    Args:
        reply: The extractor's reply.
        turns: Those the model was shown, in the same order.
        context: What is stored belongs to its user, if it has one.
        now: When a memory occurred whose turn is unknown.
        config: Trusted roles, time zone, and the version of the extractor.
        unread_ids: Turns that may be quoted; None for all.

    Returns:
        One for each memory in the reply, in its order.

    Raises:
        ConfigError: ``config.timezone`` is no time zone.
    """
    from_reply = _FromReply(
        turns=turns,
        context=context,
        now=now,
        zone=zone_of(config.timezone),
        trusted=frozenset(config.trusted_roles),
        unread=frozenset(t.id for t in turns) if unread_ids is None else frozenset(unread_ids),
        extractor=extractor_version(config),
    )
    items = cast(Sequence[object], (reply.values or {}).get("memories") or ())
    made: dict[str, Proposal] = {}
    for item in items:
        proposal = from_reply.proposal(item)
        made.setdefault(proposal.id, proposal)
    return list(made.values())


@dataclass(frozen=True, slots=True)
class _FromReply:
    """What every item of one reply has in common."""

    turns: Sequence[Turn]
    context: MemoryContext
    now: datetime
    zone: tzinfo
    trusted: frozenset[str]
    unread: frozenset[str]
    extractor: str

    def proposal(self, item: object) -> Proposal:
        try:
            memory = ProposedMemory.model_validate(clean_json(item))
            return self._sound(memory)
        except ValueError as error:
            return self._defective(item, _defect(error))

    def _sound(self, memory: ProposedMemory) -> Proposal:
        turn = self._turn(memory.turn_index)
        turn_id = turn.id if turn else None
        said_in = turn.text if turn and self._may_quote(turn) else None
        content, kind = memory.content.strip(), memory.kind
        scope, claim = checked_scope(self._owned(memory.scope_dict())), memory.claim_dict()
        return Proposal(
            id=proposal_id(self.context, "remember", content, kind, scope, claim, turn_id=turn_id),
            operation="remember",
            content=content,
            kind=kind,
            scope=scope,
            claim=claim,
            confidence=memory.confidence,
            occurred_at=self._occurred_at(memory, turn, said_in),
            polarity=memory.polarity,
            speech_act=memory.speech_act,
            quote=memory.quote.strip(),
            turn_id=turn_id,
            said_in=said_in,
            extractor=self.extractor,
            time_phrase=memory.time_phrase,
        )

    def _turn(self, index: int) -> Turn | None:
        return self.turns[index] if 0 <= index < len(self.turns) else None

    def _may_quote(self, turn: Turn) -> bool:
        return turn.role in self.trusted and turn.id in self.unread

    def _owned(self, scope: dict[str, str]) -> dict[str, str]:
        # Whose memory it is, is the context's to say and never the model's.
        user = self.context.request_scope.get(USER_KEY)
        rest = {key: value for key, value in scope.items() if key != USER_KEY}
        return {**rest, USER_KEY: user} if user else rest

    def _occurred_at(
        self, memory: ProposedMemory, turn: Turn | None, said_in: str | None
    ) -> datetime:
        phrase = memory.time_phrase
        said = phrase if phrase and said_in and quotes.find(phrase, said_in) else None
        said_at = turn.said_at if turn else self.now
        return occurred_at(memory.occurred_at, said, said_at=said_at, zone=self.zone)

    def _defective(self, item: object, defect: str) -> Proposal:
        raw = json.dumps(clean_json(item), sort_keys=True, ensure_ascii=False, default=str)
        fields = cast(Mapping[str, object], item if isinstance(item, Mapping) else {})
        content, kind = fields.get("content"), fields.get("kind")
        index = fields.get("turn_index")
        turn = self._turn(index) if isinstance(index, int) else None
        turn_id = turn.id if turn else None
        return Proposal(
            id=proposal_id(self.context, "remember", raw, "defect", {}, None, turn_id=turn_id),
            operation="remember",
            content=clean(content) if isinstance(content, str) else "",
            kind=clean(kind) if isinstance(kind, str) else "unknown",
            scope=self._owned({}),
            claim=None,
            confidence=0.0,
            occurred_at=self.now,
            turn_id=turn_id,
            extractor=self.extractor,
            defect=f"invalid: {defect}",
        )


def _defect(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return clean(str(error))
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return clean(f"{where}: {first['msg']}" if where else first["msg"])
