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

from collections.abc import Iterable, Mapping
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from langgraph.constants import TAG_NOSTREAM
from pydantic import BaseModel

from memplugin.errors import ConfigError
from memplugin.integrations.context import ContextFrom
from memplugin.integrations.node import FromState, MemoryNode, described, text_of, value_of
from memplugin.memory.client import Memory
from memplugin.records import Decision, Json, Outcome, Retrieval, WriteReceipt
from memplugin.use.schema import decision_schema


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
    """
    # An iterator would serve the first run only; a text is recall's to refuse.
    named = kinds if kinds is None or isinstance(kinds, str) else tuple(kinds)

    def arguments(state: Any) -> Json:
        asked = text_of(state, query, "query")
        return {"query": asked, "k": k, "kinds": named, "policy": policy}

    return MemoryNode(
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

    Raises:
        SchemaError: the answer can't become a decision schema.
    """
    decision_schema(answer)  # fails here, while the graph is built, and not in its first run

    def arguments(state: Any) -> Json:
        return {
            "question": text_of(state, question, "question"),
            "answer": answer,
            "model": model,
            "retrieval": _retrieval_id(state, retrieval_key),
        }

    return MemoryNode(
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
    """

    def arguments(state: Any) -> Json:
        return {"messages": _conversation(state, messages), "model": model}

    return MemoryNode(
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
    """

    def arguments(state: Any) -> Json:
        sure = None if confidence is None else value_of(state, confidence)
        return {
            "succeeded": _verdict(state, succeeded),
            "failure_mode": None if failure_mode is None else value_of(state, failure_mode),
            "action": None if action is None else value_of(state, action),
            "confidence": 1.0 if sure is None else sure,
        }

    return MemoryNode(
        "report",
        memory.report,
        memory.areport,
        arguments=arguments,
        result=Outcome.to_json,
        output_key=output_key,
        context=context,
    )


# ---------------------------------------------------------------- out of the state


def _retrieval_id(state: Any, key: str) -> str | None:
    held = value_of(state, key)
    if held is None:
        return None
    mapping = isinstance(held, Mapping)
    named = cast(Mapping[str, Any], held).get("retrieval_id") if mapping else held
    if not isinstance(named, str):
        raise ConfigError(
            f"the state's {key!r} is a {type(held).__name__} without a retrieval_id: name the "
            "recall node's output_key in retrieval_key=, or one that is not in the state."
        )
    return named


def _conversation(state: Any, messages: FromState | None) -> Any:
    wanted = "messages" if messages is None else messages
    said = value_of(state, wanted)
    if messages is None and not said and value_of(state, "question") is not None:
        return [{"role": "user", "content": value_of(state, "question")}]
    if said is None:
        raise ConfigError(
            f"messages={described(wanted)} gave nothing to remember: name the state's key that "
            "holds the messages, or give a function of the state that returns them."
        )
    return said


def _verdict(state: Any, succeeded: FromState) -> bool:
    value = value_of(state, succeeded)
    if not isinstance(value, bool):
        # A text such as "failed" would count as true.
        raise ConfigError(
            f"succeeded={described(succeeded)} gave {value!r}: it must give True or False."
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
