"""What the graphs of these tests are made of."""

from __future__ import annotations

import itertools
from typing import Any, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

from memplugin import Memory, MemoryContext
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_remember_node,
    create_report_node,
)
from memplugin.testing import ScriptedChatModel

CONTEXT = MemoryContext(
    workspace_id="ws_8841", session_id="s_1", task_id="t_0417", scope={"trade": "pest"}
)
QUESTION = "Who should do pest control at 12 Elm St?"
PRIMEX = "Primex did good pest control at 12 Elm St."


class VendorChoice(BaseModel):
    vendor_id: str


class State(TypedDict, total=False):
    """As in the front door's example: no key for messages or receipts."""

    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]


class Everything(TypedDict, total=False):
    question: str
    succeeded: bool
    memory: dict[str, Any]
    decision: dict[str, Any]
    remembered: list[Any]
    outcome: dict[str, Any]


class TalkState(TypedDict, total=False):
    messages: list[Any]
    remembered: list[dict[str, Any]]


def choosing_model(vendor_id: str = "primex") -> ScriptedChatModel:
    """Decides on one vendor, however often it is asked."""
    return ScriptedChatModel(
        lambda _: {
            "memory_reasoning": "Primex is remembered.",
            "considered": "Orkin, which nobody remembers.",
            "cited_record_ids": [],
            "vendor_id": vendor_id,
        }
    )


def rewording_extractor(quote: str = "I like tea") -> ScriptedChatModel:
    """Finds one memory in the first turn, and words it differently at every call."""
    calls = itertools.count(1)

    def reply(_: Any) -> dict[str, Any]:
        number = next(calls)
        said = ["The user likes tea.", "Tea is a favourite.", "They enjoy a cup of tea."]
        memory = {
            "turn_index": 0,
            "quote": quote,
            "speech_act": "statement",
            "polarity": "positive",
            "time_phrase": None,
            "occurred_at": None,
            "content": f"{said[number % 3]} ({number})",
            "kind": "preference",
            "scope": None,
            "claim": None,
            "confidence": 0.9,
        }
        return {"memories": [memory]}

    return ScriptedChatModel(reply)


def chained(builder: Any, *names: str) -> Any:
    """Runs the nodes one after the other."""
    for before, after in itertools.pairwise((START, *names, END)):
        builder.add_edge(before, after)
    return builder


ASKED: Everything = {"question": QUESTION, "succeeded": True}


def whole_graph(
    memory: Memory,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
    model: ScriptedChatModel | None = None,
    **options: Any,
) -> Any:
    builder = StateGraph(Everything, context_schema=MemoryContext)
    builder.add_node(create_recall_node(memory))
    builder.add_node(create_decide_node(memory, model or choosing_model(), answer=VendorChoice))
    builder.add_node(create_remember_node(memory, rewording_extractor(QUESTION)))
    builder.add_node(create_report_node(memory))
    return chained(builder, "recall", "decide", "remember", "report").compile(
        checkpointer=checkpointer, **options
    )
