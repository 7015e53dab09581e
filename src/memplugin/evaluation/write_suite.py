"""The write suite: does the extractor write what should be remembered, and nothing else?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.need import carries
from memplugin.diagnosis.statistics import Estimate, share
from memplugin.evaluation.agreement import AnnotatorAgreement, agreements, undisputed
from memplugin.evaluation.matching import METHODS, Matcher, MatchMethod, Statement
from memplugin.evaluation.setup import (
    StoreRequest,
    Stores,
    recall_request,
    remember_session,
    task_ids,
    turn_id,
    write_records,
)
from memplugin.evaluation.suite import Session, Suite, Task
from memplugin.memory.client import Memory
from memplugin.records import MemoryRecord, Noun, WriteReceipt
from memplugin.testing.fakes import FixedClock

_DEFAULT_PHRASING = "statement"
_ARM = "write"
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Reader:
    """The stores and the extractor with which sessions are read."""

    stores: Stores
    extractor: Callable[[Task], BaseChatModel]


@dataclass(frozen=True, slots=True)
class Score(Noun):
    """Precision and recall, each with its interval.

    Attributes:
        written: How many records were made, without those that match a disputed fact.
        right: How many of these say a gold fact.
        gold: How many gold facts every annotator noted.
        found: How many of these a record says.
    """

    precision: Estimate
    recall: Estimate
    written: int
    right: int
    gold: int
    found: int


@dataclass(frozen=True, slots=True)
class Growth(Noun):
    """The growth of the store.

    Attributes:
        sessions: How many sessions were read.
        records: How many new records were made from them.
        gold: How many facts should have been written, disputed ones included.
        extra: How many records say no gold fact.
        still_found: Of the requests whose needed fact was written, the share that has it
            among the first k, beside all other records.
    """

    sessions: int
    records: int
    gold: int
    extra: int
    still_found: Estimate


@dataclass(frozen=True, slots=True)
class Missed(Noun):
    """A gold fact that no record says, or a record that says no gold fact."""

    task_id: str
    session: str
    content: str
    kind: str
    phrasing: str


@dataclass(frozen=True, slots=True)
class WriteReport(Noun):
    """The result of the write suite.

    Attributes:
        by_kind: Precision by the kind of the record, recall by the kind of the gold fact.
        by_phrasing: Both by the phrasing of the message that says it.
        matched_by: How many matches each method found.
        unreadable: The sessions whose extraction failed, and why.
        annotators: The agreement of every two people who annotated the same sessions.
    """

    suite: str
    overall: Score
    by_kind: Mapping[str, Score]
    by_phrasing: Mapping[str, Score]
    growth: Growth
    matched_by: Mapping[MatchMethod, int]
    missed: tuple[Missed, ...]
    extra: tuple[Missed, ...]
    unreadable: Mapping[str, str]
    annotators: tuple[AnnotatorAgreement, ...]


def run_write_suite(
    suite: Suite,
    reader: Reader,
    matcher: Matcher,
    *,
    config: MemoryConfig | None = None,
    done: Callable[[Task], None] = lambda _: None,
) -> WriteReport:
    """Has every session read, and compares what was written with the gold facts.

    Args:
        suite: Its sessions are read; from one without gold facts nothing should be written.
        reader: The stores and the extractor.
        matcher: Compares records with gold facts.
        config: Settings where neither task nor suite say otherwise.
        done: Called with each task.

    Returns:
        Precision, recall and growth, with every miss.

    Raises:
        ConfigError: no session is in the suite, or SciPy is not installed.
        StoreError: a session could not be stored.
        JudgeFailed: the judge gave no usable reply.
    """
    counts, reads = _Counts(), list[_SessionRead]()
    for task in suite.tasks:
        if task.sessions:
            reads += _read_sessions(task, suite.config(task, config or MemoryConfig()), reader)
        done(task)
    for read in reads:
        _count(read, matcher, counts)
    return _report(suite, reads, counts)


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, slots=True)
class _SessionRead:
    """One session, and the records that were made from it.

    Attributes:
        records: The records that its proposals made or were attached to.
        made: How many of them are new.
        turns: By the id of a record, the number of the message that it quotes.
        failure: Why the extraction failed; None when it did not.
        still_found: Whether the record that the task needs, made from this session, is
            among the first k for the request of the task; None when it made none.
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
        """The phrasing of a message."""
        return self.session.messages[turn].phrasing or self.session.phrasing or _DEFAULT_PHRASING

    def phrasing_of(self, record_id: str) -> str:
        """The phrasing of the message that a record quotes."""
        return self.phrasing(self.turns.get(record_id, 0))


@dataclass(slots=True)
class _TaskReading:
    """The store and the extractor with which the sessions of one task are read."""

    task: Task
    memory: Memory
    clock: FixedClock
    extractor: BaseChatModel

    def context(self, session_id: str, user: str | None = None) -> MemoryContext:
        return MemoryContext(self.task.id, session_id, task_id=self.task.id, user_id=user)


def _read_sessions(task: Task, config: MemoryConfig, reader: Reader) -> list[_SessionRead]:
    """Writes the records of a task and has its sessions read, one after the other."""
    clock = FixedClock(task.starts_at - timedelta(days=1), step=_SECOND)
    wanted = StoreRequest(_ARM, task.id, config, clock, task_ids(task.id))
    with reader.stores.opened(wanted) as memory:
        reading = _TaskReading(task, memory, clock, reader.extractor(task))
        write_records(memory, task.records, reading.context("s_records"))
        reads = [_read(reading, id_, session) for id_, session in task.named_sessions]
        return _with_recall(reading, reads)


def _read(reading: _TaskReading, session_id: str, session: Session) -> _SessionRead:
    context = reading.context(session_id, session.user)
    receipts = remember_session(reading.memory, session, context, reading.extractor, reading.clock)
    named = list(dict.fromkeys(r.record_id for r in receipts if r.record_id))
    records = reading.memory.backend.ledger.records.get_many(context.workspace_id, named)
    failed = [r.reason or "no reason" for r in receipts if r.ruling == "failed"]
    return _SessionRead(
        task_id=reading.task.id,
        session_id=session_id,
        session=session,
        records=tuple(records[id_] for id_ in named),
        made=sum(r.ruling in ("accepted", "superseded") for r in receipts),
        turns=_turns(reading, session, context, receipts),
        failure=failed[0] if failed else None,
    )


def _turns(
    reading: _TaskReading,
    session: Session,
    context: MemoryContext,
    receipts: Sequence[WriteReceipt],
) -> dict[str, int]:
    """The number of the message that each record of a session quotes."""
    numbers = {
        turn_id(session, place, context): place
        for place, message in enumerate(session.messages)
        if message.role in ("user", "assistant", "tool")
    }
    ids = [r.record_id for r in receipts if r.record_id]
    proposals = reading.memory.backend.ledger.history.proposals_of(context.workspace_id, ids)
    mine = [p for p in proposals if p.session_id == context.session_id]
    return {p.record_id: numbers[p.turn_id] for p in mine if p.record_id and p.turn_id in numbers}


def _with_recall(reading: _TaskReading, reads: Sequence[_SessionRead]) -> list[_SessionRead]:
    """Recalls for the request: is what was written among the records that are shown?"""
    task = reading.task
    needed = [_needed(task, read) for read in reads]
    if not any(needed):
        return list(reads)
    reading.clock.set(task.request_at)
    context = MemoryContext(
        task.id, "s_request", task_id=task.id, user_id=task.request.user, scope=task.request.scope
    )
    retrieval = recall_request(reading.memory, task.request, context)
    shown = {candidate.record_id for candidate in retrieval.injected}
    return [
        replace(read, still_found=bool(ids & shown)) if ids else read
        for read, ids in zip(reads, needed, strict=True)
    ]


def _needed(task: Task, read: _SessionRead) -> set[str]:
    """The ids of a session's records that say what the task needs."""
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


# ---------------------------------------------------------------- counting


@dataclass(slots=True)
class _Fact:
    """A gold fact or a record, and whether it has a match on the other side."""

    shown: Missed
    matched: bool
    disputed: bool = False


@dataclass(slots=True)
class _Counts:
    gold: list[_Fact] = field(default_factory=list[_Fact])
    written: list[_Fact] = field(default_factory=list[_Fact])
    methods: list[MatchMethod] = field(default_factory=list[MatchMethod])


def _count(read: _SessionRead, matcher: Matcher, counts: _Counts) -> None:
    session = read.session
    gold = [Statement(fact.content, fact.claim, fact.scope) for fact in session.gold]
    written = [Statement(record.content, record.claim, record.scope) for record in read.records]
    matches = matcher.match(gold, written)
    disputed = set(undisputed(session)[1])
    matched = {m.gold: m.written for m in matches}
    facts = [
        _Fact(
            Missed(read.task_id, read.session_id, f.content, f.kind, read.phrasing(f.turn)),
            place in matched,
            place in disputed,
        )
        for place, f in enumerate(session.gold)
    ]
    right = {w: facts[g].disputed for g, w in matched.items()}
    counts.gold += facts
    counts.written += [
        _Fact(
            Missed(read.task_id, read.session_id, r.content, r.kind, read.phrasing_of(r.id)),
            place in right,
            right.get(place, False),
        )
        for place, r in enumerate(read.records)
    ]
    counts.methods.extend(m.by for m in matches)


def _report(suite: Suite, reads: Sequence[_SessionRead], counts: _Counts) -> WriteReport:
    judged = [w for w in counts.written if not w.disputed]
    sure = [g for g in counts.gold if not g.disputed]
    extra = tuple(w.shown for w in judged if not w.matched)
    found = [read.still_found for read in reads if read.still_found is not None]
    return WriteReport(
        suite=suite.name,
        overall=_score(judged, sure),
        by_kind=_split(judged, sure, lambda fact: fact.shown.kind),
        by_phrasing=_split(judged, sure, lambda fact: fact.shown.phrasing),
        growth=Growth(
            sessions=len(reads),
            records=sum(read.made for read in reads),
            gold=len(counts.gold),
            extra=len(extra),
            still_found=share(sum(found), len(found)),
        ),
        matched_by={method: counts.methods.count(method) for method in METHODS},
        missed=tuple(g.shown for g in sure if not g.matched),
        extra=extra,
        unreadable={f"{r.task_id}/{r.session_id}": r.failure for r in reads if r.failure},
        annotators=tuple(agreements(read.session for read in reads)),
    )


def _split(
    written: Sequence[_Fact], gold: Sequence[_Fact], of: Callable[[_Fact], str]
) -> dict[str, Score]:
    names = sorted({of(fact) for fact in (*written, *gold)})
    return {
        name: _score([w for w in written if of(w) == name], [g for g in gold if of(g) == name])
        for name in names
    }


def _score(written: Iterable[_Fact], gold: Iterable[_Fact]) -> Score:
    kept, facts = [w.matched for w in written], [g.matched for g in gold]
    return Score(
        precision=share(sum(kept), len(kept)),
        recall=share(sum(facts), len(facts)),
        written=len(kept),
        right=sum(kept),
        gold=len(facts),
        found=sum(facts),
    )
