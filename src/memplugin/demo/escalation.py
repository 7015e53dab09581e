"""The production escalation: a month later, with one task in fifty sampled, content hashed.

An agent makes reports for twenty customers. Over five weeks it works on 2,000 tasks, each in
two sessions: in the first something is agreed, in the second, one to two weeks later, the
work is done. Most tasks need no memory. In one of five the customer says how a figure is to
be reported, and the agent has to use it; in most of these something goes wrong.

Whether a task is sampled is decided in each session anew, from its id alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from opentelemetry.trace import Tracer
from pydantic import BaseModel, Field

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.demo.board_pack import EARLIER_FACTS
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_from_spans import evidence_from_spans
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.memory.client import Memory
from memplugin.memory.emit import Send, emit
from memplugin.records import Need, Noun, Retrieval, Verdict
from memplugin.telemetry.readers.model import ReadSpan
from memplugin.telemetry.sampling import task_baggage
from memplugin.testing.fakes import FixedClock
from memplugin.testing.model import ScriptedChatModel

TASKS = 2_000
RATIO = 1 / 50
CUSTOMERS = 20
EVERY = 5
"""One task in so many rests on memory."""

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
OPENED_WITHIN = timedelta(weeks=3)
LONGEST_PAUSE_DAYS = 14
QUERY = "Board pack with revenue by region"
K = 3
CONFIG = MemoryConfig(content_on_spans="hash", floor=-1.0)


class Pack(BaseModel):
    """What the agent decides about a pack."""

    basis: Literal["gross", "net"] = Field(description="How revenue is reported")


@dataclass(frozen=True, slots=True)
class Case:
    """What becomes of the memory in one task.

    Attributes:
        planted: The verdict on it; None where the task passes.
    """

    planted: tuple[str, str] | None
    kind: str = "preference"
    policy: str | None = None
    claimed: bool = False
    replaced: bool = False
    elsewhere: bool = False
    cited: bool = False


CASES = (
    Case(None, cited=True),
    Case(("write", "retired"), claimed=True, replaced=True),
    Case(("retrieval", "below_cutoff"), kind="fact", policy="similarity"),
    Case(("retrieval", "filtered_out"), elsewhere=True),
    Case(("use", "ignored")),
    Case(("use", "overridden"), claimed=True),
    Case(("use", "misapplied"), cited=True),
)


@dataclass(frozen=True, slots=True)
class Session:
    """One session of one task, in the order of time."""

    at: datetime
    number: int
    first: bool

    @property
    def task_id(self) -> str:
        """Of the task."""
        return f"t_{self.number:04d}"

    @property
    def workspace(self) -> str:
        """Of the customer."""
        return f"ws_{self.number % CUSTOMERS:02d}"

    @property
    def project(self) -> str:
        """What the task is about: two projects of a customer never share an agreement."""
        return f"project {self.number}"

    @property
    def case(self) -> Case | None:
        """None for a task that needs no memory."""
        place, rest = divmod(self.number, EVERY)
        return None if rest else CASES[place % len(CASES)]

    def context(self, **scope: str) -> MemoryContext:
        """Context of this session."""
        return MemoryContext(
            self.workspace,
            f"s_{self.number:04d}_{1 if self.first else 2}",
            task_id=self.task_id,
            scope={"project": self.project, **scope},
            attempt=1 if self.first else 2,
        )


def sessions(tasks: int = TASKS) -> list[Session]:
    """Both sessions of every task, as they come in over five weeks."""
    found: list[Session] = []
    for number in range(tasks):
        opened = START + number * OPENED_WITHIN / tasks
        pause = timedelta(days=7 + number % (LONGEST_PAUSE_DAYS - 7))
        found += [Session(opened, number, first=True), Session(opened + pause, number, first=False)]
    return sorted(found, key=lambda s: (s.at, s.number))


def write_earlier_facts(memory: Memory) -> None:
    """Stores what is known of each customer from before."""
    for customer in range(CUSTOMERS):
        context = MemoryContext(
            f"ws_{customer:02d}", "s_before", task_id=f"t_before_{customer:02d}"
        )
        memory.write_many(EARLIER_FACTS, context=context)


@dataclass(slots=True)
class Agent:
    """The agent: what it does in a session, given its memory.

    Attributes:
        needed: For each task that rests on memory, the record that should be used.
    """

    memory: Memory
    needed: dict[str, str]

    def work(self, session: Session) -> None:
        """One session."""
        case = session.case
        if case is None:
            # Waits for the customer's figures, and is done when they are there.
            self.memory.report(context=session.context(), succeeded=not session.first)
        elif session.first:
            self._agree(session, case)
        else:
            self._deliver(session, case)

    def need(self, task_id: str) -> Need:
        """What a task should have used."""
        return Need(record_ids=(self.needed[task_id],))

    def _agree(self, session: Session, case: Case) -> None:
        scope = {"project": session.project, **({"unit": "emea"} if case.elsewhere else {})}

        def write(basis: str) -> str:
            receipt = self.memory.write(
                f"{session.project} is reported {basis} of tax.",
                context=session.context(),
                kind=case.kind,
                scope=scope,
                claim={"basis": basis} if case.claimed else None,
            )
            return receipt.record_id or ""

        self.needed[session.task_id] = write("net")
        if case.replaced:
            write("gross")

    def _deliver(self, session: Session, case: Case) -> None:
        context = session.context(**({"unit": "apac"} if case.elsewhere else {}))
        retrieval = self.memory.recall(QUERY, context=context, k=K, policy=case.policy)
        reply = _reply(case, self.needed[session.task_id], retrieval)
        decision = self.memory.decide(
            QUERY,
            context=context,
            answer=Pack,
            model=ScriptedChatModel([reply]),
            retrieval=retrieval,
        )
        passed = decision.answer is not None and decision.answer.basis == "net"
        self.memory.report(context=context, succeeded=passed)


def _reply(case: Case, needed: str, retrieval: Retrieval) -> dict[str, Any]:
    shown = {candidate.record_id for candidate in retrieval.injected}
    return {
        "memory_reasoning": "read",
        "considered": "the other basis",
        "cited_record_ids": [needed] if case.cited and needed in shown else [],
        "basis": "net" if case.planted is None else "gross",
    }


SERVICE = "reports-agent"


@dataclass(frozen=True, slots=True)
class ComparedVerdicts(Noun):
    """One task that failed, by its traces alone and by the ledger.

    Attributes:
        from_traces: None when there is no trace of it.
    """

    task_id: str
    planted: tuple[str, str]
    from_ledger: Verdict
    from_traces: Verdict | None

    @property
    def agree(self) -> bool:
        """Whether both blame the same: stage, cause, record and rank."""
        traced, known = self.from_traces, self.from_ledger
        return traced is not None and (
            (traced.stage, traced.cause, traced.record_id, traced.rank)
            == (known.stage, known.cause, known.record_id, known.rank)
            and (known.stage, known.cause) == self.planted
        )


@dataclass(frozen=True, slots=True)
class EscalationResult(Noun):
    """How it ended.

    Attributes:
        kept: Tasks of which every session was sampled.
        split: Tasks of which some sessions were sampled and some were not.
        spans: How many spans arrived.
        failed: How many tasks failed.
        judged: Those of them that were kept.
        promoted: One that was not kept, after its trace was sent again from the ledger.
        sent: How many spans that were.
    """

    tasks: int
    sessions: int
    kept: tuple[str, ...]
    split: tuple[str, ...]
    spans: int
    failed: int
    judged: tuple[ComparedVerdicts, ...]
    lost: ComparedVerdicts
    promoted: ComparedVerdicts
    sent: int

    @property
    def as_expected(self) -> bool:
        """Whether no task was split and every verdict from traces is the ledger's."""
        agreeing = all(one.agree for one in (*self.judged, self.promoted))
        return not self.split and agreeing and self.lost.from_traces is None


@dataclass(frozen=True, slots=True)
class TraceBackend:
    """Where the spans went, as a trace backend gives them back.

    Attributes:
        read: Every span that arrived so far.
        send: Sends spans there that no tracer made.
    """

    read: Callable[[], list[ReadSpan]]
    send: Send


def run_story(
    memory: Memory,
    clock: FixedClock,
    tracer: Tracer,
    backend: TraceBackend,
    *,
    tasks: int = TASKS,
    progress: Callable[[Iterable[Session]], Iterable[Session]] = iter,
) -> EscalationResult:
    """Runs five weeks of sessions, then diagnoses what failed.

    Args:
        memory: An empty store, on a provider with ``task_sampler(RATIO)``.
        clock: The store's.
        tracer: The host's, of the same provider: it opens a span around each session.
        backend: Where the provider's spans go.
        tasks: How many.
        progress: Passes the sessions through, for a progress bar.

    Returns:
        What was kept, and the verdicts from traces beside those from the ledger.
    """
    write_earlier_facts(memory)
    agent, all_sessions = Agent(memory, {}), sessions(tasks)
    flags = _work(agent, progress(all_sessions), clock, tracer)
    kept = tuple(task for task, seen in flags.items() if seen == {True})
    failed = [s for s in all_sessions if s.first and s.case and s.case.planted]
    arrived = backend.read()
    judged = tuple(_compared(agent, s, arrived) for s in failed if s.task_id in kept)
    lost = next(s for s in failed if s.task_id not in kept)
    before = _compared(agent, lost, arrived)
    emission = emit(memory.backend, lost.workspace, lost.task_id, backend.send, service=SERVICE)
    return EscalationResult(
        tasks=len(flags),
        sessions=len(all_sessions),
        kept=kept,
        split=tuple(task for task, seen in flags.items() if len(seen) > 1),
        spans=len(arrived),
        failed=len(failed),
        judged=judged,
        lost=before,
        promoted=_compared(agent, lost, backend.read()),
        sent=emission.spans,
    )


def _work(
    agent: Agent, sessions: Iterable[Session], clock: FixedClock, tracer: Tracer
) -> dict[str, set[bool]]:
    """Works through the sessions; returns how each task was sampled in them."""
    flags: dict[str, set[bool]] = {}
    for session in sessions:
        clock.set(session.at)
        # The task is in the baggage before the root span starts: the sampler sees it.
        with task_baggage(session.task_id), tracer.start_as_current_span("agent session") as root:
            agent.work(session)
        flags.setdefault(session.task_id, set()).add(root.get_span_context().trace_flags.sampled)
    return flags


def _compared(agent: Agent, session: Session, spans: Sequence[ReadSpan]) -> ComparedVerdicts:
    need = agent.need(session.task_id)
    planted = session.case.planted if session.case else None
    return ComparedVerdicts(
        task_id=session.task_id,
        planted=planted or ("none", "passed"),
        from_ledger=agent.memory.diagnose(
            session.task_id, workspace_id=session.workspace, need=need
        ),
        from_traces=_from_traces(session, spans, need),
    )


def _from_traces(session: Session, spans: Sequence[ReadSpan], need: Need) -> Verdict | None:
    record = record_from_spans(spans, session.workspace, session.task_id)
    return record and attribute(record, need, evidence_from_spans(spans, record, need))
