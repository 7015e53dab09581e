"""The decision schema: an answer model with reasoning and citations before its fields."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

from pydantic import (
    BaseModel,
    Field,
    ModelWrapValidatorHandler,
    RootModel,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from memplugin.chat.json_schema import null_means_default, objects_in, strict_schema
from memplugin.errors import SchemaError
from memplugin.records import Json
from memplugin.use import key_order


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
        """The strict form, whoever asks: LangChain asks the class too. See ``BaseModel``."""
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


def _made_from(schema: type[Reasoned]) -> Made:
    """What a decision schema was made from."""
    return schema._made  # pyright: ignore[reportPrivateUsage] -- underscored, since a public name could clash with an answer's field


def json_schema_of(schema: type[Reasoned]) -> Json:
    """The strict JSON schema of a decision schema, made once; not to be changed."""
    return schema._strict  # pyright: ignore[reportPrivateUsage] -- see _made_from


_DEFAULTS = frozenset({"default", "default_factory", "validate_default"})


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

    Returns:
        The schema; the same class again when it is one already and nothing changes.

    Raises:
        SchemaError: reasoning after an answer, a free dict, a field called like ours, or
            no model with fields.
    """
    given = cast(object, answer)
    if not (isinstance(given, type) and issubclass(given, BaseModel)):
        raise SchemaError(f"{given!r} is no Pydantic model: give a class made from BaseModel.")
    made = Made(
        answer,
        frozenset(answer_fields),
        max_reasoning_chars,
        None if cite_from is None else tuple(cite_from),
    )
    if issubclass(answer, Reasoned) and "_made" in vars(answer):
        return _extended(answer, made)
    return _built(made)


def _extended(schema: type[Reasoned], added: Made) -> type[Reasoned]:
    old = _made_from(schema)
    made = Made(
        old.answer,
        old.answer_fields | added.answer_fields,
        old.max_reasoning_chars if added.max_reasoning_chars is None else added.max_reasoning_chars,
        old.cite_from if added.cite_from is None else added.cite_from,
    )
    return schema if made == old else _built(made)


def _built(made: Made) -> type[Reasoned]:
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
        schema._strict = schema.model_json_schema()  # pyright: ignore[reportPrivateUsage] -- see _made_from
    except PydanticUserError as error:
        raise SchemaError(
            f"{answer.__name__} can't be written as a JSON schema ({error.message}): give its "
            "fields types that JSON has."
        ) from error
    _check_order(json_schema_of(schema), made)
    return schema


def _own_fields(made: Made) -> dict[str, Any]:
    longest = {} if made.max_reasoning_chars is None else {"maxLength": made.max_reasoning_chars}
    ids: Json = {}
    if made.cite_from is not None:
        ids["maxItems"] = len(made.cite_from)
    if made.cite_from:
        ids["items"] = {"type": "string", "enum": list(made.cite_from)}
    extras: dict[str, Any] = {
        "memory_reasoning": longest,
        "considered": longest,
        "cited_record_ids": ids,
    }
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
        if value is not None and key not in _DEFAULTS
    }
    kind: Any = parts["annotation"]
    for extra in parts["metadata"]:  # Annotated of Annotated is flat
        kind = Annotated[kind, extra]
    return Annotated[kind if info.is_required() else kind | None, Field(**attributes)]


def _check_fields(answer: type[BaseModel]) -> None:
    if issubclass(answer, RootModel) or not answer.model_fields:
        raise SchemaError(f"{answer.__name__} has no fields: declare what is to be decided.")
    for name, info in answer.model_fields.items():
        for used in (name, info.alias, info.validation_alias):
            if used in OWN_FIELDS:
                raise SchemaError(
                    f"{answer.__name__} has a field {used!r}, which every decision has "
                    "already: give it another name."
                )


def _check_order(schema: Json, made: Made) -> None:
    answers: Json = {
        "properties": {k: v for k, v in schema["properties"].items() if k not in OWN_FIELDS}
    }
    names = {name for _, node in objects_in(answers) for name in node["properties"]}
    if unknown := made.answer_fields - names:
        raise SchemaError(
            f"answer_fields names {', '.join(sorted(unknown))}, which {made.answer.__name__} "
            "has not: give names of its fields."
        )
    found = key_order.misplaced_reasoning(answers, made.answer_fields)
    if not found:
        return
    name = found.path.rpartition(".")[2]
    raise SchemaError(
        f"{found.path!r} of {made.answer.__name__} comes after {found.after!r}: fields are "
        "generated in order (those of a base class first), so that a reason after the answer "
        "can't have led to it. Declare it before every answer field of its model. If it is "
        f"an answer that is only called like a reason, pass answer_fields={{{name!r}}}."
    )


def _answer_type(schema: type[Reasoned]) -> type[BaseModel]:
    """The caller's model that a decision schema was built from."""
    return _made_from(schema).answer


def answer_of(schema: type[Reasoned], values: Mapping[str, Any]) -> BaseModel:
    """The caller's model, filled from a reply; its own validators have the last word.

    Null stands for a field's default, unless None is valid for the field.

    Raises:
        pydantic.ValidationError: the values don't fit.
    """
    model = _answer_type(schema)
    own = {key: value for key, value in values.items() if key not in OWN_FIELDS}
    return null_means_default(lambda v: model.model_validate_json(json.dumps(v)), own)


def problems_of(error: ValidationError) -> str:
    """What a validation found, each with its place; without the values, which may be texts."""
    problems = error.errors(include_url=False, include_context=False)
    return "; ".join(
        f"{'.'.join(str(step) for step in p['loc']) or 'answer'}: {p['msg']}" for p in problems
    )


def keys_of(schema: type[Reasoned]) -> dict[str, str]:
    """The answer's fields by name, each with the key that it has in a reply."""
    keys = [key for key in json_schema_of(schema)["properties"] if key not in OWN_FIELDS]
    return dict(zip(_answer_type(schema).model_fields, keys, strict=True))


def answer_values(schema: type[Reasoned], answer: BaseModel) -> Json:
    """The answer's fields as JSON values, by name, without its reasoning fields."""
    aliases = {name: info.alias or name for name, info in type(answer).model_fields.items()}
    reasons = _reasons(schema)
    return {
        name: value
        for name, value in answer.model_dump(mode="json").items()
        if not reasons(aliases.get(name, name))
    }


def _reasons(schema: type[Reasoned]) -> key_order.IsReasoning:
    answers = _made_from(schema).answer_fields
    ours = ("memory_reasoning", "considered")
    return lambda name: name in ours or (name not in answers and key_order.is_reasoning(name))


def order_preserved(schema: type[Reasoned], received: Mapping[str, Any] | None) -> bool | None:
    """Whether the raw reply's keys stand in the schema's order, at every level.

    Args:
        schema: The decision schema that was sent.
        received: Its values in the order received; None when that can't be known.
    """
    return None if received is None else key_order.in_order(json_schema_of(schema), received)


def reasoning_after_answer(schema: type[Reasoned], received: Mapping[str, Any] | None) -> bool:
    """Whether a reasoning field stands after an answer's field in the raw reply."""
    if received is None:
        return False
    return key_order.reasoning_after_answer(
        json_schema_of(schema), received, _reasons(schema), {"cited_record_ids"}
    )
