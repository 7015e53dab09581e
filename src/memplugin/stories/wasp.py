# LangGraph's builder is only partly typed.
# pyright: reportUnknownMemberType=false
"""The wasp work order: the right vendor was known, and ranked fourth.

A property manager's memory holds 22 beliefs. One says who does pest work; three are about
the house that the wasps are at, and about something else. Three acts on the same store:

1. The ranking of then, three memories shown: the right one is cut, a *retrieval* failure.
2. The ranking of then, eighteen shown: it is there, and goes under: a *use* failure.
3. Ranked by relevance, what it is about and how sure it is: it comes first.

Then the plumber of the same store, who does all plumbing but for toilets and drains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel, Field

from memplugin.config import MemoryContext
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_report_node,
)
from memplugin.memory.front import Memory
from memplugin.testing.model import ScriptedChatModel

WORKSPACE = "ws_portfolio"
START_OF_STORY = datetime(2026, 6, 2, 8, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)

PROPERTY = "221-229 Union Pl"
PEST = {"trade": "pest"}
HERE = {"property": PROPERTY}
REQUEST = {**HERE, **PEST}
QUESTION = f"Wasps have built a nest at {PROPERTY}, by the front door. Which vendor do we send?"
RIGHT = "primex"


@dataclass(frozen=True, slots=True)
class Told:
    """A belief as it was written, and how often it was confirmed since."""

    content: str
    scope: Mapping[str, str]
    confidence: float
    vendor: str | None = None
    confirmed: int = 0


MANAGER = Told("The onsite manager arranges every visit to 221-229 Union Pl.", HERE, 0.523, None, 1)
"""0.576 once it was confirmed: (0.523 * 4 + 0.5) / 4.5."""

PRIMEX = Told("Primex takes all pest work and goes before Dever.", PEST, 0.806, RIGHT)

BELIEFS: Sequence[Told] = (
    MANAGER,
    Told("Dever has the code of the back gate at 221-229 Union Pl.", HERE, 0.6),
    Told("The owner of 221-229 Union Pl wants a call before any large bill.", HERE, 0.55),
    PRIMEX,
    Told("Bradley repaints hallways.", {"trade": "painting"}, 0.7),
    Told("Kessler repairs lifts.", {"trade": "lifts"}, 0.8),
    Told("Norwood does locks and keys.", {"trade": "locks"}, 0.75),
    Told("Dever cleans gutters.", {"trade": "roofing"}, 0.7),
    Told("Invoices without an order number go back.", {}, 0.8),
    Told("Photos are sent before and after each job.", {}, 0.75),
    Told("Tenants are told a day ahead.", {}, 0.7),
    Told("Urgent jobs are confirmed by phone.", {}, 0.65),
    Told("Keys are kept at the office.", {}, 0.78),
    Told("Quotes are compared above 800 dollars.", {}, 0.6),
    Told("Reports for owners go out on the first of the month.", {}, 0.72),
    Told("Parking permits are ordered online.", {}, 0.5),
    Told("The boiler of 6337 Primrose Ave was replaced.", {"property": "6337 Primrose Ave"}, 0.8),
    Told("The gate of 824 11th St sticks.", {"property": "824 11th St"}, 0.7),
    Told("Deposits are returned within two weeks.", {}, 0.68),
    Told("Snow is cleared before seven.", {"trade": "grounds"}, 0.6),
    Told("Smoke alarms are tested in May.", {}, 0.74),
    Told("Rubbish is collected on Thursdays.", {}, 0.66),
)


def tell(memory: Memory, told: Told, number: int) -> str:
    """Writes a belief and confirms it as often as it was; returns its record's id."""
    receipt = memory.write(
        told.content,
        context=MemoryContext(WORKSPACE, f"told_{number}"),
        kind="belief",
        scope=told.scope,
        claim={"vendor_id": told.vendor} if told.vendor else None,
        confidence=told.confidence,
    )
    record_id = receipt.record_id or ""
    for time in range(told.confirmed):
        where = MemoryContext(WORKSPACE, f"confirmed_{number}_{time}", scope=told.scope)
        memory.observe(record_id, context=where)
    return record_id


# ---------------------------------------------------------------- the agent


class VendorChoice(BaseModel):
    """Who is sent."""

    vendor_id: str = Field(description="The vendor, in lower case", max_length=40)


class WorkOrder(TypedDict, total=False):
    """State of the graph."""

    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]
    outcome: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Act:
    """One way of ranking and cutting, and the stage at which the agent then fails."""

    number: int
    title: str
    policy: str
    k: int
    planted: tuple[str, str]

    @property
    def task_id(self) -> str:
        """Each act is a task of its own."""
        return f"wo_wasp_{self.number}"

    @property
    def context(self) -> MemoryContext:
        """Of the request."""
        return MemoryContext(
            WORKSPACE, f"intake_{self.number}", task_id=self.task_id, scope=REQUEST
        )


ACTS = (
    Act(
        1,
        "The bonus ranks, and three are shown",
        "evidence_bonus",
        3,
        ("retrieval", "below_cutoff"),
    ),
    Act(2, "The bonus ranks, and eighteen are shown", "evidence_bonus", 18, ("use", "overridden")),
    Act(3, "Relevance ranks, and three are shown", "balanced", 3, ("none", "passed")),
)


def intake(memory: Memory, act: Act) -> Any:
    """The graph of one act: recall, decide, report."""
    builder = StateGraph(WorkOrder, context_schema=MemoryContext)
    builder.add_node("recall", create_recall_node(memory, k=act.k, policy=act.policy))
    builder.add_node("decide", create_decide_node(memory, hasty(), answer=VendorChoice))
    builder.add_node("report", create_report_node(memory, succeeded=is_right))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "decide")
    builder.add_edge("decide", "report")
    builder.add_edge("report", END)
    return builder.compile()


def is_right(state: WorkOrder) -> bool:
    """Whether the vendor is the one who does pest work."""
    decision: dict[str, Any] = state.get("decision", {})
    answer: dict[str, Any] = decision.get("answer") or {}
    return answer.get("vendor_id") == RIGHT


_SHOWN = re.compile(r'<memory id="([^"]+)"[^>]*>([^<]*)')
_VENDOR = re.compile(r"\b(Primex|Dever|Kessler|Bradley|Norwood)\b")


def hasty() -> ScriptedChatModel:
    """Takes the first vendor that any memory names, from the top, whatever it is about."""

    def reply(messages: list[BaseMessage]) -> dict[str, Any]:
        for record_id, content in _SHOWN.findall(str(messages[-1].text)):
            if named := _VENDOR.search(content):
                return _answer(record_id, content, named[1].lower())
        return _answer(None, "no memory names a vendor", "dever")

    return ScriptedChatModel(reply)


def _answer(record_id: str | None, quoted: str, vendor: str) -> dict[str, Any]:
    return {
        "memory_reasoning": quoted,
        "considered": "nobody else",
        "cited_record_ids": [record_id] if record_id else [],
        "vendor_id": vendor,
    }


# ---------------------------------------------------------------- the plumber

PLUMBING = {"trade": "plumbing"}
TOILETS = {**PLUMBING, "problem": "toilet"}
DRAINS = {**PLUMBING, "problem": "drain"}
PLUMBER = Told("Yonic handles all plumbing.", PLUMBING, 0.81, "yonic")
WEIGHT, SALIENCE = 0.4, 0.5
"""Medium: 0.2 an observation, of which the old rule makes 0.6 however often it comes."""

CONFIRMED = (PLUMBING, None)
JOBS: Sequence[tuple[Mapping[str, str], str | None]] = (
    *(
        job
        for exception in ((TOILETS, "abraham"), (DRAINS, "the_drain_specialist")) * 4
        for job in (CONFIRMED, exception)
    ),
    CONFIRMED,
    (TOILETS, "abraham"),
    CONFIRMED,
)
"""Ten jobs that the plumber did, and nine that went rightly to somebody else: where, who."""
