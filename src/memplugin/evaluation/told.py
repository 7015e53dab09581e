"""What was there before the request: sessions, and records written as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from memplugin.evaluation.parts import ClaimMap, GoldFact, Misreading, Part, ScopeMap

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
