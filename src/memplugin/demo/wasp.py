"""The wasp work order: memory knew the right vendor, and ranked him fourth.

A property manager's memory holds 22 beliefs. One says who does pest work; three are about
the house that the wasps are at, and about something else. Three acts on the same store:

1. The old ranking, three memories shown: the right one is cut, a *retrieval* failure.
2. The old ranking, eighteen shown: it is shown, and passed over, a *use* failure.
3. Ranked by relevance, what it is about and how sure it is: it comes first.

Then the plumber of the same store, who does all plumbing but for toilets and drains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from langchain_core.messages import BaseMessage
from langgraph.graph import START, StateGraph
from pydantic import BaseModel, Field

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.demo.board_pack import OpenMemory, answer_of
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_report_node,
)
from memplugin.memory.client import Memory
from memplugin.records import Belief, Candidate, Need, Noun, Override, Verdict
from memplugin.testing.fakes import FixedClock
from memplugin.testing.model import ScriptedChatModel
from memplugin.write.confidence import confidence_of

# LangGraph's builder is only partly typed.
# pyright: reportUnknownMemberType=false


WORKSPACE = "ws_portfolio"
START_OF_STORY = datetime(2026, 6, 2, 8, 0, tzinfo=UTC)

PROPERTY = "221-229 Union Pl"
PEST = {"trade": "pest"}
HERE = {"property": PROPERTY}
REQUEST = {**HERE, **PEST}
QUESTION = f"Wasps have built a nest at {PROPERTY}, by the front door. Which vendor do we send?"
RIGHT = "primex"


@dataclass(frozen=True, slots=True)
class Entry:
    """A belief as it was written, and how often it was confirmed since."""

    content: str
    scope: Mapping[str, str]
    confidence: float
    vendor: str | None = None
    confirmed: int = 0


MANAGER = Entry(
    "The onsite manager arranges every visit to 221-229 Union Pl.", HERE, 0.523, None, 1
)
"""0.576 once it was confirmed: (0.523 * 4 + 0.5) / 4.5."""

PRIMEX = Entry("Primex takes all pest work and goes before Dever.", PEST, 0.806, RIGHT)

BELIEFS: Sequence[Entry] = (
    MANAGER,
    Entry("Dever has the code of the back gate at 221-229 Union Pl.", HERE, 0.6),
    Entry("The owner of 221-229 Union Pl wants a call before any large bill.", HERE, 0.55),
    PRIMEX,
    Entry("Bradley repaints hallways.", {"trade": "painting"}, 0.7),
    Entry("Kessler repairs lifts.", {"trade": "lifts"}, 0.8),
    Entry("Norwood does locks and keys.", {"trade": "locks"}, 0.75),
    Entry("Dever cleans gutters.", {"trade": "roofing"}, 0.7),
    Entry("Invoices without an order number go back.", {}, 0.8),
    Entry("Photos are sent before and after each job.", {}, 0.75),
    Entry("Tenants are told a day ahead.", {}, 0.7),
    Entry("Urgent jobs are confirmed by phone.", {}, 0.65),
    Entry("Keys are kept at the office.", {}, 0.78),
    Entry("Quotes are compared above 800 dollars.", {}, 0.6),
    Entry("Reports for owners go out on the first of the month.", {}, 0.72),
    Entry("Parking permits are ordered online.", {}, 0.5),
    Entry("The boiler of 6337 Primrose Ave was replaced.", {"property": "6337 Primrose Ave"}, 0.8),
    Entry("The gate of 824 11th St sticks.", {"property": "824 11th St"}, 0.7),
    Entry("Deposits are returned within two weeks.", {}, 0.68),
    Entry("Snow is cleared before seven.", {"trade": "grounds"}, 0.6),
    Entry("Smoke alarms are tested in May.", {}, 0.74),
    Entry("Rubbish is collected on Thursdays.", {}, 0.66),
)


def _write_belief(memory: Memory, belief: Entry, number: int) -> str:
    """Writes a belief and confirms it as often as it was; returns its record's id."""
    receipt = memory.write(
        belief.content,
        context=MemoryContext(WORKSPACE, f"told_{number}"),
        kind="belief",
        scope=belief.scope,
        claim={"vendor_id": belief.vendor} if belief.vendor else None,
        confidence=belief.confidence,
    )
    record_id = receipt.record_id or ""
    for time in range(belief.confirmed):
        where = MemoryContext(WORKSPACE, f"confirmed_{number}_{time}", scope=belief.scope)
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


def _graph(memory: Memory, act: Act) -> Any:
    """The graph of one act: recall, decide, report."""
    builder = StateGraph(WorkOrder, context_schema=MemoryContext)
    builder.add_sequence(
        [
            ("recall", create_recall_node(memory, k=act.k, policy=act.policy)),
            ("decide", create_decide_node(memory, _hasty_model(), answer=VendorChoice)),
            ("report", create_report_node(memory, succeeded=is_right)),
        ]
    )
    builder.add_edge(START, "recall")
    return builder.compile()


def is_right(state: WorkOrder) -> bool:
    """Whether the vendor is the one who does pest work."""
    return answer_of(state).get("vendor_id") == RIGHT


_SHOWN = re.compile(r'<memory id="([^"]+)"[^>]*>([^<]*)')
_VENDOR = re.compile(r"\b(Primex|Dever|Kessler|Bradley|Norwood)\b")


def _hasty_model() -> ScriptedChatModel:
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
PLUMBER = Entry("Yonic handles all plumbing.", PLUMBING, 0.81, "yonic")
WEIGHT, SALIENCE = 0.4, 0.5
"""Medium: 0.2 an observation, of which the old rule makes 0.6 however often it comes."""

CONFIRMED = (PLUMBING, None)
TOILET, DRAIN = (TOILETS, "abraham"), (DRAINS, "the_drain_specialist")
JOBS: Sequence[tuple[Mapping[str, str], str | None]] = (
    *(CONFIRMED, TOILET, CONFIRMED, DRAIN) * 4,
    *(CONFIRMED, TOILET, CONFIRMED),
)
"""Ten jobs that the plumber did, and nine that went rightly to somebody else: where, who."""


SHOWN_SCORES = 5
"""How much of a ranking is kept for show."""


@dataclass(frozen=True, slots=True)
class Ranking(Noun):
    """The first candidates of a recall under one policy."""

    policy: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class ActResult(Noun):
    """One act, as it ended."""

    number: int
    title: str
    policy: str
    k: int
    vendor: str | None
    flags: tuple[str, ...]
    overrides: tuple[Override, ...]
    verdict: Verdict
    planted: tuple[str, str]

    @property
    def as_planted(self) -> bool:
        """Whether the verdict is that of the act."""
        return (self.verdict.stage, self.verdict.cause) == self.planted


@dataclass(frozen=True, slots=True)
class PlumberResult(Noun):
    """What became of the plumber.

    Attributes:
        started: Confidence before the jobs.
        beta: After them.
        ema: What the old rule makes of the same evidence.
        answers: Where, who is sent there, and how sure that is.
    """

    started: float
    beta: float
    ema: float
    supports: int
    against: int
    answers: tuple[tuple[str, str | None, float], ...]


@dataclass(frozen=True, slots=True)
class WaspResult(Noun):
    """How it ended."""

    rankings: tuple[Ranking, ...]
    acts: tuple[ActResult, ...]
    plumber: PlumberResult
    manager_id: str
    primex_id: str

    @property
    def as_expected(self) -> bool:
        """Whether it went as the story says."""
        bonus, balanced = self.rankings
        scores = {c.record_id: round(c.score, 2) for c in bonus.candidates}
        names = [who for _, who, _ in self.plumber.answers]
        return (
            (scores.get(self.manager_id), scores.get(self.primex_id)) == (1.91, 0.81)
            and balanced.candidates[0].record_id == self.primex_id
            and all(act.as_planted for act in self.acts)
            and ["memory_override" in act.flags for act in self.acts] == [True, True, False]
            and self.plumber.ema < self.plumber.started <= self.plumber.beta
            and names == ["yonic", "abraham", "the_drain_specialist", "yonic"]
        )


def run_story(open_memory: OpenMemory, base: MemoryConfig) -> WaspResult:
    """Writes the beliefs, runs the acts, and sends the plumber.

    Args:
        open_memory: Opens a new store with a configuration and a clock.
        base: The settings.
    """
    clock = FixedClock(START_OF_STORY, step=timedelta(seconds=1))
    with open_memory(base, clock) as memory:
        ids = {belief.content: _write_belief(memory, belief, n) for n, belief in enumerate(BELIEFS)}
        primex = ids[PRIMEX.content]
        # First, so that no outcome of an act has its part in them.
        rankings = tuple(_ranking(memory, policy) for policy in ("evidence_bonus", "balanced"))
        acts = tuple(_run_act(memory, act, primex) for act in ACTS)
        plumber = _plumber(memory, base)
    return WaspResult(rankings, acts, plumber, ids[MANAGER.content], primex)


def _ranking(memory: Memory, policy: str) -> Ranking:
    context = MemoryContext(WORKSPACE, f"looking_{policy}", scope=REQUEST)
    found = memory.recall(QUESTION, context=context, policy=policy)
    return Ranking(found.policy, found.candidates[:SHOWN_SCORES])


def _run_act(memory: Memory, act: Act, primex: str) -> ActResult:
    with memory.task(act.task_id, workspace_id=WORKSPACE) as task:
        _graph(memory, act).invoke({"question": QUESTION}, context=act.context)
        record: TaskRecord = task.record()
        wrong = record.success is False
        verdict = task.diagnose(Need(record_ids=(primex,), corrected=True) if wrong else Need())
    use = record.use
    return ActResult(
        number=act.number,
        title=act.title,
        policy=act.policy,
        k=act.k,
        vendor=(use.answer or {}).get("vendor_id"),
        flags=use.flags,
        overrides=use.overrides,
        verdict=verdict,
        planted=act.planted,
    )


def _plumber(memory: Memory, base: MemoryConfig) -> PlumberResult:
    record_id = _write_belief(memory, PLUMBER, len(BELIEFS))
    for number, (where, who) in enumerate(JOBS):
        memory.observe(
            record_id,
            context=MemoryContext(WORKSPACE, f"job_{number}", scope=where),
            supports=who is None,
            weight=WEIGHT,
            salience=SALIENCE,
            claim={"vendor_id": who} if who else None,
        )
    context = MemoryContext(WORKSPACE, "plumber", scope=PLUMBING)
    evidence = memory.observations(record_id, context=context)
    seed = Belief(PLUMBER.confidence, base.seed_strength, PLUMBING)
    return PlumberResult(
        started=PLUMBER.confidence,
        beta=memory.get(record_id, context=context).confidence,
        ema=confidence_of(seed, evidence, replace(base, confidence_policy="ema")),
        supports=sum(piece.supports for piece in evidence),
        against=sum(not piece.supports for piece in evidence),
        answers=tuple(_answers(memory)),
    )


def _answers(memory: Memory) -> Iterator[tuple[str, str | None, float]]:
    heaters = {**PLUMBING, "problem": "heater"}
    for scope in (PLUMBING, TOILETS, DRAINS, heaters):
        context = MemoryContext(WORKSPACE, "asking", scope=scope)
        found = memory.resolve("vendor_id", context=context)
        where = scope.get("problem", "any plumbing")
        yield where, found.value if found else None, found.confidence if found else 0.0
