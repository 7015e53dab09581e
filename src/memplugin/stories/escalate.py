"""Plays the production escalation and compares what traces tell with what the ledger knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opentelemetry.trace import Tracer

from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.diagnosis.traced_census import census_from_spans
from memplugin.memory.emitting import Send, emit
from memplugin.memory.front import Memory
from memplugin.records import Need, Noun, Verdict
from memplugin.stories import escalation as story
from memplugin.stories.escalation import Agent, Session
from memplugin.telemetry.baggage import task_baggage
from memplugin.telemetry.readers.model import ReadSpan
from memplugin.testing.fakes import FixedClock

SERVICE = "reports-agent"


@dataclass(frozen=True, slots=True)
class Judged(Noun):
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
class Escalated(Noun):
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
    judged: tuple[Judged, ...]
    lost: Judged
    promoted: Judged
    sent: int

    @property
    def as_promised(self) -> bool:
        """Whether no task was split and every verdict from traces is the ledger's."""
        agreeing = all(one.agree for one in (*self.judged, self.promoted))
        return not self.split and agreeing and self.lost.from_traces is None


@dataclass(frozen=True, slots=True)
class Backend:
    """Where the spans went, as a trace backend gives them back.

    Attributes:
        read: Every span that arrived so far.
        send: Sends spans there that no tracer made.
    """

    read: Callable[[], list[ReadSpan]]
    send: Send


def play(
    memory: Memory,
    clock: FixedClock,
    tracer: Tracer,
    backend: Backend,
    *,
    tasks: int = story.TASKS,
    watch: Callable[[Iterable[Session]], Iterable[Session]] = iter,
) -> Escalated:
    """Plays five weeks, then diagnoses what failed.

    Args:
        memory: An empty store, on a provider with ``task_sampler(story.RATIO)``.
        clock: The store's.
        tracer: The host's, of the same provider: it opens a span around each session.
        backend: Where the provider's spans go.
        tasks: How many.
        watch: Passes the sessions through, for a progress bar.
    """
    story.tell_earlier_facts(memory)
    agent, all_sessions = Agent(memory, {}), story.sessions(tasks)
    flags = _work(agent, watch(all_sessions), clock, tracer)
    kept = tuple(task for task, seen in flags.items() if seen == {True})
    failed = [s for s in all_sessions if s.first and s.case and s.case.planted]
    arrived = backend.read()
    judged = tuple(_judged(agent, s, arrived) for s in failed if s.task_id in kept)
    lost = next(s for s in failed if s.task_id not in kept)
    before = _judged(agent, lost, arrived)
    emission = emit(memory.store, lost.workspace, lost.task_id, backend.send, service=SERVICE)
    return Escalated(
        tasks=len(flags),
        sessions=len(all_sessions),
        kept=kept,
        split=tuple(task for task, seen in flags.items() if len(seen) > 1),
        spans=len(arrived),
        failed=len(failed),
        judged=judged,
        lost=before,
        promoted=_judged(agent, lost, backend.read()),
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


def _judged(agent: Agent, session: Session, spans: Sequence[ReadSpan]) -> Judged:
    need = agent.need(session.task_id)
    planted = session.case.planted if session.case else None
    return Judged(
        task_id=session.task_id,
        planted=planted or ("none", "passed"),
        from_ledger=agent.memory.diagnose(
            session.task_id, workspace_id=session.workspace, need=need
        ),
        from_traces=_from_traces(session, spans, need),
    )


def _from_traces(session: Session, spans: Sequence[ReadSpan], need: Need) -> Verdict | None:
    record = record_from_spans(spans, session.workspace, session.task_id)
    return record and attribute(record, need, census_from_spans(spans, record, need))
