"""From a conversation's messages to turns: roles, text and ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from langchain_core.messages import BaseMessage

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.records import Turn
from memplugin.text import clean, digest, normalised, without_memory_blocks

Message = BaseMessage | Mapping[str, Any]
"""A langchain-core message, or ``{"role": …, "content": …}``."""

_ROLES = {
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "tool": "tool",
    "function": "tool",
}
_SKIPPED = frozenset({"system", "developer", "remove"})
"""The application's own words, and LangGraph's order to delete a message."""

_EXPECTED = 'give langchain-core messages or {"role": …, "content": …} dicts'


def numbered_turns(
    messages: Sequence[Message], *, context: MemoryContext, now: datetime
) -> list[Turn]:
    """Makes turns of messages; a turn's place in the list is its number.

    Left out: system messages, blocks of injected memory, and what is empty without them.
    The same history gives the same ids, however often it is handed in.

    Args:
        messages: The conversation so far, oldest first.
        context: Whose conversation it is.
        now: When the turns count as said.

    Returns:
        In the order of the messages.

    Raises:
        ConfigError: something is not a message, or has an unknown role or no content.
    """
    if isinstance(messages, str | bytes | BaseMessage | Mapping):
        raise ConfigError(f"messages is one {type(messages).__name__}: {_EXPECTED} in a list.")
    said_before: Counter[tuple[str, str]] = Counter()
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        role, text = _read(index, message)
        if role is None or not text:
            continue
        same = (role, normalised(text))
        parts = (context.workspace_id, context.session_id, *same, str(said_before[same]))
        said_before[same] += 1
        turns.append(
            Turn(
                id="t_" + digest(*parts),
                session_id=context.session_id,
                role=role,
                text=text,
                said_at=now,
                task_id=context.task,
            )
        )
    return turns


def _read(index: int, message: object) -> tuple[str | None, str]:
    where = f"messages[{index}]"
    if isinstance(message, BaseMessage):
        role = cast(object, getattr(message, "role", None) or message.type)
        content = cast(object, message.content)
        calls = getattr(message, "tool_calls", None)
    elif isinstance(message, Mapping):
        fields = cast(Mapping[str, object], message)
        role, content, calls = (fields.get(key) for key in ("role", "content", "tool_calls"))
    else:
        raise ConfigError(f"{where} is a {type(message).__name__}: {_EXPECTED}.")
    name = str(role).lower().removesuffix("messagechunk")
    if name in _SKIPPED:
        return None, ""
    if name not in _ROLES:
        raise ConfigError(
            f"{where} has the role {role!r}: use user, assistant, tool or system "
            "(human and ai are understood)."
        )
    if content is None and calls:
        return None, ""
    return _ROLES[name], without_memory_blocks(clean(_text(where, content))).strip()


def _text(where: str, content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list | tuple):
        raise ConfigError(
            f"{where} has {'no content' if content is None else type(content).__name__}: "
            "its content must be a string or a list of content blocks."
        )
    return "\n".join(filter(None, map(_block_text, cast(Sequence[object], content))))


def _block_text(block: object) -> str:
    # Images, audio and reasoning are no words of the speaker's.
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return ""
    fields = cast(Mapping[str, object], block)
    text = fields.get("text")
    return text if fields.get("type", "text") == "text" and isinstance(text, str) else ""
