"""What is on the wire between us and a chat model: messages as JSON, and JSON in text.

A reply's keys stay in the order in which they were received, at every level: the order
is what proves that the reasoning came before the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, message_to_dict, messages_from_dict
from langchain_core.messages.ai import UsageMetadata, add_usage
from pydantic_core import to_jsonable_python

from memplugin.records import Json
from memplugin.text import clean, clean_json

_THOUGHTS = re.compile(r"\A\s*<(think|thinking)>.*?(?:</\1>|\Z)", re.DOTALL)
_THOUGHTS_UNOPENED = re.compile(r"\A\s*[^\s{\[`<].*?</(?:think|thinking)>", re.DOTALL)
_OBJECT_START = re.compile(r'\{\s*["}]')


def message_to_json(message: BaseMessage) -> Json:
    """A message in langchain-core's JSON form, fit for every store.

    Text is cleaned, NaN and infinities become null, and what has no JSON form becomes
    its ``repr``.
    """
    plain = to_jsonable_python(message_to_dict(message), inf_nan_mode="null", fallback=repr)
    return cast(Json, clean_json(plain))


def messages_from_json(data: Iterable[Mapping[str, Any]]) -> list[BaseMessage]:
    """Reads what ``message_to_json`` wrote."""
    return messages_from_dict([dict(one) for one in data])


def model_of(message: BaseMessage) -> str | None:
    """The model's name as its provider reported it."""
    metadata = cast(dict[str, Any], message.response_metadata)
    for key in ("model_name", "model", "model_id", "model_version"):
        if isinstance(name := metadata.get(key), str) and name:
            return clean(name)
    return None


def usage_of(message: BaseMessage) -> Json | None:
    """The token counts that came with a message."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    return cast(Json, to_jsonable_python(usage, inf_nan_mode="null")) if usage else None


def summed_usage(usages: Sequence[Json | None]) -> Json | None:
    """The token counts of several calls together; None when none was reported."""
    reported = [cast(UsageMetadata, usage) for usage in usages if usage]
    if not reported:
        return None
    total = reported[0]
    for usage in reported[1:]:
        total = add_usage(total, usage)
    return cast(Json, dict(total))


def only_object(text: str) -> Json | None:
    """The one JSON object in a model's text.

    Leading ``<think>`` text, code fences and prose around the object are passed over.

    Returns:
        None when the text holds no object.

    Raises:
        ValueError: it holds several, or one that is cut off, malformed, has a key twice
            or holds NaN.
    """
    found = list(_objects(_THOUGHTS_UNOPENED.sub("", _THOUGHTS.sub("", text, count=1), count=1)))
    if len(found) > 1:
        raise ValueError(f"{len(found)} JSON objects where one was asked for")
    return cast(Json, clean_json(found[0])) if found else None


def _objects(text: str) -> Iterator[Json]:
    """JSON objects side by side in a text; one that does not parse ends the search.

    Looking inside a broken object would take a part of it for the whole.
    """
    position = 0
    while start := _OBJECT_START.search(text, position):
        try:
            value, position = _DECODER.raw_decode(text, start.start())
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None
        yield value


def _no_key_twice(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


# Models put raw line breaks into strings, which strict JSON forbids.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_no_key_twice, parse_constant=_no_constant, strict=False
)
