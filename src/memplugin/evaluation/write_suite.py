"""Has sessions read by an extractor, and looks at what came of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.need import carries
from memplugin.diagnosis.statistics import Estimate, share
from memplugin.evaluation.agreement import AnnotatorAgreement, agreements, undisputed
from memplugin.evaluation.conversation import remember_session, turn_id, write_records
from memplugin.evaluation.matching import BY, By, Matcher, Said
from memplugin.evaluation.setup import Ask, Stores, task_ids
from memplugin.evaluation.suite import Suite, Task
from memplugin.evaluation.suite_parts import Session
from memplugin.memory.client import Memory
from memplugin.records import MemoryRecord, Noun, WriteReceipt
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
    records = reading.memory.backend.ledger.records.get_many(context.workspace_id, named)
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
    proposals = reading.memory.backend.ledger.history.proposals_of(context.workspace_id, ids)
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


@dataclass(frozen=True, slots=True)
class Score(Noun):
    """Precision and recall, each with its interval.

    Attributes:
        written: Records made, without those that match a disputed fact.
        right: Of these, those that say a gold fact.
        gold: Gold facts that every annotator has.
        found: Of these, those that a record says.
    """

    precision: Estimate
    recall: Estimate
    written: int
    right: int
    gold: int
    found: int


@dataclass(frozen=True, slots=True)
class Growth(Noun):
    """How the store grew.

    Attributes:
        sessions: How many were read.
        records: How many new records they made.
        gold: How many facts should have been written, disputed ones included.
        extra: Records that say no gold fact.
        still_found: Of the requests whose needed fact was written, the share that has it
            among the first k, all other records beside it.
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
    """What the write suite comes to.

    Attributes:
        by_kind: Precision by the kind of the record, recall by that of the gold fact.
        by_phrasing: Both by how the message was put that says it.
        matched_by: How the matches were found.
        unreadable: Sessions whose extraction failed, and why.
        annotators: Agreement of every two who have read the same sessions.
    """

    suite: str
    overall: Score
    by_kind: Mapping[str, Score]
    by_phrasing: Mapping[str, Score]
    growth: Growth
    matched_by: Mapping[By, int]
    missed: tuple[Missed, ...]
    extra: tuple[Missed, ...]
    unreadable: Mapping[str, str]
    annotators: tuple[AnnotatorAgreement, ...]


@dataclass(slots=True)
class _Fact:
    """A gold fact or a record, and whether the other side has it."""

    shown: Missed
    matched: bool
    disputed: bool = False


@dataclass(slots=True)
class _Counts:
    gold: list[_Fact] = field(default_factory=list[_Fact])
    written: list[_Fact] = field(default_factory=list[_Fact])
    by: list[By] = field(default_factory=list[By])


def run_write_suite(
    suite: Suite,
    reader: Reader,
    matcher: Matcher,
    *,
    config: MemoryConfig | None = None,
    done: Callable[[Task], None] = lambda _: None,
) -> WriteReport:
    """Has every session read, and holds what was written against the gold facts.

    Args:
        suite: Its tasks' sessions; those without gold facts should leave nothing.
        reader: Store and models.
        matcher: Compares records with gold facts.
        config: Settings where neither task nor suite say otherwise.
        done: Called with each task.

    Raises:
        ConfigError: no session is in the suite, or SciPy is not installed.
        StoreError: a session could not be stored.
        JudgeFailed: the judge gave no usable reply.
    """
    counts, reads = _Counts(), list[Read]()
    for task in suite.tasks:
        if task.sessions:
            reads += read_sessions(task, suite.config(task, config or MemoryConfig()), reader)
        done(task)
    for read in reads:
        _count(read, matcher, counts)
    return _report(suite, reads, counts)


def _count(read: Read, matcher: Matcher, counts: _Counts) -> None:
    session = read.session
    gold = [Said(fact.content, fact.claim, fact.scope) for fact in session.gold]
    written = [Said(record.content, record.claim, record.scope) for record in read.records]
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
    counts.by.extend(m.by for m in matches)


def _report(suite: Suite, reads: Sequence[Read], counts: _Counts) -> WriteReport:
    judged = [w for w in counts.written if not w.disputed]
    sure = [g for g in counts.gold if not g.disputed]
    extra = tuple(w.shown for w in judged if not w.matched)
    asked = [read.still_found for read in reads if read.still_found is not None]
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
            still_found=share(sum(asked), len(asked)),
        ),
        matched_by={by: counts.by.count(by) for by in BY},
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
