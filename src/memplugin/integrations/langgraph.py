"""Nodes for a LangGraph graph: recall, decide, remember, report.

Each works in ``invoke``, ``ainvoke``, ``stream``, subgraphs, ``Send`` branches, after
``interrupt`` and under a retry policy, with any ``context_schema`` or none (see
``memplugin.integrations.context`` for where the ids come from).

What a node puts into the state is plain JSON, so any checkpointer can keep it; a key that
the state's schema does not have is dropped by LangGraph, without an error. A failing store
raises ``StoreError`` out of the node: under a ``RetryPolicy`` LangGraph tries again, which
stores no memory twice. ``Memory.forget`` does not reach into checkpoints: what was shown
stays in the checkpoints of the threads it was shown in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Context
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.runnables.config import ensure_config, set_config_context
from langgraph.constants import TAG_NOSTREAM
from langgraph.runtime import Runtime, get_runtime
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.integrations.context import ContextFrom, context_of
from memplugin.memory.client import Memory
from memplugin.records import Decision, Json, Outcome, Retrieval, WriteReceipt
from memplugin.use.schema import decision_schema

FromState = str | Callable[[Any], Any]
"""A key of the state, or a function of it."""


def create_recall_node(
    memory: Memory,
    *,
    query: FromState = "question",
    k: int = 3,
    kinds: Iterable[str] | None = None,
    policy: str | None = None,
    output_key: str | None = "memory",
    context: ContextFrom | None = None,
) -> Runnable[Any, Json]:
    """Makes a node that recalls.

    It puts ``{retrieval_id, text, injected: [{record_id, content, rank, score}], total,
    shown, degraded, traceparent}`` into the state. ``text`` is the block to show a model;
    the whole ranked list is in the store, under ``retrieval_id``.

    Args:
        memory: An opened store.
        query: The state's key that holds the query, or a function of the state.
        k: How many are shown by rank.
        kinds: None for every kind.
        policy: None for the configured one.
        output_key: Where the result goes in the state; None for nowhere.
        context: Makes the ``MemoryContext`` from state, runtime and config.

    Returns:
        What ``StateGraph.add_node`` takes.
    """
    # An iterator would serve the first run only; a text is recall's to refuse.
    named = kinds if kinds is None or isinstance(kinds, str) else tuple(kinds)

    def arguments(state: Any) -> Json:
        asked = _text_of(state, query, "query")
        return {"query": asked, "k": k, "kinds": named, "policy": policy}

    return _MemoryNode(
        "recall",
        memory.recall,
        memory.arecall,
        arguments=arguments,
        result=_recalled,
        output_key=output_key,
        context=context,
    )


def create_decide_node(
    memory: Memory,
    model: BaseChatModel,
    *,
    answer: type[BaseModel],
    question: FromState = "question",
    retrieval_key: str = "memory",
    output_key: str | None = "decision",
    context: ContextFrom | None = None,
) -> Runnable[Any, Json]:
    """Makes a node that asks a model, with what the recall node found in front of it.

    The retrieval is read from the store by the id in the state, so it may have been made
    in another process. Without one the node recalls with the question itself.

    It puts ``{decision_id, retrieval_id, status, answer, reasoning, considered,
    cited_record_ids, flags, overrides, chosen_support, order_preserved, detail}`` into the
    state; ``answer`` is None unless ``status`` is ``decided``.

    Args:
        memory: An opened store.
        model: Any chat model with structured output.
        answer: Pydantic model of the answer.
        question: The state's key that holds the question, or a function of the state.
        retrieval_key: Where the recall node put its result.
        output_key: Where the decision goes in the state; None for nowhere.
        context: Makes the ``MemoryContext`` from state, runtime and config.

    Returns:
        What ``StateGraph.add_node`` takes.

    Raises:
        SchemaError: the answer can't become a decision schema.
    """
    decision_schema(answer)  # fails here, while the graph is built, and not in its first run

    def arguments(state: Any) -> Json:
        return {
            "question": _text_of(state, question, "question"),
            "answer": answer,
            "model": model,
            "retrieval": _retrieval_id(state, retrieval_key),
        }

    return _MemoryNode(
        "decide",
        memory.decide,
        memory.adecide,
        arguments=arguments,
        result=_decided,
        output_key=output_key,
        context=context,
    )


def create_remember_node(
    memory: Memory,
    model: BaseChatModel,
    *,
    messages: FromState | None = None,
    output_key: str | None = "remembered",
    context: ContextFrom | None = None,
) -> Runnable[Any, Json]:
    """Makes a node that extracts memories from the conversation and stores them.

    Resumed, retried, replayed or run in two branches at once, it stores once, however the
    model words things the second time. It puts the list of receipts into the state; two
    branches that both write the key need a reducer on it, or ``output_key=None``. A reply
    of the model that can't be used is one receipt, ``failed``.

    The model's tokens are kept out of ``stream_mode="messages"``: they are no answer.

    Args:
        memory: An opened store.
        model: Any chat model with structured output.
        messages: The state's key that holds the messages, or a function of the state. None
            takes ``messages``, and ``question`` as the user's words where there are none.
        output_key: Where the receipts go in the state; None for nowhere.
        context: Makes the ``MemoryContext`` from state, runtime and config.

    Returns:
        What ``StateGraph.add_node`` takes.
    """

    def arguments(state: Any) -> Json:
        return {"messages": _conversation(state, messages), "model": model}

    return _MemoryNode(
        "remember",
        memory.remember,
        memory.aremember,
        arguments=arguments,
        result=_receipts,
        output_key=output_key,
        context=context,
        tags=(TAG_NOSTREAM,),
    )


def create_report_node(
    memory: Memory,
    *,
    succeeded: FromState = "succeeded",
    failure_mode: FromState | None = None,
    action: FromState | None = None,
    confidence: FromState | None = None,
    output_key: str | None = "outcome",
    context: ContextFrom | None = None,
) -> Runnable[Any, Json]:
    """Makes a node that reports how the attempt ended; the same attempt again replaces it.

    Each of the readers is a key of the state or a function of it. The attempt's number is
    the context's ``attempt``, not LangGraph's count of a node's retries.

    Args:
        memory: An opened store.
        succeeded: True or False.
        failure_mode: What went wrong, in a word; may give None.
        action: What the agent did, in its own text; may give None.
        confidence: Of the report, 0 to 1; None is 1.
        output_key: Where the outcome goes in the state; None for nowhere.
        context: Makes the ``MemoryContext`` from state, runtime and config.

    Returns:
        What ``StateGraph.add_node`` takes.
    """

    def arguments(state: Any) -> Json:
        sure = None if confidence is None else _value_of(state, confidence)
        return {
            "succeeded": _verdict(state, succeeded),
            "failure_mode": None if failure_mode is None else _value_of(state, failure_mode),
            "action": None if action is None else _value_of(state, action),
            "confidence": 1.0 if sure is None else sure,
        }

    return _MemoryNode(
        "report",
        memory.report,
        memory.areport,
        arguments=arguments,
        result=Outcome.to_json,
        output_key=output_key,
        context=context,
    )


# ---------------------------------------------------------------- the node


class _MemoryNode(Runnable[Any, Json]):
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


# ---------------------------------------------------------------- out of the state


def _value_of(state: Any, wanted: FromState) -> Any:
    """Reads the state, which may be a mapping, a dataclass or a Pydantic model.

    Returns:
        None where the state has no such key.
    """
    if callable(wanted):
        return wanted(state)
    if isinstance(state, Mapping):
        return cast(Mapping[str, Any], state).get(wanted)
    return getattr(state, wanted, None)


def _text_of(state: Any, wanted: FromState, argument: str) -> str:
    """Reads a text.

    Raises:
        ConfigError: there is none.
    """
    value = _value_of(state, wanted)
    if not isinstance(value, str):
        raise ConfigError(
            f"{argument}={_described(wanted)} gave {type(value).__name__} instead of a text: name "
            "the state's key that holds it, or give a function of the state that returns it."
        )
    return value


def _described(wanted: FromState) -> str:
    """How to name a reader in a message."""
    return repr(wanted) if isinstance(wanted, str) else getattr(wanted, "__name__", "a function")


def _retrieval_id(state: Any, key: str) -> str | None:
    value = _value_of(state, key)
    if value is None:
        return None
    mapping = isinstance(value, Mapping)
    named = cast(Mapping[str, Any], value).get("retrieval_id") if mapping else value
    if not isinstance(named, str):
        raise ConfigError(
            f"the state's {key!r} is a {type(value).__name__} without a retrieval_id: name the "
            "recall node's output_key in retrieval_key=, or one that is not in the state."
        )
    return named


def _conversation(state: Any, messages: FromState | None) -> Any:
    wanted = "messages" if messages is None else messages
    said = _value_of(state, wanted)
    if messages is None and not said and _value_of(state, "question") is not None:
        return [{"role": "user", "content": _value_of(state, "question")}]
    if said is None:
        raise ConfigError(
            f"messages={_described(wanted)} gave nothing to remember: name the state's key that "
            "holds the messages, or give a function of the state that returns them."
        )
    return said


def _verdict(state: Any, succeeded: FromState) -> bool:
    value = _value_of(state, succeeded)
    if not isinstance(value, bool):
        # A text such as "failed" would count as true.
        raise ConfigError(
            f"succeeded={_described(succeeded)} gave {value!r}: it must give True or False."
        )
    return value


# ---------------------------------------------------------------- into the state


def _recalled(retrieval: Retrieval) -> Json:
    return {
        "retrieval_id": retrieval.id,
        "text": retrieval.text,
        "injected": [
            {"record_id": c.record_id, "content": c.content, "rank": c.rank, "score": c.score}
            for c in retrieval.injected
        ],
        "total": retrieval.total,
        "shown": retrieval.shown,
        "degraded": list(retrieval.degraded),
        "traceparent": retrieval.span.traceparent if retrieval.span else None,
    }


_DECISION_FIELDS = (
    "retrieval_id",
    "status",
    "answer",
    "reasoning",
    "considered",
    "cited_record_ids",
    "flags",
    "overrides",
    "chosen_support",
    "order_preserved",
    "detail",
)


def _decided(decision: Decision[Any]) -> Json:
    whole = decision.to_json()
    return {"decision_id": decision.id, **{name: whole[name] for name in _DECISION_FIELDS}}


def _receipts(receipts: Iterable[WriteReceipt]) -> list[Json]:
    return [receipt.to_json() for receipt in receipts]
