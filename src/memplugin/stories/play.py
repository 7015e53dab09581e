"""Plays the board pack on a store and returns what happened; printing is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel
from opentelemetry.trace import Tracer

from memplugin.config import MemoryConfig
from memplugin.diagnosis.census import Census
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.memory.front import Memory
from memplugin.records import Verdict
from memplugin.stories import board_pack as story
from memplugin.testing.fakes import FixedClock

OpenMemory = Callable[[MemoryConfig, FixedClock], Memory]


@dataclass(frozen=True, slots=True)
class Played:
    """One act, as it ended."""

    act: story.Act
    census: Census
    record: TaskRecord
    verdict: Verdict

    @property
    def as_planted(self) -> bool:
        """Whether the verdict is that of the fault that the act has."""
        return (self.verdict.stage, self.verdict.cause) == (self.act.planted or ("none", "passed"))


def play(
    open_memory: OpenMemory,
    extractor: BaseChatModel,
    decider: BaseChatModel,
    base: MemoryConfig,
    tracer: Tracer,
) -> Iterator[Played]:
    """Plays the acts one after the other on one store, each session in a trace of its own.

    Args:
        open_memory: Opens the same store with a configuration and a clock.
        extractor: The model that remembers.
        decider: The model that makes the pack.
        base: The settings that no act changes.
        tracer: The host's: it opens a span around each session.
    """
    clock = FixedClock(story.FIRST_SESSION, step=story.SECOND)
    with open_memory(base, clock) as memory, tracer.start_as_current_span("earlier_session"):
        story.tell_earlier_facts(memory)
    for act in story.acts(base):
        with open_memory(act.config, clock) as memory:
            yield _play(memory, act, clock, (extractor, decider), tracer)


def _play(
    memory: Memory,
    act: story.Act,
    clock: FixedClock,
    models: tuple[BaseChatModel, BaseChatModel],
    tracer: Tracer,
) -> Played:
    extractor, decider = models
    with memory.task(act.task_id, workspace_id=story.WORKSPACE) as task:
        with tracer.start_as_current_span("first_session"):
            story.first_session(memory, extractor).invoke(
                {"messages": story.conversation()}, context=act.context("s_1")
            )
        clock.set(act.later)
        with tracer.start_as_current_span("later_session"):
            story.later_session(memory, decider).invoke(
                {"question": story.REQUEST}, context=act.context(act.session)
            )
        record = task.record()
        verdict = task.diagnose(story.NEED if not record.success else story.Need())
    return Played(act, memory.find("net of tax", context=act.context("s_1")), record, verdict)
