"""The write suite: what an extractor writes of sessions whose gold facts are known.

Precision is the share of what was written that should have been, recall the share of what
should have been written that was. Beside them stands the growth of the store, since every
record more competes for a place in each later top k: what a better recall costs shows
there, and in how often a needed record is still among the first k.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from memplugin.config import MemoryConfig
from memplugin.evaluation.annotators import AnnotatorAgreement, agreements, undisputed
from memplugin.evaluation.intervals import Estimate, share
from memplugin.evaluation.matching import BY, By, Matcher, Said
from memplugin.evaluation.reading import Read, Reader, read_sessions
from memplugin.evaluation.suite import Suite, Task
from memplugin.records import Noun


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
