"""JSON schemas as providers' strict modes want them, and the values that such schemas give.

Strict: every key required, in the order of the properties; nullable where the model has
a default; no further keys; no free dicts. Besides, references are written out and titles
and defaults left out, since several providers trip over them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memplugin.errors import SchemaError
from memplugin.records import Json

T = TypeVar("T")

_NULL: Json = {"type": "null"}
_DROPPED = frozenset({"$ref", "$defs", "title", "default", "discriminator", "oneOf"})
_SAYS_WHAT = frozenset({"type", "enum", "const", "anyOf", "allOf"})
_SEVERAL = ("anyOf", "allOf", "prefixItems")


@dataclass(frozen=True, slots=True)
class _At:
    """Where in a schema we are: its definitions, the path, the references being written out."""

    defs: Mapping[str, Json]
    path: str = ""
    open: frozenset[str] = frozenset()

    def field(self, name: str) -> _At:
        return replace(self, path=f"{self.path}.{name}" if self.path else name)

    def item(self) -> _At:
        return replace(self, path=f"{self.path}[]")


def strict_schema(schema: Json) -> Json:
    """Makes a JSON schema of Pydantic's strict. A strict schema stays as it is.

    Raises:
        SchemaError: a field is a free dict, may be anything, or contains itself.
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", str(schema.get("title", "Answer")))[:64]
    return {"title": name, **_node(schema, _At(schema.get("$defs", {})))}


def _node(node: Json, at: _At) -> Json:
    if "$ref" in node:
        return _reference(node, at)
    result = {key: value for key, value in node.items() if key not in _DROPPED}
    if "oneOf" in node:  # which strict modes don't know; Pydantic's branches exclude each other
        result["anyOf"] = node["oneOf"]
    for key in _SEVERAL:
        if key in result:
            result[key] = [_node(branch, at) for branch in result[key]]
    if isinstance(node.get("items"), Mapping):
        result["items"] = _node(node["items"], at.item())
    if node.get("type") == "object":
        return _object(result, at)
    if not _SAYS_WHAT & result.keys():
        raise SchemaError(f"{at.path!r} may be anything: give the field a type.")
    return result


def _reference(node: Json, at: _At) -> Json:
    name = str(node["$ref"]).removeprefix("#/$defs/")
    if name in at.open:
        raise SchemaError(
            f"{at.path!r} contains {name!r} inside itself: a decision has a fixed depth, so "
            "declare as many levels as the answer needs."
        )
    beside = {key: value for key, value in node.items() if key != "$ref"}
    return _node({**at.defs[name], **beside}, replace(at, open=at.open | {name}))


def _object(node: Json, at: _At) -> Json:
    if "properties" not in node or node.get("additionalProperties", False) is not False:
        raise SchemaError(
            f"{at.path or node.get('title', 'the model')!r} takes any key (a dict, or extra="
            '"allow"), which strict output can\'t express: declare the keys as fields of a '
            "model, or use a list of models with a key and a value."
        )
    optional = node["properties"].keys() - set(node.get("required", ()))
    properties = {
        name: _nullable(made) if name in optional else made
        for name, made in (
            (name, _node(inner, at.field(name))) for name, inner in node["properties"].items()
        )
    }
    return {
        **node,
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable(node: Json) -> Json:
    if accepts_null(node):
        return node
    outside = {key: node[key] for key in ("description",) if key in node}
    inside = {key: value for key, value in node.items() if key not in outside}
    return {
        **outside,
        "anyOf": [*inside["anyOf"], _NULL] if inside.keys() == {"anyOf"} else [inside, _NULL],
    }


def accepts_null(node: Json) -> bool:
    """Whether null is valid for a schema."""
    types = node.get("type")
    if types == "null" or (isinstance(types, list) and "null" in types):
        return True
    if None in node.get("enum", ()):
        return True
    return any(accepts_null(branch) for branch in node.get("anyOf", ()))


def objects_in(node: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    """Every object schema inside a strict schema with its path, the outermost first."""
    if "properties" in node:
        yield path, node
        for name, inner in node["properties"].items():
            yield from objects_in(inner, f"{path}.{name}" if path else name)
    if isinstance(node.get("items"), Mapping):
        yield from objects_in(node["items"], f"{path}[]")
    for key in _SEVERAL:
        for branch in node.get(key, ()):
            yield from objects_in(branch, path)


def null_means_default(validate: Callable[[Any], T], values: Mapping[str, Any]) -> T:
    """Validates the values of a strict schema: null stands for a field's default.

    Where None is valid for the field itself, it stays None.

    Args:
        validate: Raises ``pydantic.ValidationError``.
        values: As received.

    Raises:
        pydantic.ValidationError: the values don't fit.
    """
    try:
        return validate(values)
    except ValidationError as error:
        first = error
    filled, left_out = _without_nulls(values, first.errors(include_url=False))
    if not left_out:
        raise first
    try:
        return validate(filled)
    except ValidationError as second:
        required = any(problem["type"] == "missing" for problem in second.errors())
        raise (first if required else second) from None


def _without_nulls(
    values: Mapping[str, Any], problems: Sequence[ErrorDetails]
) -> tuple[Json, bool]:
    """Leaves out the keys whose null was the problem."""
    filled = cast(Json, json.loads(json.dumps(values)))
    left_out = False
    for problem in problems:
        if found := _owner(filled, problem["loc"]):
            owner, key = found
            left_out = owner.pop(key, owner) is None or left_out
    return filled, left_out


def _owner(values: Json, loc: Sequence[int | str]) -> tuple[Json, str] | None:
    """The object and key that a location ends at, when the value there is null.

    A location also names the branches of unions, which are no keys of the values.
    """
    owner: tuple[Json, str] | None = None
    current: Any = values
    for step in loc:
        if isinstance(current, dict) and isinstance(step, str) and step in current:
            owner, current = (cast(Json, current), step), cast(Json, current)[step]
        elif (
            isinstance(current, list)
            and isinstance(step, int)
            and step < len(cast(list[Any], current))
        ):
            owner, current = None, cast(list[Any], current)[step]
    return owner if current is None else None
