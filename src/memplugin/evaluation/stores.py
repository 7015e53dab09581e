"""Where the tasks of a run are played: each finds an empty workspace."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self

from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig
from memplugin.memory.front import Memory
from memplugin.memory.opening import Parts, assemble
from memplugin.ports import Clock, Embedder, IdFactory
from memplugin.storage.ledger import SqlLedger
from memplugin.testing.fakes import InMemoryIndex, counting_ids


@dataclass(frozen=True, slots=True)
class Ask:
    """For which store is asked: the arm, and the task or corpus in it."""

    arm: str
    name: str
    config: MemoryConfig
    clock: Clock
    ids: IdFactory


class Stores(Protocol):
    """Opens stores. Nothing of the task or corpus is in them."""

    def opened(self, ask: Ask) -> AbstractContextManager[Memory]:
        """A store for as long as a block lasts."""
        ...


class InMemory:
    """One store for each arm, gone in the end: the real ledger, and an exact index.

    What a run that was stopped had begun is gone too. A context manager.
    """

    def __init__(self, embedder: Embedder, tracer_provider: TracerProvider | None = None) -> None:
        self._embedder = embedder
        self._tracer_provider = tracer_provider
        self._arms: dict[str, Memory] = {}

    @contextmanager
    def opened(self, ask: Ask) -> Generator[Memory]:
        """See ``Stores``: a view of the arm's store, with this task's settings, clock and ids."""
        if ask.arm not in self._arms:
            parts = Parts(config=ask.config, tracer_provider=self._tracer_provider)
            ledger = SqlLedger.open("sqlite://")
            store = assemble(ledger, InMemoryIndex(), self._embedder, parts)
            self._arms[ask.arm] = Memory(store)
        yield with_parts(self._arms[ask.arm], ask.config, ask.clock, ask.ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self._arms.values():
            memory.close()


class OnDisk:
    """A store in a folder of its own for each task, ``FOLDER/arm/task``, that stays.

    ``memplugin --store`` works on it. What a run that was stopped has left half done is
    replaced.
    """

    def __init__(
        self, folder: Path, embedder: Embedder, tracer_provider: TracerProvider | None = None
    ) -> None:
        self._folder = folder
        self._embedder = embedder
        self._tracer_provider = tracer_provider

    @contextmanager
    def opened(self, ask: Ask) -> Generator[Memory]:
        """See ``Stores``."""
        place = self._folder / ask.arm / ask.name
        shutil.rmtree(place, ignore_errors=True)
        with Memory.open(
            place,
            embeddings=self._embedder,
            config=ask.config,
            clock=ask.clock,
            ids=ask.ids,
            tracer_provider=self._tracer_provider,
        ) as memory:
            yield memory


def task_ids(task_id: str) -> IdFactory:
    """Ids that depend on the task alone: another run of it, resumed or not, has the same."""
    count = counting_ids()
    return lambda prefix: count(f"{prefix}_{task_id}")


def with_parts(memory: Memory, config: MemoryConfig, clock: Clock, ids: IdFactory) -> Memory:
    """The same store with other settings, time and ids."""
    return Memory(replace(memory.store, config=config, clock=clock, new_id=ids))
