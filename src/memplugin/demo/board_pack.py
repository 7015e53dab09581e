"""The board pack: three weeks ago a customer asked for net figures, and gets gross ones.

One customer, two sessions three weeks apart, three acts:

1. The extractor stores assertions only. "Can you do these net of tax going forward?" is a
   question, so nothing is stored, and the pack comes out in gross: a *write* failure.
2. The extractor is fixed and has read the old session again. The record is there, and
   nearest vectors rank it below the cut: a *retrieval* failure, with a rank.
3. What must always hold no longer competes with similarity. The pack is net of tax.

Nothing is made to fail: each act changes one setting and runs the same agent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from opentelemetry.trace import Tracer
from pydantic import BaseModel, Field

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.evidence_search import FoundEvidence
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.integrations.langgraph import (
    create_decide_node,
    create_recall_node,
    create_remember_node,
    create_report_node,
)
from memplugin.memory.client import Memory
from memplugin.records import Need, Verdict
from memplugin.testing.fakes import FixedClock

# LangGraph's builder is only partly typed.
# pyright: reportUnknownMemberType=false


WORKSPACE = "ws_8841"
FIRST_SESSION = datetime(2026, 3, 2, 9, 14, 11, tzinfo=UTC)
LATER_SESSION = FIRST_SESSION + timedelta(weeks=3)

INSTRUCTION = "Can you do these net of tax going forward?"
REQUEST = "Put together the Q3 board pack with revenue by region."
NEED = Need(text="report net of tax", corrected=True)
K = 3

ASSERTIONS_ONLY = """\
You keep an assistant's long-term memory. From the user's turns, propose what the user asserts:
facts, preferences and decisions, each as one self-contained sentence with a verbatim quote.
A question asks for something and asserts nothing: do not store questions.
"""
"""The prompt with the fault in it: it reads well, and it loses every polite instruction."""

EARLIER_FACTS = (
    "The Q3 board pack shows revenue by region on page two.",
    "The board pack splits revenue by region into EMEA, Americas and APAC.",
    "The Q2 board pack showed revenue by region as a bar chart.",
    "Board packs go to the directors a week before the meeting in Q3.",
    "Regional revenue for the board comes from the finance warehouse.",
    "The board asked for revenue by region and by product in Q1.",
    "The fiscal year starts in April.",
    "Prefers bar charts over tables in a pack.",
)
"""What else is known of this customer: all about board packs, none about tax."""


class BoardPack(BaseModel):
    """What the agent decides about the pack."""

    basis: Literal["gross", "net of tax"] = Field(description="How revenue is reported")
    title: str = Field(description="Title of the revenue page", max_length=80)


class Chat(TypedDict):
    """State of the first session's graph."""

    messages: Annotated[list[AnyMessage], add_messages]
    remembered: list[dict[str, Any]]


class Work(TypedDict, total=False):
    """State of the later session's graph."""

    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]
    outcome: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Act:
    """One run of the story.

    Attributes:
        planted: The stage at which the scripted agent fails here; None where it passes.
    """

    number: int
    title: str
    task_id: str
    config: MemoryConfig
    session: str
    later: datetime
    planted: tuple[str, str] | None

    def context(self, session_id: str) -> MemoryContext:
        """Context of one session of this act's task."""
        return MemoryContext(WORKSPACE, session_id, task_id=self.task_id)


def acts(base: MemoryConfig) -> Sequence[Act]:
    """The three acts; each is the one before with one setting changed."""
    fixed = replace(base, extraction_prompt=None, policy="similarity")
    return (
        Act(
            1,
            "The extractor stores assertions only; the instruction was a question",
            "t_0417",
            replace(fixed, extraction_prompt=ASSERTIONS_ONLY),
            "s_2",
            LATER_SESSION,
            ("write", "never_proposed"),
        ),
        Act(
            2,
            "The extractor is fixed and has read the old session again",
            "t_0418",
            fixed,
            "s_3",
            LATER_SESSION + timedelta(days=1),
            ("retrieval", "below_cutoff"),
        ),
        Act(
            3,
            "Preferences and instructions stand beside similarity",
            "t_0419",
            replace(fixed, policy="balanced"),
            "s_4",
            LATER_SESSION + timedelta(days=2),
            None,
        ),
    )


# ---------------------------------------------------------------- the agent


def first_session(memory: Memory, extractor: BaseChatModel) -> Any:
    """The graph of the conversation in which it was said: answer, then remember."""

    def answer(state: Chat) -> dict[str, Any]:
        del state  # whatever was said, the assistant agrees
        return {"messages": [AIMessage("Will do. Anything else for the pack?")]}

    builder = StateGraph(Chat, context_schema=MemoryContext)
    remember = create_remember_node(memory, extractor)
    builder.add_sequence([("answer", answer), ("remember", remember)])
    builder.add_edge(START, "answer")
    return builder.compile()


def later_session(memory: Memory, model: BaseChatModel) -> Any:
    """The graph that makes the pack: recall, decide, report."""
    builder = StateGraph(Work, context_schema=MemoryContext)
    builder.add_sequence(
        [
            ("recall", create_recall_node(memory, k=K)),
            ("decide", create_decide_node(memory, model, answer=BoardPack)),
            ("report", create_report_node(memory, succeeded=is_right)),
        ]
    )
    builder.add_edge(START, "recall")
    return builder.compile()


def is_right(state: Work) -> bool:
    """Whether the pack is what the customer had asked for."""
    return answer_of(state).get("basis") == "net of tax"


def answer_of(state: Any) -> dict[str, Any]:
    """The answer that a decide node put into a graph's state; empty without one."""
    return state.get("decision", {}).get("answer") or {}


def conversation() -> list[AnyMessage]:
    """What was said in the first session."""
    return [
        HumanMessage("Here is the revenue sheet for the board.", id="u_1"),
        AIMessage("Thanks, I have the figures by region.", id="a_1"),
        HumanMessage(INSTRUCTION, id="u_2"),
    ]


def write_earlier_facts(memory: Memory) -> None:
    """Stores what is known of the customer from before."""
    context = MemoryContext(WORKSPACE, "s_0", task_id="t_0401")
    memory.write_many(
        [
            {"content": fact, "kind": "fact", "occurred_at": FIRST_SESSION - timedelta(days=30)}
            for fact in EARLIER_FACTS
        ],
        context=context,
    )


OpenMemory = Callable[[MemoryConfig, FixedClock], Memory]
"""Opens a story's store, with a configuration and a clock."""


@dataclass(frozen=True, slots=True)
class ActResult:
    """One act, as it ended."""

    act: Act
    evidence: FoundEvidence
    record: TaskRecord
    verdict: Verdict

    @property
    def as_planted(self) -> bool:
        """Whether the verdict is that of the fault that the act has."""
        return (self.verdict.stage, self.verdict.cause) == (self.act.planted or ("none", "passed"))


def run_story(
    open_memory: OpenMemory,
    extractor: BaseChatModel,
    decider: BaseChatModel,
    base: MemoryConfig,
    tracer: Tracer,
) -> Iterator[ActResult]:
    """Runs the acts one after the other on one store, each session in a trace of its own.

    Args:
        open_memory: Opens the same store with a configuration and a clock.
        extractor: The model that remembers.
        decider: The model that makes the pack.
        base: The settings that no act changes.
        tracer: The host's: it opens a span around each session.

    Returns:
        Each act as it ended.
    """
    clock = FixedClock(FIRST_SESSION, step=timedelta(seconds=1))
    with open_memory(base, clock) as memory, tracer.start_as_current_span("earlier_session"):
        write_earlier_facts(memory)
    for act in acts(base):
        with open_memory(act.config, clock) as memory:
            yield _run_act(memory, act, clock, (extractor, decider), tracer)


def _run_act(
    memory: Memory,
    act: Act,
    clock: FixedClock,
    models: tuple[BaseChatModel, BaseChatModel],
    tracer: Tracer,
) -> ActResult:
    extractor, decider = models
    with memory.task(act.task_id, workspace_id=WORKSPACE) as task:
        with tracer.start_as_current_span("first_session"):
            first_session(memory, extractor).invoke(
                {"messages": conversation()}, context=act.context("s_1")
            )
        clock.set(act.later)
        with tracer.start_as_current_span("later_session"):
            later_session(memory, decider).invoke(
                {"question": REQUEST}, context=act.context(act.session)
            )
        record = task.record()
        verdict = task.diagnose(NEED if not record.success else Need())
    return ActResult(act, memory.find("net of tax", context=act.context("s_1")), record, verdict)
