"""From a suite's small answer schema to the model that a decision is made with."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, Field, create_model

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
