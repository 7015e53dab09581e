"""What the pieces of a suite have in common."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memplugin.config import checked_scope

Scalar = str | int | float | bool

ScopeMap = Annotated[dict[str, str], AfterValidator(checked_scope)]
ClaimMap = dict[str, Scalar]


class Part(BaseModel):
    """A piece of a suite. Unknown keys are errors: a typo must not be silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GoldFact(Part):
    """Something that should be remembered of a session.

    Attributes:
        turn: Number of the message that says it, from 0.
        quote: Its words; None for the whole message.
        by: The annotators who wrote it down; empty where it is everybody's.
    """

    content: str = Field(min_length=1)
    kind: str = "fact"
    turn: int = Field(default=0, ge=0)
    quote: str | None = None
    polarity: Literal["positive", "negative"] = "positive"
    scope: ScopeMap = Field(default_factory=dict)
    claim: ClaimMap | None = None
    time_phrase: str | None = None
    occurred_at: str | None = None
    by: tuple[str, ...] = ()


class Misreading(GoldFact):
    """What a faulty extractor proposes."""

    confidence: float = Field(default=0.9, ge=0, le=1)


class Planted(Part):
    """The fault that the scripted models have in a task, by the verdict it should get."""

    stage: Literal["write", "retrieval", "use", "none", "undetermined"]
    cause: str


class DeciderScript(Part):
    """How the scripted model answers.

    Attributes:
        follows: A pattern; the first shown memory that has it is followed and cited.
            None for the text that the task needs.
        then: The answer that follows it; None for the right one.
        otherwise: The answer without it, and that of a model with a fault; None for
            ``then``.
        fails: How a model that gives no answer fails.
    """

    follows: str | None = None
    then: dict[str, Scalar | None] | None = None
    otherwise: dict[str, Scalar | None] | None = None
    fails: Literal["talks", "refused", "truncated", "down"] = "talks"
