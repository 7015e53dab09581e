"""The model call that a stored decision rests on, and the changes that a replay makes to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jsonschema import Draft202012Validator
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from pydantic import BaseModel, ValidationError

from memplugin.chat.json_schema import accepts_null, objects_in
from memplugin.chat.messages import messages_from_json
from memplugin.errors import ConfigError
from memplugin.records import Decision, Json, Reply
from memplugin.use.prompt import shown_in, with_block, without
from memplugin.use.schema import OWN_FIELDS, answer_of, decision_schema, json_schema_of, problems_of

ReadAnswer = Callable[[Json], tuple[Json | None, str | None]]
"""Takes the answer out of the values of a reply; returns None, and why, when there is none."""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """One structured call of a model.

    Attributes:
        messages: The messages as they were sent.
        first: How many of them belong to the first call; the others asked again.
        schema: The strict JSON schema of the reply.
        options: Further arguments of ``with_structured_output``.
    """

    messages: tuple[BaseMessage, ...]
    first: int
    schema: Json
    options: Mapping[str, Any]


def stored_call(decision: Decision[Any]) -> StoredCall:
    """Reads the call whose reply a decision rests on."""
    return StoredCall(
        messages=tuple(
            messages_from_json([*decision.sent, *_last_decided(decision.replies).asked])
        ),
        first=len(decision.sent),
        schema=decision.answer_schema,
        options=decision.options,
    )


def _last_decided(replies: Sequence[Reply]) -> Reply:
    decided = [reply for reply in replies if reply.status == "decided"]
    return (decided or replies)[-1]


# ---------------------------------------------------------------- changes


def without_records(call: StoredCall, record_ids: Iterable[str]) -> StoredCall:
    """The call without some of the memories that it shows, and otherwise unchanged.

    Raises:
        ConfigError: it does not show one of them.
    """
    for record_id in record_ids:
        left = tuple(_edited(message, record_id) for message in call.messages)
        if left == call.messages:
            raise ConfigError(
                f"record {record_id!r} was not shown to this decision, so that nothing changes "
                "without it: name one that was (`memplugin task` lists them)."
            )
        call = replace(call, messages=left)
    return with_citations(call) if offers_citations(call) else call


def _edited(message: BaseMessage, record_id: str) -> BaseMessage:
    content: object = message.content  # pyright: ignore[reportUnknownMemberType] -- a text, or blocks of any shape
    if not isinstance(content, str):
        return message
    return message.model_copy(update={"content": without(content, record_id)})


def with_memories(call: StoredCall, block: str) -> StoredCall:
    """The call with another block of memories.

    Raises:
        ConfigError: there is no block of memories in it.
    """
    *before, last = call.messages[: call.first]
    try:
        text = with_block(str(last.text), block)
    except ValueError:
        raise ConfigError(
            "the stored messages hold no block of memories, so that k and policy change "
            "nothing: replay it without them."
        ) from None
    changed = last.model_copy(update={"content": text})
    call = replace(call, messages=(*before, changed, *call.messages[call.first :]))
    return with_citations(call) if offers_citations(call) else call


def with_max_reasoning(call: StoredCall, chars: int) -> StoredCall:
    """The call with a ``maxLength`` on the reasoning fields.

    Raises:
        ConfigError: it is below 1.
    """
    if chars < 1:
        raise ConfigError(f"max_reasoning_chars is {chars}: give at least 1.")
    schema = copy.deepcopy(call.schema)
    for name in ("memory_reasoning", "considered"):
        if name in schema["properties"]:
            schema["properties"][name]["maxLength"] = chars
    return replace(call, schema=schema)


def with_citations(call: StoredCall) -> StoredCall:
    """The call with a schema that offers as citations only the ids that its messages show."""
    shown = [
        record_id
        for message in call.messages
        if not isinstance(message, SystemMessage | AIMessage)
        for record_id in shown_in(str(message.text))
    ]
    offered = list(dict.fromkeys(shown))
    schema = copy.deepcopy(call.schema)
    cited = schema["properties"]["cited_record_ids"]
    cited["maxItems"] = len(offered)
    cited["items"].pop("enum", None)
    if offered:
        cited["items"]["enum"] = offered
    return replace(call, schema=schema)


def offers_citations(call: StoredCall) -> bool:
    """Whether the schema limits which ids may be cited."""
    return "maxItems" in call.schema["properties"]["cited_record_ids"]


# ---------------------------------------------------------------- reading a reply


def by_structure(schema: Json) -> ReadAnswer:
    """Makes a reader of answers that checks them against the stored schema alone.

    As with the caller's class, further keys are no error, and a field with a default may be
    left out. The validators of the class are not known.
    """
    properties = {k: v for k, v in schema["properties"].items() if k not in OWN_FIELDS}
    shape = copy.deepcopy({"type": "object", "properties": properties, "required": [*properties]})
    for _, node in objects_in(shape):
        node.pop("additionalProperties", None)
        node["required"] = [
            name for name in node["required"] if not accepts_null(node["properties"][name])
        ]
    validator: Any = Draft202012Validator(shape)  # only partly typed

    def read(values: Json) -> tuple[Json | None, str | None]:
        answer = {name: values[name] for name in properties if name in values}
        if not answer:
            return None, f"the reply has none of the fields asked for: {', '.join(properties)}"
        problems = [
            f"{'.'.join(map(str, problem.absolute_path)) or 'answer'}: {problem.message}"
            for problem in validator.iter_errors(answer)
        ]
        return (None, "; ".join(problems)) if problems else (answer, None)

    return read


def by_class(answer: type[BaseModel]) -> ReadAnswer:
    """Makes a reader of answers that uses the caller's class, its validators and defaults.

    Raises:
        SchemaError: it can't become a decision schema.
    """
    schema = decision_schema(answer)

    def read(values: Json) -> tuple[Json | None, str | None]:
        try:
            return answer_of(schema, values).model_dump(mode="json"), None
        except ValidationError as error:
            return None, problems_of(error)

    return read


def fits(call: StoredCall, answer: type[BaseModel]) -> bool:
    """Whether a class has the same answer fields as the stored schema."""

    def fields(schema: Json) -> Json:
        return {k: v for k, v in schema["properties"].items() if k not in OWN_FIELDS}

    return fields(json_schema_of(decision_schema(answer))) == fields(call.schema)
