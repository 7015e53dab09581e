"""An embedder that computes each text once: a run asks for the same ones again and again."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray
from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.need import carries
from memplugin.evaluation.conversation import write_records
from memplugin.evaluation.suite import DEFAULT_DATE, Suite, Task, configured
from memplugin.evaluation.suite_parts import DirectRecord
from memplugin.memory.client import Memory
from memplugin.memory.open import Parts, assemble
from memplugin.ports import Clock, Embedder, IdFactory, Vectors
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.testing.fakes import FixedClock, InMemoryIndex, counting_ids


class Remembering:
    """``Embedder`` that keeps every vector as long as it lives."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @property
    def name(self) -> str:
        """As the model says."""
        return self._inner.name

    @property
    def dimension(self) -> int:
        """As the model says."""
        return self._inner.dimension

    @property
    def fingerprint(self) -> str:
        """As the model says."""
        return self._inner.fingerprint

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row for each text."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            self._vectors.update(zip(new, self._inner.embed(new), strict=True))
        if not texts:
            return self._inner.embed(texts)
        return np.stack([self._vectors[text] for text in texts])

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """As the model says."""
        return self._inner.truncates(texts)


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
    return Memory(replace(memory.backend, config=config, clock=clock, new_id=ids))


ARM = "retrieval"
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Filled:
    """A store with what a task may need in it.

    Attributes:
        records: What was written, by the ids of the records.
        ids: These ids by the keys of the suite; a session's gold fact has the key
            ``{session}.{place}``.
    """

    memory: Memory
    records: Mapping[str, DirectRecord]
    ids: Mapping[str, str]

    def needed(self, task: Task) -> list[str]:
        """Ids of the records that a task needs, by key, by message, by claim or by text."""
        need = task.need
        if need.records:
            return [self.ids[key] for key in need.records if key in self.ids]
        found = list(self.records)
        if need.said:
            gold = dict(task.named_sessions)[need.said.session].gold
            said = [place for place, fact in enumerate(gold) if fact.turn == need.said.turn]
            keys = [f"{need.said.session}.{place}" for place in said]
            found = [self.ids[key] for key in keys if key in self.ids]
        if need.claim:
            found = [id_ for id_ in found if self.records[id_].claim == need.claim]
        if text := need.text:
            found = [id_ for id_ in found if carries(text, self.records[id_].content)]
        return found if need.said or need.claim or need.text else []


class Filler:
    """Opens filled stores; those of corpora stay open until it is closed. A context manager."""

    def __init__(self, suite: Suite, stores: Stores, config: MemoryConfig) -> None:
        self._suite = suite
        self._stores = stores
        self._config = config
        self._corpora: dict[str, Filled] = {}
        self._open = ExitStack()

    @contextmanager
    def filled(self, task: Task) -> Generator[Filled]:
        """A task's store at the time of its request."""
        config, ids = self._suite.config(task, self._config), task_ids(task.id)
        if task.corpus:
            shared, clock = self._corpus(task.corpus), FixedClock(task.asks_at, step=SECOND)
            yield replace(shared, memory=with_parts(shared.memory, config, clock, ids))
            return
        clock = FixedClock(task.begins, step=SECOND)
        with self._stores.opened(Ask(ARM, task.id, config, clock, ids)) as memory:
            records = [*task.records, *gold_records(task)]
            stored = _fill(memory, records, MemoryContext(task.id, "s_records", task_id=task.id))
            clock.set(task.asks_at)
            yield stored

    def _corpus(self, name: str) -> Filled:
        if name not in self._corpora:
            config = configured(self._config, self._suite.settings)
            ask = Ask(ARM, name, config, FixedClock(DEFAULT_DATE, step=SECOND), task_ids(name))
            memory = self._open.enter_context(self._stores.opened(ask))
            records = self._suite.corpora[name]
            self._corpora[name] = _fill(memory, records, MemoryContext(name, "s_records"))
        return self._corpora[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def gold_records(task: Task) -> list[DirectRecord]:
    """The gold facts of a task's sessions, as records."""
    return [
        DirectRecord(
            key=f"{session_id}.{place}",
            content=fact.content,
            kind=fact.kind,
            scope=fact.scope,
            claim=fact.claim,
            user=session.user,
            date=session.date,
        )
        for session_id, session in task.named_sessions
        for place, fact in enumerate(session.gold)
    ]


def _fill(memory: Memory, records: Iterable[DirectRecord], context: MemoryContext) -> Filled:
    listed = [record for record in records if not record.forgotten]
    keyed = {record.key or f"#{place}": record for place, record in enumerate(listed)}
    named = [record.model_copy(update={"key": key}) for key, record in keyed.items()]
    ids = write_records(memory, named, context)
    return Filled(memory, {ids[key]: record for key, record in keyed.items()}, ids)
