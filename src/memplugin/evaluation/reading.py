"""Has sessions read by an extractor, and looks at what came of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.wording import carries
from memplugin.evaluation.stores import Ask, Stores, task_ids
from memplugin.evaluation.suite import Task
from memplugin.evaluation.telling import remember_session, turn_id, write_records
from memplugin.evaluation.told import Session
from memplugin.memory.front import Memory
from memplugin.records import MemoryRecord, WriteReceipt
from memplugin.testing.fakes import FixedClock

PLAIN = "statement"
"""How a message is put that nobody has tagged."""

ARM = "write"
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Reader:
    """What sessions are read with."""

    stores: Stores
    extractor: Callable[[Task], BaseChatModel]


@dataclass(frozen=True, slots=True)
class Read:
    """One session, and the records that came of it.

    Attributes:
        records: Made or attached to by this session's proposals.
        made: How many of them are new.
        turns: Record id to the number of the message that it quotes.
        failure: Why the extraction failed; None when it did not.
        still_found: Whether the task's needed record, which this session made, is among
            the first k for the task's request; None when it made none.
    """

    task_id: str
    session_id: str
    session: Session
    records: tuple[MemoryRecord, ...]
    made: int
    turns: Mapping[str, int]
    failure: str | None = None
    still_found: bool | None = None

    def phrasing(self, turn: int) -> str:
        """How a message is put."""
        return self.session.messages[turn].phrasing or self.session.phrasing or PLAIN

    def phrasing_of(self, record_id: str) -> str:
        """How the message is put that a record quotes."""
        return self.phrasing(self.turns.get(record_id, 0))


@dataclass(slots=True)
class _Reading:
    """One task's sessions on its store."""

    task: Task
    memory: Memory
    clock: FixedClock
    extractor: BaseChatModel

    def context(self, session_id: str, user: str | None = None) -> MemoryContext:
        return MemoryContext(self.task.id, session_id, task_id=self.task.id, user_id=user)


def read_sessions(task: Task, config: MemoryConfig, reader: Reader) -> list[Read]:
    """Writes a task's records and has its sessions read, one after the other.

    Raises:
        StoreError: something could not be stored.
    """
    clock = FixedClock(task.begins - timedelta(days=1), step=SECOND)
    ask = Ask(ARM, task.id, config, clock, task_ids(task.id))
    with reader.stores.opened(ask) as memory:
        reading = _Reading(task, memory, clock, reader.extractor(task))
        write_records(memory, task.records, reading.context("s_records"))
        reads = [_read(reading, id_, session) for id_, session in task.named_sessions]
        return _asked(reading, reads)


def _read(reading: _Reading, session_id: str, session: Session) -> Read:
    context = reading.context(session_id, session.user)
    receipts = remember_session(reading.memory, session, context, reading.extractor, reading.clock)
    named = list(dict.fromkeys(r.record_id for r in receipts if r.record_id))
    records = reading.memory.store.ledger.records(context.workspace_id, named)
    failed = [r.reason or "no reason" for r in receipts if r.ruling == "failed"]
    return Read(
        task_id=reading.task.id,
        session_id=session_id,
        session=session,
        records=tuple(records[id_] for id_ in named),
        made=sum(r.ruling in ("accepted", "superseded") for r in receipts),
        turns=_turns(reading, session, context, receipts),
        failure=failed[0] if failed else None,
    )


def _turns(
    reading: _Reading, session: Session, context: MemoryContext, receipts: Sequence[WriteReceipt]
) -> dict[str, int]:
    """Which message each record of a session quotes."""
    numbers = {
        turn_id(session, place, context): place
        for place, message in enumerate(session.messages)
        if message.role in ("user", "assistant", "tool")
    }
    ids = [r.record_id for r in receipts if r.record_id]
    proposals = reading.memory.store.ledger.proposals_of(context.workspace_id, ids)
    mine = [p for p in proposals if p.session_id == context.session_id]
    return {p.record_id: numbers[p.turn_id] for p in mine if p.record_id and p.turn_id in numbers}


def _asked(reading: _Reading, reads: Sequence[Read]) -> list[Read]:
    """Recalls for the request, and looks whether what was written is found among the rest."""
    task = reading.task
    needed = [_needed(task, read) for read in reads]
    if not any(needed):
        return list(reads)
    reading.clock.set(task.asks_at)
    context = MemoryContext(
        task.id, "s_request", task_id=task.id, user_id=task.request.user, scope=task.request.scope
    )
    found = reading.memory.recall(
        task.request.query or task.request.text,
        context=context,
        k=task.request.k,
        kinds=task.request.kinds,
        policy=task.request.policy,
    )
    shown = {candidate.record_id for candidate in found.injected}
    return [
        replace(read, still_found=bool(ids & shown)) if ids else read
        for read, ids in zip(reads, needed, strict=True)
    ]


def _needed(task: Task, read: Read) -> set[str]:
    """The records of a session that carry what the task needs."""
    need, found = task.need, [r for r in read.records if r.status == "active"]
    if not task.should_use or not (need.claim or need.text or need.said):
        return set()
    if need.claim:
        found = [r for r in found if dict(r.claim or {}) == need.claim]
    if need.text:
        found = [r for r in found if carries(need.text, r.content)]
    if need.said:
        here = need.said.session == read.session_id
        found = [r for r in found if here and read.turns.get(r.id) == need.said.turn]
    return {record.id for record in found}
