"""A support chat with memory, over two sessions three weeks apart, and a verdict on the second.

Run it: ``python examples/support_chat.py``. It needs no key: both models are scripted; put any
chat model with structured output in their place, such as ``ChatOpenAI(model="…")``.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from pydantic import BaseModel

from memplugin import Memory, MemoryContext, Need
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_remember_node,
)
from memplugin.testing import FixedClock, ScriptedChatModel

WISH = "Please send every replacement to our Leeds office from now on."
QUESTION = "The router has died again. Send a replacement, please."

PROPOSED = {
    "turn_index": 0,
    "quote": WISH,
    "polarity": "positive",
    "content": "Replacements are sent to the Leeds office.",
    "kind": "preference",
    "confidence": 0.9,
}
DECIDED = {
    "memory_reasoning": "The billing address is always right.",
    "considered": "the Leeds office",
    "cited_record_ids": [],
    "address": "billing address",
}


class Shipment(BaseModel):
    """What the agent decides: where the replacement goes."""

    address: str


class Chat(TypedDict, total=False):
    """State of the graph."""

    messages: Annotated[list[AnyMessage], add_messages]
    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]


def build(memory: Memory) -> tuple[Any, Any]:
    """The graph that listens (answer, remember) and the graph that acts (recall, decide)."""
    extractor = ScriptedChatModel([{"memories": [PROPOSED]}])
    decider = ScriptedChatModel([DECIDED])
    listens = StateGraph(Chat, context_schema=MemoryContext)
    listens.add_node("answer", lambda _: {"messages": [AIMessage("I will see to it.")]})
    listens.add_node("remember", create_remember_node(memory, extractor, output_key=None))
    listens.add_edge(START, "answer").add_edge("answer", "remember")
    acts = StateGraph(Chat, context_schema=MemoryContext)
    acts.add_node("recall", create_recall_node(memory, k=3))
    acts.add_node("decide", create_decide_node(memory, decider, answer=Shipment))
    acts.add_edge(START, "recall").add_edge("recall", "decide")
    return listens.compile(), acts.compile()


def main() -> None:
    """Runs both sessions on a store in a temporary folder and prints the verdict."""
    clock = FixedClock(datetime(2026, 3, 2, 9, 0, tzinfo=UTC), step=timedelta(seconds=1))
    with tempfile.TemporaryDirectory() as folder, Memory.open(folder, clock=clock) as memory:
        listens, acts = build(memory)
        first = MemoryContext("customer_12", "chat_1", task_id="ticket_1")
        listens.invoke({"messages": [HumanMessage(WISH)]}, context=first)

        clock.set(datetime(2026, 3, 23, 9, 0, tzinfo=UTC))
        later = MemoryContext("customer_12", "chat_2", task_id="ticket_2")
        state = acts.invoke({"question": QUESTION}, context=later)
        address = state["decision"]["answer"]["address"]
        memory.report(context=later, succeeded=address == "Leeds office")

        need = Need(text="Replacements are sent to the Leeds office.")
        verdict = memory.diagnose("ticket_2", workspace_id="customer_12", need=need)
    print("remembered and shown:", [one["content"] for one in state["memory"]["injected"]])
    print("sent to:", address)
    print(f"verdict: {verdict.stage} / {verdict.cause}")
    print("next step:", verdict.next_step)


if __name__ == "__main__":
    main()
