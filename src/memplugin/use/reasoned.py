"""What every decision schema begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from pydantic import BaseModel, Field, ModelWrapValidatorHandler, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from memplugin.records import Json
from memplugin.strict import null_means_default, strict_schema


@dataclass(frozen=True, slots=True)
class Made:
    """What a decision schema was made from."""

    answer: type[BaseModel]
    answer_fields: frozenset[str]
    max_reasoning_chars: int | None
    cite_from: tuple[str, ...] | None


class Reasoned(BaseModel):
    """What every decision begins with; the answer's fields follow in a subclass."""

    memory_reasoning: str = Field(
        description="Which memories bear on this and how: quote the words relied on. Say so "
        "when none applies."
    )
    considered: str = Field(
        description="The runner-up, and why it was not chosen; none when there was no other."
    )
    cited_record_ids: list[str] = Field(
        description="Ids of the memories relied on, as shown; empty when none was."
    )

    _made: ClassVar[Made]
    _strict: ClassVar[Json]

    @classmethod
    def model_json_schema(
        cls,
        by_alias: bool | None = True,  # noqa: FBT001 -- Pydantic's signature
        ref_template: str = "#/$defs/{model}",
        schema_generator: type[GenerateJsonSchema] = GenerateJsonSchema,
        mode: JsonSchemaMode = "validation",
        **further: Any,
    ) -> Json:
        """The strict form, whoever asks: LangChain asks the class too."""
        return strict_schema(
            super().model_json_schema(by_alias, ref_template, schema_generator, mode, **further)
        )

    @model_validator(mode="wrap")
    @classmethod
    def _null_means_default(cls, values: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        if not isinstance(values, Mapping):
            return handler(values)
        return null_means_default(handler, cast(Mapping[str, Any], values))


OWN_FIELDS = tuple(Reasoned.model_fields)
"""Our fields, in the order in which they are generated."""


def made_from(schema: type[Reasoned]) -> Made:
    """What a decision schema was made from."""
    return schema._made  # pyright: ignore[reportPrivateUsage] -- underscored, since a public name could clash with an answer's field


def json_schema_of(schema: type[Reasoned]) -> Json:
    """The strict JSON schema of a decision schema, made once; not to be changed."""
    return schema._strict  # pyright: ignore[reportPrivateUsage] -- see made_from
