"""Asking a chat model for structured output, and reading what came back.

LangChain's own parsing is passed over: it takes a tool call that the token limit cut off
for a whole one, and a reply without any call for an answer of ``None``. What counts here
is the raw message: first why the model stopped, then whether it refused, and only then
whether there is exactly one JSON object in it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.runnables import Runnable
from pydantic import BaseModel

from memplugin.chat.json_schema import strict_schema
from memplugin.chat.messages import message_to_json, model_of, only_object, usage_of
from memplugin.records import Json
from memplugin.text import canonical_json, clean, clean_json

ReplyStatus = Literal["ok", "truncated", "refused", "no_decision", "invalid", "error"]

_SHOWN = 200
"""Characters of a useless reply that are quoted in ``detail``; ``raw`` has all."""


@dataclass(frozen=True, slots=True)
class StructuredReply:
    """What one call of a model came to.

    Attributes:
        status: ``ok`` has ``values``, no other has. ``no_decision``: neither a tool call
            nor JSON.
        values: The object received, its keys in the order received.
        ordered: False when the order of the keys as received can't be known.
        raw: The message as received, in langchain-core's JSON form.
        detail: What was wrong.
        permanent: True when the same request can only fail again.
    """

    status: ReplyStatus
    values: Json | None = None
    ordered: bool = True
    raw: Json | None = None
    detail: str | None = None
    permanent: bool = False
    model: str | None = None
    usage: Json | None = None


def structured(
    model: BaseChatModel, schema: type[BaseModel] | Json, options: Mapping[str, Any]
) -> Runnable[Any, Any]:
    """The model, bound to a schema; its output goes to ``read_reply``.

    The model gets the JSON schema, not the class: given a class, some clients parse the
    reply themselves and raise, and the raw message is lost. A client whose method is
    ``json_schema`` sends ``strict`` by itself for a class, so that here too it is asked
    for; ``options`` win, and nothing else is set.

    Args:
        model: Any chat model that has ``with_structured_output``.
        schema: What the reply should look like; a model, or a JSON schema.
        options: Further arguments of ``with_structured_output``.

    Returns:
        The model, bound to the schema.

    Raises:
        SchemaError: the schema can't be written in the strict form.
    """
    arguments = {**_as_for_a_class(model, options), **options, "include_raw": True}
    wanted = schema if isinstance(schema, dict) else schema.model_json_schema()
    return model.with_structured_output(strict_schema(wanted), **arguments)


def _as_for_a_class(model: BaseChatModel, options: Mapping[str, Any]) -> dict[str, Any]:
    known = inspect.signature(model.with_structured_output).parameters
    if "strict" not in known or "method" not in known:
        return {}
    method = options.get("method", known["method"].default)
    return {"strict": True} if method == "json_schema" else {}


def read_reply(received: object) -> StructuredReply:
    """Reads what a model returned.

    Args:
        received: The output of ``structured``, or a bare message. A model that hands out
            parsed values instead is understood, but then the order of the keys is lost.
    """
    raw = cast(object, received.get("raw", received)) if isinstance(received, Mapping) else received  # pyright: ignore[reportUnknownMemberType] -- a mapping of any kind
    if not isinstance(raw, BaseMessage):
        return _parsed_by_others(raw)
    status, detail = stopped(raw) or refused(raw) or ("ok", None)
    values: Json | None = None
    if status == "ok":
        try:
            values = _from_calls(raw)
            values = only_object(str(raw.text)) if values is None else values
        except ValueError as error:
            status, detail = "invalid", str(error)
        else:
            status, detail = ("ok", None) if values is not None else ("no_decision", _quoted(raw))
    return StructuredReply(
        status=status,
        values=values,
        raw=message_to_json(raw),
        detail=clean(detail) if detail else None,
        model=model_of(raw),
        usage=usage_of(raw),
    )


def _parsed_by_others(value: object) -> StructuredReply:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Mapping):
        return StructuredReply("ok", values=cast(Json, clean_json(value)), ordered=False)
    return StructuredReply("no_decision", detail=f"the model returned {type(value).__name__}")


def _quoted(message: BaseMessage) -> str:
    text = str(message.text).strip()
    if not text:
        return "the reply is empty"
    return f"plain text and no decision: {text[:_SHOWN]}"


# ---------------------------------------------------------------- why it stopped

_FINISH_KEYS = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason")
_FINISHES: dict[str, ReplyStatus] = {
    # the token limit, in the words of each provider
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length"), "truncated"),
    **dict.fromkeys(("model_context_window_exceeded", "error_limit", "incomplete"), "truncated"),
    # the model or a filter declined
    **dict.fromkeys(("refusal", "content_filter", "content_filtered", "safety"), "refused"),
    **dict.fromkeys(("recitation", "blocklist", "prohibited_content", "spii"), "refused"),
    **dict.fromkeys(("image_safety", "guardrail_intervened", "error_toxic"), "refused"),
    # the provider could not read its own model's call
    **dict.fromkeys(("malformed_function_call", "unexpected_tool_call"), "invalid"),
    **dict.fromkeys(("failed", "cancelled", "error", "insufficient_system_resource"), "error"),
}


def stopped(message: BaseMessage) -> tuple[ReplyStatus, str] | None:
    """Why a reply is no whole one, by its finish reason; None when it ended by itself."""
    for reason in _finish_reasons(cast(dict[str, Any], message.response_metadata)):
        name = str(reason).rpartition(".")[2].lower()  # FinishReason.MAX_TOKENS
        if status := _FINISHES.get(name):
            return status, f"the model stopped because of: {reason}"
    return None


def _finish_reasons(metadata: Mapping[str, Any]) -> Iterator[object]:
    for key in _FINISH_KEYS:
        yield metadata.get(key)
    for inside, key in (("incomplete_details", "reason"), ("prompt_feedback", "block_reason")):
        if isinstance(details := metadata.get(inside), Mapping):
            yield cast(Mapping[str, object], details).get(key)
    yield metadata.get("status")  # last, since "incomplete" does not say why


def refused(message: BaseMessage) -> tuple[ReplyStatus, str] | None:
    """The model's refusal, if the reply carries one."""
    if text := cast(dict[str, Any], message.additional_kwargs).get("refusal"):
        return "refused", str(text)
    for block in _blocks(message):
        if block.get("type") == "refusal":
            return "refused", str(block.get("refusal") or "the model refused")
    return None


def _blocks(message: BaseMessage) -> Iterator[Mapping[str, Any]]:
    content = cast(object, message.content)
    for block in cast(list[object], content) if isinstance(content, list) else []:
        if isinstance(block, Mapping):
            yield cast(Mapping[str, Any], block)


# ---------------------------------------------------------------- tool calls


def _from_calls(message: BaseMessage) -> Json | None:
    calls = _calls(message)
    if len(calls) > 1:
        raise ValueError(f"{len(calls)} tool calls where one was asked for")
    if calls:
        return _arguments(calls[0])
    for broken in message.invalid_tool_calls if isinstance(message, AIMessage) else []:
        raise ValueError(
            f"the arguments of the call of {broken.get('name')} are no JSON object: "
            f"{broken.get('error') or str(broken.get('args'))[:_SHOWN]}"
        )
    return None


def _calls(message: BaseMessage) -> list[object]:
    """Arguments of the tool calls: as the text received where it was kept, else parsed."""
    if not isinstance(message, AIMessage):
        return []
    if texts := [*_kept_texts(message)]:
        return texts
    return [call["args"] for call in message.tool_calls]


def _kept_texts(message: AIMessage) -> Iterator[object]:
    extra = cast(dict[str, Any], message.additional_kwargs)
    calls = cast(list[Json], extra.get("tool_calls") or [])
    functions = [call.get("function") for call in calls] or [extra.get("function_call")]
    if any(functions):
        yield from (cast(Json, function).get("arguments") for function in functions if function)
    elif isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        yield from (chunk["args"] for chunk in message.tool_call_chunks)
    else:
        blocks = (block for block in _blocks(message) if block.get("type") == "function_call")
        yield from (block.get("arguments") for block in blocks)


def _arguments(given: object) -> Json:
    if isinstance(given, str):
        values = only_object(given)
        if values is None:
            raise ValueError(f"the arguments of the call are no JSON object: {given[:_SHOWN]!r}")
        return values
    if not isinstance(given, Mapping):
        raise ValueError("the call has no arguments")
    values = cast(Json, clean_json(given))
    try:
        canonical_json(values)
    except (TypeError, ValueError):
        raise ValueError("the arguments of the call hold something that is no JSON") from None
    return values
