"""Asking a bound chat model, with an exception of its client read as a reply.

Some clients raise where others return: the token limit, a content filter, a refusal. No
provider's package is imported; their errors are told by class name and attributes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from langchain_core.exceptions import ModelError, ModelRefusalError, OutputParserException
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import Runnable
from pydantic_core import to_jsonable_python

from memplugin.chat.reply import ReplyStatus, StructuredReply, read_reply
from memplugin.records import Json
from memplugin.text import clean

_NAMES: dict[str, ReplyStatus] = {
    "LengthFinishReasonError": "truncated",
    "ContentFilterFinishReasonError": "refused",
    ModelRefusalError.__name__: "refused",
    OutputParserException.__name__: "invalid",
}
_MAY_PASS = frozenset({408, 409, 425, 429})
_MOST = 2_000


def ask(model: Runnable[Any, Any], messages: Sequence[BaseMessage]) -> StructuredReply:
    """Asks a model that ``structured`` has bound to a schema; an error is a reply, too."""
    try:
        return read_reply(model.invoke(list(messages)))
    except Exception as error:  # noqa: BLE001 -- any provider's error is a reply with a status
        return read_failure(error)


async def aask(model: Runnable[Any, Any], messages: Sequence[BaseMessage]) -> StructuredReply:
    """``ask``, awaiting the model."""
    try:
        return read_reply(await model.ainvoke(list(messages)))
    except Exception as error:  # noqa: BLE001 -- any provider's error is a reply with a status
        return read_failure(error)


def read_failure(error: BaseException) -> StructuredReply:
    """Reads an exception that a call of a model raised.

    The exception's message is kept, cut at 2,000 characters; ``permanent`` says that the
    provider turned the request itself down (HTTP 4xx), so that asking again is useless.
    """
    names = [cls.__name__ for cls in type(error).__mro__]
    known: list[ReplyStatus] = [_NAMES[name] for name in names if name in _NAMES]
    status: ReplyStatus = known[0] if known else "error"
    detail = clean(f"{type(error).__name__}: {error}")[:_MOST]
    message = _carried(error)
    carried = read_reply(message) if message else StructuredReply(status)
    return replace(carried, status=status, values=None, detail=detail, permanent=_permanent(error))


def _carried(error: BaseException) -> BaseMessage | None:
    message = getattr(error, "raw_message", None)
    if isinstance(message, BaseMessage):
        return message
    completion = getattr(error, "completion", None)
    return _from_completion(completion) if completion is not None else None


def _from_completion(completion: object) -> AIMessage | None:
    """An OpenAI completion, as the message that LangChain would have made of it."""
    data = cast(Json, to_jsonable_python(completion, fallback=vars))
    choices = cast(list[Json], data.get("choices") or [])
    if not choices:
        return None
    choice, usage = choices[0], cast(Json | None, data.get("usage"))
    said = cast(Json, choice.get("message") or {})
    extra = {key: said[key] for key in ("tool_calls", "refusal") if said.get(key)}
    return AIMessage(
        content=said.get("content") or "",
        additional_kwargs=extra,
        response_metadata={
            "finish_reason": choice.get("finish_reason"),
            "model_name": data.get("model"),
        },
        usage_metadata={
            "input_tokens": usage.get("prompt_tokens") or 0,
            "output_tokens": usage.get("completion_tokens") or 0,
            "total_tokens": usage.get("total_tokens") or 0,
        }
        if usage
        else None,
    )


def _permanent(error: BaseException) -> bool:
    for cause in _chain(error):
        if (status := _http_status(cause)) is not None:
            return 400 <= status < 500 and status not in _MAY_PASS
        if isinstance(cause, ModelError):
            return not cause.is_retryable
    return isinstance(error, NotImplementedError)


def _http_status(error: BaseException) -> int | None:
    for owner in (error, getattr(error, "response", None)):
        for name in ("status_code", "code"):
            if type(status := getattr(owner, name, None)) is int:
                return status
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__
