"""Where the tasks of a run are played: a store for each, empty when it begins."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig
from memplugin.memory.front import Memory
from memplugin.memory.opening import Parts, assemble
from memplugin.ports import Clock, Embedder, IdFactory
from memplugin.storage.ledger import SqlLedger
from memplugin.testing.fakes import InMemoryIndex


@dataclass(frozen=True, slots=True)
class Ask:
    """For which store is asked.

    Attributes:
        name: Of the store within the run, ``arm/task``; one of this name is replaced.
    """

    name: str
    config: MemoryConfig
    clock: Clock
    ids: IdFactory


OpenMemory = Callable[[Ask], Memory]


def in_memory(embedder: Embedder, tracer_provider: TracerProvider | None = None) -> OpenMemory:
    """Stores that are gone when they are closed: the real ledger, and an exact index."""

    def open_memory(ask: Ask) -> Memory:
        return Memory(
            assemble(
                SqlLedger.open("sqlite://"),
                InMemoryIndex(),
                embedder,
                Parts(config=ask.config, clock=ask.clock, ids=ask.ids, tracer_provider=tracer_provider),
            )
        )

    return open_memory


def on_disk(
    folder: Path, embedder: Embedder, tracer_provider: TracerProvider | None = None
) -> OpenMemory:
    """Stores that stay, each in a folder of its own, for ``memplugin --store``."""

    def open_memory(ask: Ask) -> Memory:
        place = folder / ask.name
        # What a run that was stopped has left half done is done again from the beginning.
        shutil.rmtree(place, ignore_errors=True)
        return Memory.open(
            place,
            embeddings=embedder,
            config=ask.config,
            clock=ask.clock,
            ids=ask.ids,
            tracer_provider=tracer_provider,
        )

    return open_memory


def with_parts(memory: Memory, config: MemoryConfig, clock: Clock, ids: IdFactory) -> Memory:
    """The same store for another task: its settings, its time and its ids."""
    return Memory(replace(memory.store, config=config, clock=clock, new_id=ids))
