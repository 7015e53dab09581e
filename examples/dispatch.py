"""A dispatch decision that goes against memory: it is flagged, then it is corrected.

Run it: ``python examples/dispatch.py``. It needs no key: the model is scripted; put any chat
model with structured output in its place, such as ``ChatOpenAI(model="…")``.
"""

from __future__ import annotations

import tempfile
from typing import Any, TypedDict

from langgraph.graph import START, StateGraph
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_report_node,
)
from memplugin.testing import ScriptedChatModel

WORKSPACE = "property_manager"
QUESTION = "Wasps have built a nest at 12 Elm St. Which vendor do we send?"


class VendorChoice(BaseModel):
    """What the agent decides: who is sent."""

    vendor_id: str


class WorkOrder(TypedDict, total=False):
    """State of the graph."""

    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]
    outcome: dict[str, Any]


def cheapest(_: object) -> dict[str, Any]:
    """Stands for a model: it always sends the cheapest vendor, whatever memory says."""
    return {
        "memory_reasoning": "Dever is the cheapest.",
        "considered": "primex",
        "cited_record_ids": [],
        "vendor_id": "dever",
    }


def sent_primex(state: WorkOrder) -> bool:
    """Whether the right vendor was sent."""
    return state["decision"]["answer"]["vendor_id"] == "primex"


def build(memory: Memory) -> Any:
    """The graph: recall, decide, report."""
    model = ScriptedChatModel(cheapest)
    builder = StateGraph(WorkOrder, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(memory, k=3))
    builder.add_node("decide", create_decide_node(memory, model, answer=VendorChoice))
    builder.add_node("report", create_report_node(memory, succeeded=sent_primex))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "decide")
    builder.add_edge("decide", "report")
    return builder.compile()


def main() -> None:
    """Decides twice on one store: with overrides flagged, and with claims enforced."""
    with tempfile.TemporaryDirectory() as folder:
        with Memory.open(folder) as memory:
            memory.write(
                "Primex takes all pest work.",
                context=MemoryContext(WORKSPACE, "handbook"),
                kind="belief",
                scope={"trade": "pest"},
                claim={"vendor_id": "primex"},
                confidence=0.9,
            )
        for number, on_override in enumerate(("flag", "enforce"), start=1):
            context = MemoryContext(
                WORKSPACE, f"intake_{number}", task_id=f"order_{number}", scope={"trade": "pest"}
            )
            with Memory.open(folder, config=MemoryConfig(on_override=on_override)) as memory:
                state = build(memory).invoke({"question": QUESTION}, context=context)
            decision = state["decision"]
            (override,) = decision["overrides"]
            print(f'on_override="{on_override}"')
            print(f"  the model said {override['answer']}, memory claims {override['claimed']}")
            print(f"  sent: {decision['answer']['vendor_id']}")
            print(f"  flags: {', '.join(decision['flags'])}")
            print(f"  the right vendor: {'yes' if state['outcome']['succeeded'] else 'no'}")


if __name__ == "__main__":
    main()
