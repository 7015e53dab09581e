"""A ``Memory`` for a test: the real ledger in memory, a fake index and a fake embedder."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig
from memplugin.memory.client import Memory
from memplugin.memory.open import Parts, assemble
from memplugin.ports import Clock, Embedder, VectorIndex
from memplugin.retrieval.rank import Policy
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.testing.fakes import FixedClock, HashingEmbedder, InMemoryIndex, counting_ids
from memplugin.write.gate import BUILT_IN_CHECKS, Check

START = datetime(2026, 3, 2, 9, 14, 11, tzinfo=UTC)
"""When time begins in a test; it goes on by a second each time it is read."""


def memory_for_tests(
    ledger_url: str = "sqlite://",
    *,
    config: MemoryConfig | None = None,
    embedder: Embedder | None = None,
    index: VectorIndex | None = None,
    clock: Clock | None = None,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    checks: Sequence[Check] = BUILT_IN_CHECKS,
    policies: Sequence[Policy] = (),
) -> Memory:
    """Opens a store that is gone when the test ends.

    Without a ``config`` there is no relevance floor: the fake embedder's cosines say
    nothing about meaning.

    Args:
        ledger_url: Of a real ledger; SQLite in memory when left out.
        config: None has no relevance floor.
        embedder: None for ``HashingEmbedder``.
        index: None for ``InMemoryIndex``.
        clock: None begins at ``START`` and goes on by a second each time.
        tracer_provider: None for the global one.
        meter_provider: None for the global one.
        checks: The gate.
        policies: Beside the built-in ones.

    Returns:
        The open store; it needs no closing.
    """
    parts = Parts(
        config=config or MemoryConfig(floor=-1.0),
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        clock=clock or FixedClock(START, step=timedelta(seconds=1)),
        ids=counting_ids(),
        checks=checks,
        policies=policies,
    )
    return Memory(
        assemble(
            SqlLedger.open(ledger_url),
            index or InMemoryIndex(),
            embedder or HashingEmbedder(),
            parts,
        )
    )
