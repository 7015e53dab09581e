"""A chat model that answers from a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, cast

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import Field, PrivateAttr

Scripted = Mapping[str, Any] | str | BaseMessage | BaseException
"""Arguments of the tool call, plain text, a whole message, or an error to raise."""

Script = Sequence[Scripted] | Callable[[list[BaseMessage]], Scripted]


class ScriptedChatModel(BaseChatModel):
    """Answers in turn from a list, or by asking a function.

    Attributes:
        script: A reply for each call; or a function of the messages sent.
        calls: The messages of every call so far.
    """

    script: Any
    calls: list[list[BaseMessage]] = Field(default_factory=list[list[BaseMessage]])
    _lock: Lock = PrivateAttr(default_factory=Lock)

    def __init__(self, script: Script, **fields: Any) -> None:
        given = cast(Any, {**fields, "script": script})
        super().__init__(**given)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self, tools: Sequence[Any], *, tool_choice: str | None = None, **kwargs: Any
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Accepts tools, as real models do."""
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        with self._lock:
            self.calls.append(messages)
            place = len(self.calls) - 1
        reply = self._reply(place, messages)
        if isinstance(reply, BaseException):
            raise reply
        message = _message(reply, kwargs.get("tools") or [])
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _reply(self, place: int, messages: list[BaseMessage]) -> Scripted:
        if callable(self.script):
            return cast(Scripted, self.script(messages))
        if place >= len(self.script):
            raise AssertionError(
                f"the script has {len(self.script)} replies and was asked for one more: "
                "add a reply, or find out why the model is called again."
            )
        return self.script[place]


def _message(reply: Scripted, tools: Sequence[Mapping[str, Any]]) -> BaseMessage:
    if isinstance(reply, BaseMessage):
        return reply
    metadata = {"finish_reason": "stop", "model_name": "scripted"}
    if isinstance(reply, str):
        return AIMessage(reply, response_metadata=metadata)
    arguments = cast(Mapping[str, Any], reply)
    name = tools[0]["function"]["name"] if tools else "answer"
    function = {"name": name, "arguments": json.dumps(arguments)}
    return AIMessage(
        "",
        tool_calls=[{"name": name, "args": dict(arguments), "id": "call_1", "type": "tool_call"}],
        # The argument text as received, as OpenAI's client keeps it: the order can be proven.
        additional_kwargs={
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}]
        },
        response_metadata={**metadata, "finish_reason": "tool_calls"},
    )
