"""Scores whether shown memories were followed: by a judge, and by the cosine of both texts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from numpy.typing import NDArray

from memplugin.chat.reply import StructuredReply, structured
from memplugin.errors import ConfigError, EmbedderError, EmbedderUnavailable
from memplugin.learning.follow_judge import (
    MAX_ERROR,
    FollowReply,
    cosine,
    judge_messages,
    judge_version,
    read_judgement,
)
from memplugin.memory.backend import Backend, log
from memplugin.memory.index import Progress
from memplugin.memory.model_call import Messages, aask_all, ask_all
from memplugin.records import LearnReport, Score, Shown
from memplugin.text import clean

Vector = NDArray[np.float32]

MOST_CACHED = 4_096
"""Vectors of records' contents that are kept: the same few are shown again and again."""


@dataclass(slots=True)
class _Comparer:
    """Embeds contents and actions with the store's own model.

    Attributes:
        needed: Whether there is no other sign: then a model that can't be loaded is an error.
        cut_short: Distinct actions longer than the model reads; it compares their beginning.
    """

    backend: Backend
    needed: bool
    cut_short: int = 0
    _contents: dict[str, Vector] = field(default_factory=dict[str, Vector])
    _long: set[str] = field(default_factory=set[str])
    _missing: bool = False

    def compared(self, rows: Sequence[Shown]) -> Iterator[Score]:
        """A score with its cosine for each row; with an error where there can't be one.

        Raises:
            EmbedderUnavailable: the model can't be loaded, and is needed.
        """
        without = [row for row in rows if row.cosine is None]
        failures: dict[str, str] = {}
        vectors = self._vectors(without, failures)
        for row in rows:
            both = vectors.get(row.content), vectors.get(row.action)
            failure = failures.get(row.content) or failures.get(row.action)
            yield _score(row, both, failure)

    def _vectors(self, rows: Sequence[Shown], failures: dict[str, str]) -> dict[str, Vector]:
        if not rows or self._missing:
            return {}
        if len(self._contents) > MOST_CACHED:
            self._contents.clear()
        contents = {row.content for row in rows}
        actions = {row.action for row in rows}
        wanted = sorted({*contents, *actions} - self._contents.keys())
        try:
            found = self._embedded(wanted, failures)
            self._note_long(actions)
        except EmbedderUnavailable as error:
            if self.needed:
                raise
            self._missing = True
            log.warning("no cosines are computed: %s", error)
            return {}
        self._contents |= {text: found[text] for text in contents & found.keys()}
        return {**self._contents, **found}

    def _embedded(self, texts: Sequence[str], failures: dict[str, str]) -> dict[str, Vector]:
        if not texts:
            return {}
        try:
            return dict(zip(texts, self.backend.embedder.embed(texts), strict=True))
        except EmbedderUnavailable:
            raise
        except EmbedderError as error:
            if len(texts) == 1:
                failures[texts[0]] = clean(f"cosine: {error}")[:MAX_ERROR]
                return {}
        # One text that can't be embedded must not cost the others theirs.
        return {t: v for text in texts for t, v in self._embedded([text], failures).items()}

    def _note_long(self, actions: Iterable[str]) -> None:
        new = sorted(set(actions) - self._long)
        long = [
            text for text, cut in zip(new, self.backend.embedder.truncates(new), strict=True) if cut
        ]
        self._long.update(long)
        self.cut_short = len(self._long)


def _score(row: Shown, both: tuple[Vector | None, Vector | None], failure: str | None) -> Score:
    content, action = both
    if row.cosine is not None or failure or content is None or action is None:
        return Score(row, error=failure)
    found = cosine(content, action)
    return Score(row, cosine=found, error=None if found is not None else "cosine: not a number")


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


def learn(backend: Backend, wanted: Wanted) -> LearnReport:
    """Scores the rows that want it, the judge asked from threads."""
    run = _Run.begun(backend, wanted)
    try:
        if run.judge is None:
            run.compare()
        else:
            ask_all(run.judge, run.questions(), run.take, concurrency=wanted.concurrency)
    finally:
        run.keep()
    return run.report()


async def alearn(backend: Backend, wanted: Wanted) -> LearnReport:
    """``learn``, awaiting the judge; everything else runs in threads."""
    run = await asyncio.to_thread(_Run.begun, backend, wanted)
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

    backend: Backend
    wanted: Wanted
    judge: Runnable[Any, Any] | None
    version: str | None
    numbers: Sequence[int]
    found: int
    comparer: _Comparer
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
    def begun(cls, backend: Backend, wanted: Wanted) -> _Run:
        """Looks for what is to be done.

        Raises:
            ConfigError: the model can't give structured output.
        """
        judge = _bound(backend, wanted.model) if wanted.model else None
        numbers = backend.ledger.follow_scores.unscored(
            wanted.workspace_id, judge=judge is not None
        )
        return cls(
            backend=backend,
            wanted=wanted,
            judge=judge,
            version=judge_version(backend.config.learn) if judge else None,
            numbers=numbers[: wanted.limit],
            found=len(numbers),
            comparer=_Comparer(backend, needed=judge is None),
        )

    def compare(self) -> None:
        """Scores by cosine only."""
        for score in self._compared():
            self._scored(score)

    def questions(self) -> Iterator[tuple[Score, Messages]]:
        """What to ask the judge; rows that it has judged before only get their cosine."""
        config = self.backend.config.learn
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
            self.backend.ledger.follow_scores.save_scores(self.waiting, self.backend.clock.now())
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
            without_action=self.backend.ledger.follow_scores.without_action(
                self.wanted.workspace_id
            ),
            cut_short=self.comparer.cut_short,
            judge=self.version,
            stopped=self.stopped,
        )

    def _compared(self) -> Iterator[Score]:
        for start in range(0, len(self.numbers), CHUNK):
            numbers = self.numbers[start : start + CHUNK]
            rows = self.backend.ledger.follow_scores.shown(numbers)
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


def _bound(backend: Backend, model: BaseChatModel) -> Runnable[Any, Any]:
    try:
        return structured(model, FollowReply, backend.config.structured_output)
    except NotImplementedError as error:
        raise ConfigError(
            f"{type(model).__name__} can't give structured output, which the judge has to: give "
            "a chat model with with_structured_output."
        ) from error
