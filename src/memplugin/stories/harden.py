"""Plays the hardening run and holds two ways of giving credit against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.audit import Audit
from memplugin.memory.front import Memory
from memplugin.records import Eviction, LearnReport, Noun, Retrieval
from memplugin.stories import hardening as story
from memplugin.stories.hardening import Rule
from memplugin.testing.fakes import FixedClock
from memplugin.testing.model import ScriptedChatModel

OpenMemory = Callable[[MemoryConfig, FixedClock], Memory]


@dataclass(frozen=True, slots=True)
class Attempt(Noun):
    """One attempt at a rule."""

    rule: str
    attempt: int
    script: str
    passed: bool
    failure_mode: str | None
    said: str
    value: float


@dataclass(frozen=True, slots=True)
class Standing(Noun):
    """Where a memory stands after a run, by outcome alone and by who was followed.

    Attributes:
        by_outcome: Rank in a recall, and credit, where whatever was shown is credited.
        by_following: The same where only what was followed is.
    """

    record_id: str
    content: str
    misleading: bool
    by_outcome: tuple[int, float]
    by_following: tuple[int, float]


@dataclass(frozen=True, slots=True)
class Run(Noun):
    """One run over the rules, and what memory made of it."""

    number: int
    attempts: tuple[Attempt, ...]
    learnt: LearnReport
    standings: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class Hardened(Noun):
    """How it ended.

    Attributes:
        before: Where each memory stood before the first run.
        afterwards: The rule that failed, once the misleading tips were gone.
    """

    before: tuple[Standing, ...]
    runs: tuple[Run, ...]
    audit: Audit
    evicted: tuple[Eviction, ...]
    afterwards: tuple[Attempt, ...]
    misleading: tuple[str, ...]

    @property
    def as_told(self) -> bool:
        """Whether it went as the story says."""
        named = {entry.record_id for entry in self.audit.misleading}
        gone = {eviction.record_id for eviction in self.evicted}
        return (
            named == gone == set(self.misleading)
            and all(_apart(run.standings) for run in self.runs)
            and [a.passed for a in self.runs[1].attempts if a.rule == story.MACS.name]
            == [False] * 3
            and [attempt.passed for attempt in self.afterwards] == [True]
        )


def _apart(standings: Sequence[Standing]) -> bool:
    """Whether outcome alone has the misleading ones first, and following has them last."""
    lucky = [s for s in standings if s.misleading]
    sound = [s for s in standings if not s.misleading]
    return all(
        one.by_outcome[0] < other.by_outcome[0] and one.by_following[0] > other.by_following[0]
        for one in lucky
        for other in sound
    )


def play(open_memory: OpenMemory) -> Hardened:
    """Plays both runs on one store, learns after each, audits, evicts, and tries once more.

    Args:
        open_memory: Opens the same store with a configuration and a clock.
    """
    clock = FixedClock(story.FIRST_RUN, step=story.SECOND)
    with (
        open_memory(story.CONFIG, clock) as memory,
        open_memory(story.BY_OUTCOME, clock) as by_outcome,
    ):
        misleading = tuple(story.tell_tips(memory))
        both = by_outcome, memory
        before = _standings(both, misleading, "before")
        runs: list[Run] = []
        for number, obedient in ((1, False), (2, True)):
            clock.set(story.FIRST_RUN + number * story.EVERY)
            attempts = tuple(_run(memory, number, story.agent(obedient=obedient)))
            learnt = memory.learn(model=story.judge())
            standings = _standings(both, misleading, f"after run {number}")
            runs.append(Run(number, attempts, learnt, standings))
        audit = memory.audit(workspace_id=story.WORKSPACE)
        evicted = tuple(memory.evict(workspace_id=story.WORKSPACE))
        clock.set(story.FIRST_RUN + 3 * story.EVERY)
        afterwards = tuple(_work_on(memory, story.MACS, 3, story.agent(obedient=True)))
    return Hardened(before, tuple(runs), audit, evicted, afterwards, misleading)


def _run(memory: Memory, number: int, model: ScriptedChatModel) -> Iterator[Attempt]:
    for rule in story.RULES:
        yield from _work_on(memory, rule, number, model)


def _work_on(
    memory: Memory, rule: Rule, number: int, model: ScriptedChatModel
) -> Iterator[Attempt]:
    graph = story.attempt_at(memory, rule, model)
    for attempt in range(1, story.MOST_ATTEMPTS + 1):
        context = MemoryContext(
            story.WORKSPACE,
            f"run_{number}",
            task_id=f"run_{number}/{rule.name}",
            attempt=attempt,
        )
        asked = {"topic": story.QUERY, "question": story.question(rule, attempt)}
        ended = graph.invoke(asked, context=context)
        found = ended["scan"]
        yield Attempt(
            rule=rule.name,
            attempt=attempt,
            script=story.script_of(ended),
            passed=found["passed"],
            failure_mode=found["failure_mode"],
            said=found["said"],
            value=ended["outcome"]["value"],
        )
        if found["passed"]:
            return


def _standings(
    memories: tuple[Memory, Memory], misleading: Sequence[str], when: str
) -> tuple[Standing, ...]:
    by_outcome, by_following = (_ranked(memory, when) for memory in memories)
    contents = {c.record_id: c.content for c in by_following.candidates}
    outcome, following = _places(by_outcome), _places(by_following)
    return tuple(
        Standing(i, contents[i], i in misleading, outcome[i], following[i]) for i in following
    )


def _ranked(memory: Memory, when: str) -> Retrieval:
    # Looked at only: no outcome is reported, so that it credits nobody.
    context = MemoryContext(story.WORKSPACE, "looking", task_id=f"looking {when}")
    return memory.recall(story.QUERY, context=context, k=story.K)


def _places(retrieval: Retrieval) -> Mapping[str, tuple[int, float]]:
    return {c.record_id: (c.rank, c.parts["credit"]) for c in retrieval.candidates}
