"""Plays the wasp work order and the plumber, and returns what happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.memory.front import Memory
from memplugin.ports import Belief
from memplugin.records import Candidate, Need, Noun, Override, Verdict
from memplugin.stories import wasp as story
from memplugin.testing.fakes import FixedClock
from memplugin.write.beliefs import confidence_of

OpenMemory = Callable[[MemoryConfig, FixedClock], Memory]

SHOWN_SCORES = 5
"""How much of a ranking is kept for show."""


@dataclass(frozen=True, slots=True)
class Ranking(Noun):
    """The first candidates of a recall under one policy."""

    policy: str
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Played(Noun):
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
class Plumber(Noun):
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
class Dispatched(Noun):
    """How it ended."""

    rankings: tuple[Ranking, ...]
    acts: tuple[Played, ...]
    plumber: Plumber
    manager_id: str
    primex_id: str

    @property
    def as_told(self) -> bool:
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


def play(open_memory: OpenMemory, base: MemoryConfig) -> Dispatched:
    """Tells the beliefs, plays the acts, and sends the plumber.

    Args:
        open_memory: Opens a new store with a configuration and a clock.
        base: The settings.
    """
    clock = FixedClock(story.START_OF_STORY, step=story.SECOND)
    with open_memory(base, clock) as memory:
        ids = {told.content: story.tell(memory, told, n) for n, told in enumerate(story.BELIEFS)}
        primex = ids[story.PRIMEX.content]
        # First, so that no outcome of an act has its part in them.
        rankings = tuple(_ranking(memory, policy) for policy in ("evidence_bonus", "balanced"))
        acts = tuple(_act(memory, act, primex) for act in story.ACTS)
        plumber = _plumber(memory, base)
    return Dispatched(rankings, acts, plumber, ids[story.MANAGER.content], primex)


def _ranking(memory: Memory, policy: str) -> Ranking:
    context = MemoryContext(story.WORKSPACE, f"looking_{policy}", scope=story.REQUEST)
    found = memory.recall(story.QUESTION, context=context, policy=policy)
    return Ranking(found.policy, found.candidates[:SHOWN_SCORES])


def _act(memory: Memory, act: story.Act, primex: str) -> Played:
    with memory.task(act.task_id, workspace_id=story.WORKSPACE) as task:
        story.intake(memory, act).invoke({"question": story.QUESTION}, context=act.context)
        record: TaskRecord = task.record()
        wrong = record.success is False
        verdict = task.diagnose(Need(record_ids=(primex,), corrected=True) if wrong else Need())
    use = record.use
    return Played(
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


def _plumber(memory: Memory, base: MemoryConfig) -> Plumber:
    record_id = story.tell(memory, story.PLUMBER, len(story.BELIEFS))
    for number, (where, who) in enumerate(story.JOBS):
        memory.observe(
            record_id,
            context=MemoryContext(story.WORKSPACE, f"job_{number}", scope=where),
            supports=who is None,
            weight=story.WEIGHT,
            salience=story.SALIENCE,
            claim={"vendor_id": who} if who else None,
        )
    context = MemoryContext(story.WORKSPACE, "plumber", scope=story.PLUMBING)
    evidence = memory.observations(record_id, context=context)
    seed = Belief(story.PLUMBER.confidence, base.seed_strength, story.PLUMBING)
    return Plumber(
        started=story.PLUMBER.confidence,
        beta=memory.get(record_id, context=context).confidence,
        ema=confidence_of(seed, evidence, replace(base, confidence_policy="ema")),
        supports=sum(piece.supports for piece in evidence),
        against=sum(not piece.supports for piece in evidence),
        answers=tuple(_answers(memory)),
    )


def _answers(memory: Memory) -> Iterator[tuple[str, str | None, float]]:
    heaters = {**story.PLUMBING, "problem": "heater"}
    for scope in (story.PLUMBING, story.TOILETS, story.DRAINS, heaters):
        context = MemoryContext(story.WORKSPACE, "asking", scope=scope)
        found = memory.resolve("vendor_id", context=context)
        where = scope.get("problem", "any plumbing")
        yield where, found.value if found else None, found.confidence if found else 0.0
