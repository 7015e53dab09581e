"""Reasoning before the answer: in the schema, and in the raw reply.

Everything here reads a strict JSON schema, whose properties stand in the order in which
they are to be generated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, cast

from memplugin.chat.json_schema import objects_in
from memplugin.records import Json

_REASONING = re.compile(
    r"(?:^|_)(?:reasons?|reasoning|rationales?|explanations?|justifications?|thoughts?|why"
    r"|analysis)_?\d*$"
)
_SEAMS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")

IsReasoning = Callable[[str], bool]


class Misplaced(NamedTuple):
    """A reasoning field that stands after an answer's field of the same object."""

    path: str
    after: str


def is_reasoning(name: str) -> bool:
    """Whether a field is called like reasoning, in full or at its end: ``urgency_reason``."""
    return bool(_REASONING.search(_SEAMS.sub("_", name).lower()))


def misplaced_reasoning(schema: Json, answer_fields: Collection[str]) -> Misplaced | None:
    """The first reasoning field of a schema, nested ones too, that comes after an answer."""
    for path, node in objects_in(schema):
        answers: list[str] = []
        for name in cast(Json, node["properties"]):
            if not is_reasoning(name) or name in answer_fields:
                answers.append(name)
            elif answers:
                return Misplaced(f"{path}.{name}" if path else name, answers[0])
    return None


def in_order(schema: Json, received: object) -> bool:
    """Whether the keys received stand in the schema's order, nested objects included.

    Keys that the schema has not, or that the reply leaves out, don't count.
    """
    return all(
        any(_keys_in_order(node, value) for node in nodes)
        for nodes, value in _objects_received([schema], received)
    )


def _keys_in_order(node: Json, value: Mapping[str, Any]) -> bool:
    properties = cast(Json, node["properties"])
    known = [key for key in value if key in properties]
    return known == [key for key in properties if key in value]


def reasoning_after_answer(
    schema: Json, received: object, reasoning: IsReasoning, neutral: Collection[str]
) -> bool:
    """Whether a reasoning key stands after an answer's key in an object received.

    Args:
        schema: Strict.
        received: The reply's values, in the order received.
        reasoning: Tells the reasoning fields.
        neutral: Fields that are neither, such as the citations.

    Returns:
        Whether it did; False where there was no order to see.
    """
    for nodes, value in _objects_received([schema], received):
        known = {key for node in nodes for key in cast(Json, node["properties"])}
        kinds = [reasoning(key) for key in value if key in known and key not in neutral]
        if kinds != sorted(kinds, reverse=True):
            return True
    return False


def _objects_received(
    nodes: list[Json], value: object
) -> Iterator[tuple[list[Json], Mapping[str, Any]]]:
    """Each object of a value, with the schemas that it may be an instance of."""
    branches = [branch for node in nodes for branch in _branches(node)]
    if isinstance(value, list):
        items = [branch["items"] for branch in branches if "items" in branch]
        for item in cast(list[object], value):
            yield from _objects_received(items, item)
    if isinstance(value, Mapping):
        received = cast(Mapping[str, Any], value)
        fitting = _fitting([branch for branch in branches if "properties" in branch], received)
        if fitting:
            yield fitting, received
        for key, inner in received.items():
            held = [node["properties"][key] for node in fitting if key in node["properties"]]
            yield from _objects_received(held, inner)


def _branches(node: Json) -> Iterator[Json]:
    yield node
    for key in ("anyOf", "allOf"):
        for branch in node.get(key, ()):
            yield from _branches(branch)


def _fitting(nodes: list[Json], value: Mapping[str, Any]) -> list[Json]:
    """Of a union's branches those with every key received, or all when none has."""
    return [node for node in nodes if value.keys() <= node["properties"].keys()] or nodes
