"""What credit costs: scoring with and without a judge, and a recall that looks it up."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.messages import BaseMessage
from opentelemetry.trace import NoOpTracerProvider

from benchmarks import corpus
from benchmarks.results import Figure, Part, Target
from benchmarks.timing import in_turns, seconds_of
from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.ports import Embedder
from memplugin.records import Candidate, MemoryRecord, Outcome, Retrieval, Score
from memplugin.retrieval.rank import BALANCED
from memplugin.storage.embedding.embedder import make_embedder
from memplugin.testing import ScriptedChatModel

ROWS = 3_500
"""Shown memories of one run in the case this is measured by."""

JUDGE_SECONDS = 0.2
CONCURRENCY = 8
SHOWN = 8
"""Memories shown in one attempt of the history."""

WITH, WITHOUT = "recall with credit", "the same without"
UNCREDITED = replace(
    BALANCED,
    name="uncredited",
    parts={name: part for name, part in BALANCED.parts.items() if name != "credit"},
    credited=False,
)
_NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Sizes:
    """How much is measured.

    Attributes:
        judged: Rows given to the judge.
        compared: Rows compared by cosine, each with an action of its own.
        records: In the workspace that is recalled from.
        history: Rows of shown memories in it.
        rounds: Recalls of each kind.
    """

    judged: int = 640
    compared: int = ROWS
    records: int = 5_000
    history: int = 100_000
    rounds: int = 120


QUICK = Sizes(judged=160, compared=320, records=500, history=8_000, rounds=40)


def run(sizes: Sizes = Sizes(), *, embedder: Embedder | None = None) -> list[Part]:
    """Measures scoring, then recall.

    Args:
        sizes: How much.
        embedder: None for the default model.
    """
    model = embedder or make_embedder()
    return [_scoring(sizes, model), _recall(sizes, model)]


# ---------------------------------------------------------------- scoring


def _scoring(sizes: Sizes, embedder: Embedder) -> Part:
    judged = _judged(sizes, embedder)
    compared = _compared(sizes, embedder)
    ideal = sizes.judged * JUDGE_SECONDS / CONCURRENCY
    about = (
        f"A judge that takes {JUDGE_SECONDS} s, {CONCURRENCY} at a time, on {sizes.judged:,} rows: "
        f"rows * {JUDGE_SECONDS} / {CONCURRENCY} = {ideal:.1f} s is what waiting alone takes, and "
        f"{ROWS * JUDGE_SECONDS / CONCURRENCY:.1f} s for {ROWS:,}. Cosines: {sizes.compared:,} "
        "rows, each with an action of its own, of which no other row can use the vector."
    )
    figures = [
        Figure("learn with a judge", judged, "s", judged / ideal, "waiting alone", Target(1.25)),
        Figure(f"… for {ROWS:,} rows", judged * ROWS / sizes.judged, "s", note="in proportion"),
        Figure("learn by cosine alone", compared, "s"),
        Figure(f"… for {ROWS:,} rows", compared * ROWS / sizes.compared, "s", target=Target(70.0)),
    ]
    return Part("credit: learn", about, figures)


def _judged(sizes: Sizes, embedder: Embedder) -> float:
    def reply(_: list[BaseMessage]) -> dict[str, Any]:
        time.sleep(JUDGE_SECONDS)
        return {"reasoning": "It does what the memory says.", "followed": True}

    with _filled(embedder, records=50, attempts=sizes.judged // SHOWN, shown=SHOWN) as memory:
        judge = ScriptedChatModel(reply)
        return seconds_of(lambda: memory.learn(model=judge, concurrency=CONCURRENCY))


def _compared(sizes: Sizes, embedder: Embedder) -> float:
    with _filled(embedder, records=50, attempts=sizes.compared, shown=1) as memory:
        return seconds_of(memory.learn)


# ---------------------------------------------------------------- recall


def _recall(sizes: Sizes, embedder: Embedder) -> Part:
    attempts = sizes.history // SHOWN
    questions = list(dict.fromkeys(corpus.questions(4 * sizes.rounds, seed=2)))
    with _filled(embedder, records=sizes.records, attempts=attempts, shown=SHOWN) as memory:
        _score(memory)

        def asking(policy: str) -> Any:
            return lambda turn: memory.recall(
                questions[turn % len(questions)], context=_context("recall"), policy=policy
            )

        contenders = {WITHOUT: asking(UNCREDITED.name), WITH: asking("balanced")}
        taken = in_turns(contenders, sizes.rounds)
    figures = [
        Figure(WITHOUT, taken.p50(WITHOUT) * 1e3),
        Figure(WITH, taken.p50(WITH) * 1e3, "ms", taken.ratio(WITH, WITHOUT), WITHOUT, Target(1.1)),
    ]
    about = (
        f"{sizes.records:,} records, {attempts * SHOWN:,} rows of shown memories, half of them "
        f"judged and half compared. Median of {sizes.rounds} rounds; ratio: median over the "
        "rounds, each against the same round."
    )
    return Part("credit: recall", about, figures)


def _score(memory: Memory) -> None:
    """Half of the history judged, half with a cosine that is anything."""
    ledger, draw = memory.backend.ledger, random.Random(5)
    numbers = ledger.follow_scores.unscored(None, judge=True)
    for start in range(0, len(numbers), 2_000):
        scores = [
            Score(row, followed=draw.random() < 0.5)
            if row.number % 2
            else Score(row, cosine=round(draw.uniform(-0.1, 0.9), 4))
            for row in ledger.follow_scores.shown(numbers[start : start + 2_000])
        ]
        ledger.follow_scores.save_scores(scores, _NOW)


# ---------------------------------------------------------------- a history


@contextmanager
def _filled(embedder: Embedder, *, records: int, attempts: int, shown: int) -> Iterator[Memory]:
    with (
        TemporaryDirectory() as folder,
        Memory.open(
            Path(folder) / "store",
            embeddings=embedder,
            config=MemoryConfig(),
            tracer_provider=NoOpTracerProvider(),
            policies=[UNCREDITED],
        ) as memory,
    ):
        receipts = memory.write_many(corpus.memories(records, seed=1), context=_context("fill"))
        ids = [receipt.record_id for receipt in receipts if receipt.record_id]
        held = list(memory.backend.ledger.records.get_many("workspace", ids).values())
        actions = corpus.memories(attempts, seed=4)
        draw = random.Random(3)
        for number, action in enumerate(actions):
            _attempt(memory, number, action, draw.sample(held, shown))
        yield memory


def _attempt(memory: Memory, number: int, action: str, shown: Sequence[MemoryRecord]) -> None:
    """One attempt, as ``recall`` and ``report`` leave it in the ledger."""
    place = {"workspace_id": "workspace", "session_id": "history", "task_id": f"t_{number}"}
    retrieval = Retrieval(
        **place,
        id=f"r_{number}",
        query="what was asked",
        filters={"workspace_id": "workspace", "kind": None, "scope": {}},
        k=len(shown),
        policy="balanced@2",
        candidates=tuple(_candidate(record, rank) for rank, record in enumerate(shown, 1)),
        total=len(shown),
        shown=len(shown),
        pending_index=0,
        stale_dropped=0,
        text="",
        created_at=_NOW,
    )
    outcome = Outcome(
        **place,
        id=f"a_{number}",
        attempt=1,
        succeeded=number % 3 > 0,
        value=1.0 if number % 3 else 0.0,
        confidence=1.0,
        failure_mode=None,
        action=action,
        arm="memory_on",
        created_at=_NOW,
    )
    memory.backend.ledger.retrievals.save(retrieval, "memory_on", 1)
    memory.backend.ledger.outcomes.save(outcome, None)


def _candidate(record: MemoryRecord, rank: int) -> Candidate:
    return Candidate(
        record_id=record.id,
        content=record.content,
        kind=record.kind,
        scope=record.scope,
        claim=record.claim,
        confidence=record.confidence,
        pinned=record.pinned,
        occurred_at=record.occurred_at,
        rank=rank,
        score=1.0 / rank,
        parts={"dense": 0.5},
        sources=("dense",),
        injected=True,
    )


def _context(session: str) -> MemoryContext:
    return MemoryContext(workspace_id="workspace", session_id=session)
