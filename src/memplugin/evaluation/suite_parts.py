"""The parts of a suite: answers, gold facts, sessions, and records written as they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from memplugin.config import checked_scope
from memplugin.text import canonical_json
from memplugin.use.schema import decision_schema

FieldShape = (
    Literal["text", "integer", "number", "boolean"]
    | Annotated[tuple[str, ...], Field(min_length=1)]
)
"""A type, or the choices there are."""


_TYPES: dict[str, Any] = {"text": str, "integer": int, "number": float, "boolean": bool}


def _usable(shape: dict[str, FieldShape]) -> dict[str, FieldShape]:
    decision_schema(answer_model(shape))
    return shape


AnswerShape = Annotated[dict[str, FieldShape], Field(min_length=1), AfterValidator(_usable)]
"""The fields of an answer, in the order in which they are to be decided."""


def answer_model(shape: dict[str, FieldShape]) -> type[BaseModel]:
    """The Pydantic model of an answer; the same class for the same shape."""
    return _made(canonical_json(shape), tuple(shape.items()))


@lru_cache(maxsize=256)
def _made(_key: str, fields: tuple[tuple[str, FieldShape], ...]) -> type[BaseModel]:
    # Typed by its keyword arguments, of which none is ours: every one is a field.
    made: Any = create_model
    return made("Answer", **{name: (_type(shape), ...) for name, shape in fields})


def _type(shape: FieldShape) -> Any:
    if isinstance(shape, str):
        return _TYPES[shape]
    return cast(Any, Literal[shape])


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


_ROLES = ("user", "assistant", "tool", "system")


class Message(Part):
    """One thing that is said; ``{user: …}`` is short for a role and a content.

    Attributes:
        phrasing: How it is said, for the write suite: ``question``, ``hypothetical`` …;
            None takes the session's.
    """

    role: Literal["user", "assistant", "tool", "system"]
    content: str = Field(min_length=1)
    phrasing: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        said = dict[str, Any](given)  # pyright: ignore[reportUnknownArgumentType] -- of a file
        roles = [role for role in _ROLES if role in said]
        if "role" in said or len(roles) != 1:
            return said
        return {"role": roles[0], "content": said.pop(roles[0]), **said}


class Session(Part):
    """One conversation.

    Attributes:
        gold: What should be remembered of it; the scripted extractor proposes just that.
        annotators: Who has annotated it, where several have.
        misread: What a faulty extractor makes of it instead: other proposals, or no
            usable reply. Only the scripted model reads this.
    """

    id: str | None = None
    date: AwareDatetime | None = None
    user: str | None = None
    phrasing: str | None = None
    messages: tuple[Message, ...] = Field(min_length=1)
    gold: tuple[GoldFact, ...] = ()
    annotators: tuple[str, ...] = ()
    misread: Literal["refused", "truncated", "down"] | tuple[Misreading, ...] | None = None

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Self:
        for place, fact in enumerate(self.gold):
            if fact.turn >= len(self.messages):
                raise ValueError(
                    f"gold[{place}].turn is {fact.turn}, and there are {len(self.messages)} "
                    "messages: count them from 0"
                )
            if unknown := set(fact.by) - set(self.annotators):
                raise ValueError(
                    f"gold[{place}].by names {', '.join(sorted(unknown))}: list every "
                    "annotator in annotators"
                )
        return self


class DirectRecord(Part):
    """A record that is written as it is, before the first session.

    Attributes:
        key: By which ``need`` names it.
        date: When it became true; None for the day before the first session.
        repeat: How many of it; ``{n}`` in the content is the number, from 1.
        forgotten: Whether it is forgotten again before the request.
    """

    key: str | None = None
    content: str = Field(min_length=1)
    kind: str = "fact"
    scope: ScopeMap = Field(default_factory=dict)
    claim: ClaimMap | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    pinned: bool = False
    date: AwareDatetime | None = None
    user: str | None = None
    source: str | None = None
    around: str | None = None
    repeat: int = Field(default=1, ge=1, le=10_000)
    forgotten: bool = False

    @property
    def contents(self) -> list[str]:
        """Its content, as often as it is repeated."""
        if self.repeat == 1:
            return [self.content]
        return [self.content.replace("{n}", str(n)) for n in range(1, self.repeat + 1)]
