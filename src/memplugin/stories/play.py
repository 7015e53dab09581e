"""Plays the board pack on a store and returns what happened; printing is the caller's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from langchain_core.language_models import BaseChatModel

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


def play(
    open_memory: OpenMemory,
    extractor: BaseChatModel,
    decider: BaseChatModel,
    base: MemoryConfig,
) -> Iterator[Played]:
    """Plays the acts one after the other on one store.

    Args:
        open_memory: Opens the same store with a configuration and a clock.
        extractor: The model that remembers.
        decider: The model that makes the pack.
        base: The settings that no act changes.
    """
    clock = FixedClock(story.FIRST_SESSION, step=story.SECOND)
    with open_memory(base, clock) as memory:
        story.tell_earlier_facts(memory)
    for act in story.acts(base):
        with open_memory(act.config, clock) as memory:
            yield _play(memory, act, clock, extractor, decider)


def _play(
    memory: Memory,
    act: story.Act,
    clock: FixedClock,
    extractor: BaseChatModel,
    decider: BaseChatModel,
) -> Played:
    with memory.task(act.task_id, workspace_id=story.WORKSPACE) as task:
        story.first_session(memory, extractor).invoke(
            {"messages": story.conversation()}, context=act.context("s_1")
        )
        clock.set(act.later)
        story.later_session(memory, decider).invoke(
            {"question": story.REQUEST}, context=act.context(act.session)
        )
        record = task.record()
        verdict = task.diagnose(story.NEED if not record.success else story.Need())
    return Played(act, memory.find("net of tax", context=act.context("s_1")), record, verdict)
