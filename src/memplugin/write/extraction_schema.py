"""What the extractor's model is asked to reply.

Every key is required and nothing is a free dict, as strict modes of providers want it.
What stands first is what the rest should follow from: where it was said, and how. Reading
is more lenient than the schema, since not every model is held to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from memplugin.records import Polarity
from memplugin.text import canonical_json

_MAY_BE_MISSING = ("speech_act", "time_phrase", "occurred_at", "scope", "claim")
_REASONING_TAGS = ("<think>", "</think>", "<thinking>", "</thinking>")


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


def _no_reasoning(value: str) -> str:
    if any(tag in value.lower() for tag in _REASONING_TAGS):
        raise ValueError("it holds the model's reasoning")
    return value


def _kind(value: str) -> str:
    kind = "_".join(value.split()).casefold()
    if not kind:
        raise ValueError("it is empty")
    return kind


def _probability(value: float) -> float:
    if not 0.0 <= value <= 1.0:  # NaN too
        raise ValueError("it is not between 0 and 1")
    return value


def _pairs(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [{"key": k, "value": v} for k, v in cast(Mapping[Any, Any], value).items()]
    return value


class ScopePair(BaseModel):
    """One condition under which a memory holds."""

    key: str
    value: str


class ClaimPair(BaseModel):
    """One field, and the value that the memory fixes for it."""

    key: str
    value: str | int | float | bool


class ProposedMemory(BaseModel):
    """One thing worth remembering."""

    turn_index: int = Field(description="Number of the turn the quote is from")
    quote: str = Field(description="Copied word for word from that turn")
    speech_act: str | None = Field(
        description="statement, request, question, correction or agreement"
    )
    polarity: Annotated[Polarity, BeforeValidator(_lower)] = Field(
        description="negative if the quote denies, refuses, forbids or ends something"
    )
    time_phrase: str | None = Field(description="The words that say when, copied; null if none")
    occurred_at: str | None = Field(description="The date meant, ISO 8601; null if none is meant")
    content: Annotated[str, AfterValidator(_no_reasoning)] = Field(
        description="The memory: one sentence that is understood without the conversation"
    )
    kind: Annotated[str, AfterValidator(_kind)] = Field(
        description="preference, instruction, fact, belief, tip or episode"
    )
    scope: Annotated[list[ScopePair] | None, BeforeValidator(_pairs)] = Field(
        description="What it is limited to; null if it holds everywhere"
    )
    claim: Annotated[list[ClaimPair] | None, BeforeValidator(_pairs)] = Field(
        description="The field it fixes, and the value; null if there is none"
    )
    confidence: Annotated[float, AfterValidator(_probability)] = Field(
        description="From 0 to 1: how sure it is that this was meant, and meant to last"
    )

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        if isinstance(given, Mapping):
            return {**dict.fromkeys(_MAY_BE_MISSING), **cast(Mapping[str, Any], given)}
        return given

    def scope_dict(self) -> dict[str, str]:
        """The scope as a dict.

        Raises:
            ValueError: a key is there twice, or empty.
        """
        return _unique("scope", self.scope or [])

    def claim_dict(self) -> dict[str, Any] | None:
        """The claim; None when there is none.

        Raises:
            ValueError: a key is there twice or empty, or a number is not finite.
        """
        claim = _unique("claim", self.claim or [])
        canonical_json(claim)
        return claim or None


class ExtractionReply(BaseModel):
    """Everything in the conversation that is worth remembering; often nothing."""

    memories: list[ProposedMemory]


def _unique(name: str, pairs: list[ScopePair] | list[ClaimPair]) -> dict[str, Any]:
    found: dict[str, Any] = {pair.key: pair.value for pair in pairs}
    if len(found) < len(pairs):
        raise ValueError(f"{name}: a key is there twice")
    if not all(key.strip() for key in found):
        raise ValueError(f"{name}: a key is empty")
    return found
