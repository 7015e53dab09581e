"""``learn``: scores whether what was shown was followed, row by row.

A row is kept soon after it is scored, so a run may be stopped or killed anywhere and the
next one goes on. Nothing is written before the judge has answered once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from memplugin.crediting import Score
from memplugin.errors import ConfigError
from memplugin.learning.follow import FollowReply, judge_messages, judge_version, read_judgement
from memplugin.memory.asking import Messages, aask_all, ask_all
from memplugin.memory.comparing import Comparer
from memplugin.memory.store import Store
from memplugin.records import LearnReport
from memplugin.reply import StructuredReply, structured

Progress = Callable[[int, int], None]
"""Told how many rows are done, and of how many."""

CHUNK = 64
"""Rows read and embedded together."""

KEEP_AFTER = 16
"""Scored rows that are kept together: the most that a kill can cost."""

GIVE_UP_AFTER = 24
"""Calls in a row that bring an error and no reply: the judge can't be reached."""

DEFAULT_CONCURRENCY = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a caller of ``learn`` asks for.

    Attributes:
        model: The judge; None compares by cosine only.
        workspace_id: None for all.
        limit: Most rows; None for all.
        concurrency: Most calls of the judge at a time.
    """

    model: BaseChatModel | None = None
    workspace_id: str | None = None
    limit: int | None = None
    concurrency: int = DEFAULT_CONCURRENCY
    progress: Progress | None = None

    def __post_init__(self) -> None:
        for name in ("limit", "concurrency"):
            value: int | None = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} is {value}: give at least 1.")


def learn(store: Store, wanted: Wanted) -> LearnReport:
    """Scores the rows that want it, the judge asked from threads."""
    run = _Run.begun(store, wanted)
    try:
        if run.judge is None:
            run.compare()
        else:
            ask_all(run.judge, run.questions(), run.take, concurrency=wanted.concurrency)
    finally:
        run.keep()
    return run.report()


async def alearn(store: Store, wanted: Wanted) -> LearnReport:
    """``learn``, awaiting the judge; everything else runs in threads."""
    run = await asyncio.to_thread(_Run.begun, store, wanted)
    try:
        if run.judge is None:
            await asyncio.to_thread(run.compare)
        else:
            await aask_all(run.judge, run.questions(), run.take, concurrency=wanted.concurrency)
    finally:
        await asyncio.to_thread(run.keep)
    return await asyncio.to_thread(run.report)


@dataclass(slots=True)
class _Run:
    """One run of ``learn``."""

    store: Store
    wanted: Wanted
    judge: Runnable[Any, Any] | None
    version: str | None
    numbers: Sequence[int]
    found: int
    comparer: Comparer
    waiting: list[Score] = field(default_factory=list[Score])
    asked: int = 0
    reached: bool = False
    errors: int = 0
    stopped: str | None = None
    done: int = 0
    judged: int = 0
    followed: int = 0
    compared: int = 0
    failed: int = 0

    @classmethod
    def begun(cls, store: Store, wanted: Wanted) -> _Run:
        """Looks for what is to be done.

        Raises:
            ConfigError: the model can't give structured output.
        """
        judge = _bound(store, wanted.model) if wanted.model else None
        numbers = store.ledger.unscored(wanted.workspace_id, judge=judge is not None)
        return cls(
            store=store,
            wanted=wanted,
            judge=judge,
            version=judge_version(store.config.learn) if judge else None,
            numbers=numbers[: wanted.limit],
            found=len(numbers),
            comparer=Comparer(store, needed=judge is None),
        )

    def compare(self) -> None:
        """Scores by cosine only."""
        for score in self._compared():
            self._scored(score)

    def questions(self) -> Iterator[tuple[Score, Messages]]:
        """What to ask the judge; rows that it has judged before only get their cosine."""
        config = self.store.config.learn
        for score in self._compared():
            row = score.shown
            if row.followed is not None:
                self._scored(score)
                continue
            self.asked += 1
            yield score, judge_messages(row.content, row.kind, row.action, config)

    def take(self, score: Score, reply: StructuredReply) -> bool:
        """Takes the judge's reply; False when it can't be reached."""
        judged = read_judgement(reply)
        error = "; ".join(filter(None, (judged.error, score.error))) or None
        self.errors = self.errors + 1 if reply.status == "error" else 0
        if reply.status != "error":
            self.reached, self.stopped = True, None
        self._scored(
            replace(
                score,
                followed=judged.followed,
                reasoning=judged.reasoning,
                judge=self.version,
                error=error,
            )
        )
        if self.errors >= GIVE_UP_AFTER or (self.errors and not self.reached):
            self.stopped = judged.error
        return self.errors < GIVE_UP_AFTER

    def keep(self) -> None:
        """Writes what is scored, once it is known that the judge can be reached."""
        if self.waiting and (self.reached or not self.asked):
            self.store.ledger.save_scores(self.waiting, self.store.clock.now())
            self._count(self.waiting)
            self.waiting = []

    def report(self) -> LearnReport:
        """What was done."""
        return LearnReport(
            found=self.found,
            judged=self.judged,
            followed=self.followed,
            compared=self.compared,
            failed=self.failed,
            left=self.found - self.done,
            without_action=self.store.ledger.without_action(self.wanted.workspace_id),
            cut_short=self.comparer.cut_short,
            judge=self.version,
            stopped=self.stopped,
        )

    def _compared(self) -> Iterator[Score]:
        for start in range(0, len(self.numbers), CHUNK):
            numbers = self.numbers[start : start + CHUNK]
            rows = self.store.ledger.shown(numbers)
            self.done += len(numbers) - len(rows)  # gone since they were looked for
            yield from self.comparer.compared(rows)

    def _scored(self, score: Score) -> None:
        self.waiting.append(score)
        if len(self.waiting) >= KEEP_AFTER:
            self.keep()

    def _count(self, scores: Sequence[Score]) -> None:
        self.done += len(scores)
        self.judged += sum(score.followed is not None for score in scores)
        self.followed += sum(score.followed is True for score in scores)
        self.compared += sum(score.cosine is not None for score in scores)
        self.failed += sum(score.error is not None for score in scores)
        if self.wanted.progress:
            self.wanted.progress(self.done, len(self.numbers))


def _bound(store: Store, model: BaseChatModel) -> Runnable[Any, Any]:
    try:
        return structured(model, FollowReply, store.config.structured_output)
    except NotImplementedError as error:
        raise ConfigError(
            f"{type(model).__name__} can't give structured output, which the judge has to: give "
            "a chat model with with_structured_output."
        ) from error
