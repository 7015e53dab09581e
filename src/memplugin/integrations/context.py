"""Where a graph's nodes find the ``MemoryContext`` of a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import Runtime

from memplugin.config import MemoryContext
from memplugin.errors import ContextError

ContextFrom = Callable[[Any, Runtime[Any], RunnableConfig], MemoryContext]
"""Makes the context of a node's run from state, runtime and config."""

_FIELDS = tuple(field.name for field in fields(MemoryContext))
_HOW = (
    "pass context=MemoryContext(workspace_id=…, session_id=…) to invoke, put the ids into "
    'config["configurable"], or give the node context=, a function of state, runtime and config.'
)


def context_of(
    state: Any,
    runtime: Runtime[Any],
    config: RunnableConfig,
    given: ContextFrom | None = None,
) -> MemoryContext:
    """Finds out whose request a node runs for.

    Each field of ``MemoryContext`` is read from ``runtime.context`` (its attributes, or its
    keys when it is a mapping) and from ``config["configurable"]``; one place is enough, and
    None counts as not said. ``session_id`` falls back to ``thread_id``.

    ``task_id`` is the work a user would name, across sessions. LangGraph's own
    ``runtime.execution_info.task_id`` is one run of one node, and is never taken for it.

    Args:
        state: What the node was handed; only ``given`` looks at it.
        runtime: LangGraph's; its ``context`` is None when only ``configurable`` was given.
        config: The run's.
        given: Makes the context instead; nothing else is looked at then.

    Returns:
        The context, checked.

    Raises:
        ContextError: there is no workspace or session, the two places have different
            values for a field, or a value can't be used.
    """
    if given is not None:
        return _checked(given(state, runtime, config))
    configurable = cast(Mapping[str, Any], config.get("configurable") or {})
    found = {name: _one(name, runtime.context, configurable) for name in _FIELDS}
    said = {name: value for name, value in found.items() if value is not None}
    thread = configurable.get("thread_id")
    if thread is not None:
        said.setdefault("session_id", str(thread))  # LangGraph takes numbers and UUIDs too
    for name in ("workspace_id", "session_id"):
        if name not in said:
            raise ContextError(_missing(name, runtime.context, configurable))
    return MemoryContext(**said)


def _checked(made: object) -> MemoryContext:
    if not isinstance(made, MemoryContext):
        raise ContextError(
            f"the node's context= returned a {type(made).__name__}: it must return a MemoryContext."
        )
    return made


def _one(name: str, context: object, configurable: Mapping[str, Any]) -> Any:
    """The field's value, whichever of the two places has it."""
    from_context, from_config = _read(context, name), configurable.get(name)
    if from_context is None or from_config is None or from_context == from_config:
        return from_config if from_context is None else from_context
    raise ContextError(
        f"{name} is {from_context!r} in runtime.context and {from_config!r} in "
        f'config["configurable"]: give it in one place only, or the same in both.'
    )


def _read(context: object, name: str) -> Any:
    if isinstance(context, Mapping):
        return cast(Mapping[str, Any], context).get(name)
    return getattr(context, name, None)


def _missing(name: str, context: object, configurable: Mapping[str, Any]) -> str:
    place = "None" if context is None else f"a {type(context).__name__} without it"
    keys = ", ".join(sorted(key for key in configurable if not key.startswith("__")))
    also = " or thread_id" if name == "session_id" else ""
    return (
        f'there is no {name}: runtime.context is {place}, and config["configurable"] has no '
        f"{name}{also} (it has {keys or 'nothing'}): {_HOW}"
    )
