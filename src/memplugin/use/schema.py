"""The decision schema: the caller's answer with the reasoning put before it.

Structured output is generated in the order of the schema, so that a reason can lead to
an answer only when its field stands before the answer's.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, create_model
from pydantic import model_validator as model_validator
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from memplugin.errors import SchemaError
from memplugin.records import Json
from memplugin.strict import null_means_default, objects_in, strict_schema

_REASONING = re.compile(
    r"(?:^|_)(?:reasons?|reasoning|rationales?|explanations?|justifications?|thoughts?|why"
    r"|analysis)$"
)
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class _Made:
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
    considered: str = Field(description="The runner-up, and why it was not chosen.")
    cited_record_ids: list[str] = Field(
        description="Ids of the memories relied on, as shown; empty when none was."
    )

    _made: ClassVar[_Made]

    @classmethod
    def model_json_schema(
        cls,
        by_alias: bool = True,  # noqa: FBT001, FBT002 -- Pydantic's signature
        ref_template: str = "#/$defs/{model}",
        schema_generator: type[GenerateJsonSchema] = GenerateJsonSchema,
        mode: JsonSchemaMode = "validation",
        **further: Any,
    ) -> Json:
        """The strict form, whoever asks: LangChain asks the class too."""
        schema = super().model_json_schema(
            by_alias, ref_template, schema_generator, mode, **further
        )
        return strict_schema(schema)

    @model_validator(mode="wrap")
    @classmethod
    def _null_means_default(cls, values: Any, handler: ModelWrapValidatorHandler[Any]) -> Any:
        if not isinstance(values, Mapping):
            return handler(values)
        return null_means_default(handler, cast(Mapping[str, Any], values))


OWN_FIELDS = tuple(Reasoned.model_fields)
"""Our fields, in the order in which they are generated."""


def is_reasoning(name: str) -> bool:
    """Whether a field is called like reasoning: ``reason``, ``urgency_reason``, ``whyNot`` not."""
    return bool(_REASONING.search(_HUMPS.sub("_", name).lower()))


def decision_schema(
    answer: type[BaseModel],
    *,
    max_reasoning_chars: int | None = None,
    cite_from: Sequence[str] | None = None,
    answer_fields: Collection[str] = (),
) -> type[Reasoned]:
    """Builds the flat schema of a decision.

    First ``memory_reasoning``, ``considered`` and ``cited_record_ids``, then the answer's
    fields. Every field is required; one with a default may be null, and then gets its
    default in ``answer_of``.

    Args:
        answer: What the caller wants decided; a decision schema is taken as it is, with
            what the other arguments add.
        max_reasoning_chars: ``maxLength`` of the two reasoning texts. It steers the
            model; a longer text is still read.
        cite_from: The ids offered as citations; None leaves them free. It steers the
            model too: another id is still read.
        answer_fields: Fields that are part of the answer though they are called like
            reasoning (``cancellation_reason``).

    Raises:
        SchemaError: reasoning after an answer, a free dict, a field called like ours, or
            no model with fields.
    """
    given = cast(object, answer)
    if not (isinstance(given, type) and issubclass(given, BaseModel)):
        raise SchemaError(f"{given!r} is no Pydantic model: give a class made from BaseModel.")
    made = _Made(
        answer,
        frozenset(answer_fields),
        max_reasoning_chars,
        None if cite_from is None else tuple(cite_from),
    )
    if issubclass(answer, Reasoned):
        return _extended(answer, made)
    return _built(made)


def _extended(schema: type[Reasoned], added: _Made) -> type[Reasoned]:
    old = _made_from(schema)
    made = _Made(
        old.answer,
        old.answer_fields | added.answer_fields,
        old.max_reasoning_chars if added.max_reasoning_chars is None else added.max_reasoning_chars,
        old.cite_from if added.cite_from is None else added.cite_from,
    )
    return schema if made == old else _built(made)


def _made_from(schema: type[Reasoned]) -> _Made:
    return schema._made  # pyright: ignore[reportPrivateUsage] -- underscored, since a public name could clash with an answer's field


def _built(made: _Made) -> type[Reasoned]:
    answer = made.answer
    _check_fields(answer)
    try:
        schema = create_model(
            f"{answer.__name__}Decision",
            __base__=Reasoned,
            __doc__=answer.__doc__ or "A decision, the reasoning first.",
            __module__=answer.__module__,
            **_own_fields(made),
            **{name: _required(info) for name, info in answer.model_fields.items()},
        )
        schema._made = made  # pyright: ignore[reportPrivateUsage] -- see _made_from
        properties = schema.model_json_schema()["properties"]
    except PydanticUserError as error:
        raise SchemaError(
            f"{answer.__name__} can't be written as a JSON schema ({error.message}): give its "
            "fields types that JSON has."
        ) from error
    answers = {name: inner for name, inner in properties.items() if name not in OWN_FIELDS}
    _check_order({"properties": answers}, made)
    return schema


def _own_fields(made: _Made) -> dict[str, Any]:
    longest = {} if made.max_reasoning_chars is None else {"maxLength": made.max_reasoning_chars}
    ids: Json = {}
    if made.cite_from is not None:
        ids["maxItems"] = len(made.cite_from)
    if made.cite_from:
        ids["items"] = {"type": "string", "enum": list(made.cite_from)}
    extras = {"memory_reasoning": longest, "considered": longest, "cited_record_ids": ids}
    return {
        name: Annotated[
            cast(Any, info.annotation),
            Field(description=info.description, json_schema_extra=extras[name] or None),
        ]
        for name, info in Reasoned.model_fields.items()
    }


def _required(info: FieldInfo) -> Any:
    """The field without its default: nullable instead."""
    parts = info.asdict()
    attributes = {
        key: value
        for key, value in parts["attributes"].items()
        if key not in ("default", "default_factory", "validate_default")
    }
    kind = Annotated[(cast(Any, parts["annotation"]), *parts["metadata"])] if parts["metadata"] else parts["annotation"]
    return Annotated[kind if info.is_required() else kind | None, Field(**attributes)]
