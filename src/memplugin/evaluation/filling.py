"""Fills the stores of the retrieval suite, as an extractor without faults would have."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Self

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.wording import carries
from memplugin.evaluation.stores import Ask, Stores, task_ids, with_parts
from memplugin.evaluation.suite import DEFAULT_DATE, Suite, Task, configured
from memplugin.evaluation.telling import write_records
from memplugin.evaluation.told import DirectRecord
from memplugin.memory.front import Memory
from memplugin.testing.fakes import FixedClock

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
