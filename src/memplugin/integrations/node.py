"""One hop as a node of a graph, for both of its ways to run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import Any, cast

from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, set_config_context
from langgraph.runtime import Runtime, get_runtime

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.integrations.context import ContextFrom, context_of
from memplugin.records import Json

FromState = str | Callable[[Any], Any]
"""A key of the state, or a function of it."""


class MemoryNode(Runnable[Any, Json]):
    """What ``StateGraph.add_node`` takes: ``invoke`` calls the hop, ``ainvoke`` awaits it.

    A ``Runnable``, since a plain function can be only one of the two. It opens no run of
    its own in a tracer: LangGraph opens one for the node.

    Args:
        name: The node's name where ``add_node`` is given none.
        hop: A method of ``Memory``.
        ahop: Its async twin.
        arguments: The hop's arguments besides ``context``, from the state.
        result: Plain JSON of what the hop returned.
        output_key: The state's key for it; None leaves the state as it is.
        context: Makes the context; None looks it up (``context_of``).
        tags: For the runs of the models that the hop calls.
    """

    def __init__(
        self,
        name: str,
        hop: Callable[..., Any],
        ahop: Callable[..., Awaitable[Any]],
        *,
        arguments: Callable[[Any], Json],
        result: Callable[[Any], Any],
        output_key: str | None,
        context: ContextFrom | None,
        tags: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._hop = hop
        self._ahop = ahop
        self._arguments = arguments
        self._result = result
        self._output_key = output_key
        self._context = context
        self._tags = tags

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Json:
        """Runs the hop on a state; returns the update of the state."""
        with self._ambient(config) as (whole, ambient):
            arguments = ambient.run(self._prepared, input, whole)
            return self._update(ambient.run(self._hop, **arguments))

    async def ainvoke(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Json:
        """``invoke``, awaiting the hop."""
        with self._ambient(config) as (whole, ambient):
            arguments = ambient.run(self._prepared, input, whole)
            return self._update(await asyncio.create_task(self._await(arguments), context=ambient))

    async def _await(self, arguments: Json) -> Any:
        return await self._ahop(**arguments)

    @contextmanager
    def _ambient(self, config: RunnableConfig | None) -> Generator[tuple[RunnableConfig, Context]]:
        # The config that was handed over is made the ambient one: the runtime and the models'
        # callbacks are read from there, also where a caller has left the graph's own context
        # (a thread of its own).
        whole = ensure_config(config)
        whole["tags"] = [*(whole.get("tags") or ()), *self._tags]
        with set_config_context(whole) as ambient:
            yield whole, ambient

    def _prepared(self, state: Any, config: RunnableConfig) -> Json:
        # Outside a graph there is a config and no runtime.
        runtime = cast(Runtime[Any] | None, get_runtime()) or Runtime()
        context: MemoryContext = context_of(state, runtime, config, self._context)
        return {**self._arguments(state), "context": context}

    def _update(self, returned: Any) -> Json:
        return {self._output_key: self._result(returned)} if self._output_key else {}


def value_of(state: Any, wanted: FromState) -> Any:
    """Reads the state, which may be a mapping, a dataclass or a Pydantic model.

    Returns:
        None where the state has no such key.
    """
    if callable(wanted):
        return wanted(state)
    if isinstance(state, Mapping):
        return cast(Mapping[str, Any], state).get(wanted)
    return getattr(state, wanted, None)


def text_of(state: Any, wanted: FromState, argument: str) -> str:
    """Reads a text.

    Raises:
        ConfigError: there is none.
    """
    value = value_of(state, wanted)
    if not isinstance(value, str):
        raise ConfigError(
            f"{argument}={described(wanted)} gave {type(value).__name__} instead of a text: name "
            "the state's key that holds it, or give a function of the state that returns it."
        )
    return value


def described(wanted: FromState) -> str:
    """How to name a reader in a message."""
    return repr(wanted) if isinstance(wanted, str) else getattr(wanted, "__name__", "a function")
