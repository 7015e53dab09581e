"""Decisions: what a model was asked, what it replied, and which flags were set."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Literal, TypeVar

from memplugin.records.base import Json, Noun, Scope, SpanRef

AnswerT = TypeVar("AnswerT")


DecisionStatus = Literal["decided", "truncated", "refused", "no_decision", "invalid", "error"]


@dataclass(frozen=True, slots=True)
class Support(Noun):
    """The best record that supports the chosen answer, and whether it was shown."""

    id: str
    rank: int
    score: float
    shown: bool


@dataclass(frozen=True, slots=True)
class Override(Noun):
    """A field for which an answer names another value than the claim that counts there.

    Attributes:
        field: Of the answer.
        answer: What the model said.
        claimed: What the record claims; None too when it was forgotten since.
        scope: The record's, by which it applies to the request.
        rank: The record's in the retrieval that fed the decision; None when no source
            brought it.
        shown: Whether that retrieval showed it. Where not, the model did not see it.
        enforced: Whether the claimed value stands in the decision's answer instead.
    """

    field: str
    answer: Any
    claimed: Any
    record_id: str
    pinned: bool
    confidence: float
    scope: Scope
    rank: int | None = None
    shown: bool = False
    enforced: bool = False


@dataclass(frozen=True, slots=True)
class Reply(Noun):
    """One call of the model for a decision.

    Attributes:
        status: What the reply was good for.
        raw: The message as received, in langchain-core's JSON form; None without one.
        detail: What was wrong with it.
        asked: Messages sent after ``Decision.sent`` for this call, in the same form: the
            call that asks again after an override has some.
    """

    status: DecisionStatus
    raw: Json | None = None
    detail: str | None = None
    asked: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision(Noun, Generic[AnswerT]):
    """One pure call: what was sent, what came back, and what was made of it.

    Attributes:
        answer: The caller's model; None unless ``status`` is ``decided``.
        reasoning: ``memory_reasoning`` of the reply.
        order_preserved: Whether the raw reply's keys stood in the schema's order; None
            when it can't be known.
        sent: The messages as sent, in langchain-core's JSON form.
        raw: The reply that counts as received, in langchain-core's JSON form: the last
            that decided, else the last.
        replies: Every call made, retries included.
        usage: Token counts as the model reported them, of all calls together.
        overrides: Where the answer goes against an applicable claim, whatever was then
            done about it.
        options: Arguments of the model's ``with_structured_output`` beside the schema.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    retrieval_id: str | None
    question: str
    status: DecisionStatus
    answer: AnswerT | None
    reasoning: str | None
    considered: str | None
    cited_record_ids: tuple[str, ...]
    flags: tuple[str, ...]
    chosen_support: Support | None
    memory_total: int
    memory_shown: int
    order_preserved: bool | None
    sent: tuple[Json, ...]
    raw: Json | None
    replies: tuple[Reply, ...]
    answer_schema: Json
    model: str | None
    usage: Json | None
    created_at: datetime
    detail: str | None = None
    span: SpanRef | None = None
    overrides: tuple[Override, ...] = ()
    options: Json = field(default_factory=dict[str, Any])
