"""The retrieval suite: is what a request needs found, given that it is stored?

The stores are filled with the gold facts of the sessions, as an extractor without faults
would have written them, and with the suite's records. No chat model is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.wording import carries
from memplugin.errors import ConfigError
from memplugin.evaluation.intervals import Estimate, mean, share
from memplugin.evaluation.stores import Ask, Stores, task_ids, with_parts
from memplugin.evaluation.suite import DEFAULT_DATE, DirectRecord, Suite, Task, configured
from memplugin.evaluation.telling import write_records
from memplugin.memory.front import Memory
from memplugin.records import STANDING_KINDS, Noun, Retrieval
from memplugin.testing.fakes import FixedClock

CUTS = (1, 3, 5, 10)
ARM = "retrieval"
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Found(Noun):
    """Where the needed records of one task stood.

    Attributes:
        kinds: Of the needed records.
        ranks: Of each needed record, exact also beyond the depth; None for one that a
            filter kept out of the race.
        shown: How many of the needed records were shown, by rank or as standing ones.
    """

    task_id: str
    tags: Mapping[str, str]
    kinds: tuple[str, ...]
    ranks: tuple[int | None, ...]
    shown: int
    k: int

    def recall_at(self, cut: int) -> float:
        """The share of the needed records among the first ``cut``."""
        return sum(rank is not None and rank <= cut for rank in self.ranks) / len(self.ranks)

    @property
    def reciprocal_rank(self) -> float:
        """1 / rank of the best needed record; 0 where none is in the race."""
        ranks = [rank for rank in self.ranks if rank is not None]
        return 1 / min(ranks) if ranks else 0.0


@dataclass(frozen=True, slots=True)
class RetrievalScore(Noun):
    """Averages over tasks, each with its interval.

    Attributes:
        recall: By cut: the share of the needed records found, averaged over tasks.
        hit: By cut: the share of tasks with any of them.
        mrr: Mean reciprocal rank of the first needed one.
        shown: The share of tasks whose needed records were all shown, standing ones
            included. Standing records need no rank, so this may be above the recall.
    """

    tasks: int
    recall: Mapping[int, Estimate]
    hit: Mapping[int, Estimate]
    mrr: Estimate
    shown: Estimate


@dataclass(frozen=True, slots=True)
class RetrievalReport(Noun):
    """What the retrieval suite comes to.

    Attributes:
        standing: Tasks that need a preference or an instruction; these do not look like
            the request, and are found by another source.
        others: The other tasks.
        left_out: Tasks that need no memory, or one that nothing in the suite says.
    """

    suite: str
    policy: str
    overall: RetrievalScore
    standing: RetrievalScore
    others: RetrievalScore
    by_kind: Mapping[str, RetrievalScore]
    found: tuple[Found, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Stored:
    """What a store was filled with, by id: the record, and its key."""

    memory: Memory
    records: Mapping[str, DirectRecord]
    keys: Mapping[str, str]


def run_retrieval_suite(
    suite: Suite,
    stores: Stores,
    *,
    config: MemoryConfig | None = None,
    cuts: Sequence[int] = CUTS,
    done: Callable[[Task], None] = lambda _: None,
) -> RetrievalReport:
    """Recalls for every request, and looks where the needed records stand.

    Raises:
        ConfigError: no task of the suite needs a record, or SciPy is not installed.
        StoreError: a store could not be filled or asked.
    """
    base = config or MemoryConfig()
    found: list[Found] = []
    with ExitStack() as corpora:
        filled: dict[str, _Stored] = {}
        for task in suite.tasks:
            if task.corpus and task.corpus not in filled:
                filled[task.corpus] = _corpus(suite, task.corpus, stores, base, corpora)
            with ExitStack() as closing:
                stored = _own(suite, task, stores, base, filled, closing)
                if one := _look(suite, task, stored, base):
                    found.append(one)
            done(task)
    if not found:
        raise ConfigError(f"no task of suite {suite.name!r} needs a record: name some with need.")
    return _report(suite, found, base.policy, cuts)


# ---------------------------------------------------------------- filling


def _corpus(
    suite: Suite, name: str, stores: Stores, base: MemoryConfig, open_: ExitStack
) -> _Stored:
    config = configured(base, suite.settings)
    clock = FixedClock(DEFAULT_DATE, step=SECOND)
    memory = open_.enter_context(stores.opened(Ask(ARM, name, config, clock, task_ids(name))))
    return _fill(memory, suite.corpora[name], MemoryContext(name, "s_records"))


def _own(
    suite: Suite,
    task: Task,
    stores: Stores,
    base: MemoryConfig,
    filled: Mapping[str, _Stored],
    closing: ExitStack,
) -> _Stored:
    config = suite.config(task, base)
    clock, ids = FixedClock(task.begins, step=SECOND), task_ids(task.id)
    if task.corpus:
        shared = filled[task.corpus]
        clock.set(task.asks_at)
        memory = with_parts(shared.memory, config, clock, ids)
        return _Stored(memory, shared.records, shared.keys)
    memory = closing.enter_context(stores.opened(Ask(ARM, task.id, config, clock, ids)))
    records = [*task.records, *gold_records(task)]
    stored = _fill(memory, records, MemoryContext(task.id, "s_records", task_id=task.id))
    clock.set(task.asks_at)
    return stored


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


def _fill(memory: Memory, records: Iterable[DirectRecord], context: MemoryContext) -> _Stored:
    listed = [r for r in records if not r.forgotten]
    keyed = [r.model_copy(update={"key": r.key or f"#{n}"}) for n, r in enumerate(listed)]
    ids = write_records(memory, keyed, context)
    by_key = {r.key: r for r in keyed}
    return _Stored(memory, {ids[key]: by_key[key] for key in ids}, ids)


# ---------------------------------------------------------------- looking


def _look(suite: Suite, task: Task, stored: _Stored, base: MemoryConfig) -> Found | None:
    needed = _needed(task, stored)
    if not (needed and task.should_use):
        return None
    context = MemoryContext(
        task.corpus or task.id,
        "s_request",
        task_id=task.id,
        user_id=task.request.user,
        scope=task.request.scope,
    )
    retrieval = stored.memory.recall(
        task.request.query or task.request.text,
        context=context,
        k=task.request.k,
        kinds=task.request.kinds,
        policy=task.request.policy,
    )
    shown = {candidate.record_id for candidate in retrieval.injected}
    return Found(
        task_id=task.id,
        tags=task.tags,
        kinds=tuple(dict.fromkeys(stored.records[id_].kind for id_ in needed)),
        ranks=tuple(_rank(stored.memory, retrieval, id_) for id_ in needed),
        shown=len(shown & set(needed)),
        k=task.request.k,
    )


def _needed(task: Task, stored: _Stored) -> list[str]:
    need = task.need
    if need.records:
        return list(dict.fromkeys(stored.keys[k] for k in need.records if k in stored.keys))
    found = list(stored.records.items())
    if need.said and not (need.text or need.claim):
        session = dict(task.named_sessions)[need.said.session]
        said = [
            f"{need.said.session}.{place}"
            for place, fact in enumerate(session.gold)
            if fact.turn == need.said.turn
        ]
        return [stored.keys[key] for key in said if key in stored.keys]
    if need.claim:
        return [id_ for id_, record in found if record.claim == need.claim]
    return [id_ for id_, record in found if need.text and carries(need.text, record.content)]


def _rank(memory: Memory, retrieval: Retrieval, record_id: str) -> int | None:
    for candidate in retrieval.candidates:
        if candidate.record_id == record_id:
            return None if candidate.cut == "inapplicable_scope" else candidate.rank
    return memory.explain(record_id, retrieval).rank


# ---------------------------------------------------------------- averaging


def _report(
    suite: Suite, found: Sequence[Found], policy: str, cuts: Sequence[int]
) -> RetrievalReport:
    standing = [one for one in found if STANDING_KINDS.issuperset(one.kinds)]
    others = [one for one in found if one not in standing]
    kinds = sorted({kind for one in found for kind in one.kinds})
    asked = {one.task_id for one in found}
    return RetrievalReport(
        suite=suite.name,
        policy=policy,
        overall=_score(found, cuts),
        standing=_score(standing, cuts),
        others=_score(others, cuts),
        by_kind={k: _score([one for one in found if k in one.kinds], cuts) for k in kinds},
        found=tuple(found),
        left_out=tuple(task.id for task in suite.tasks if task.id not in asked),
    )


def _score(found: Sequence[Found], cuts: Sequence[int]) -> RetrievalScore:
    return RetrievalScore(
        tasks=len(found),
        recall={cut: mean([one.recall_at(cut) for one in found]) for cut in cuts},
        hit={cut: share(sum(one.recall_at(cut) > 0 for one in found), len(found)) for cut in cuts},
        mrr=mean([one.reciprocal_rank for one in found]),
        shown=share(sum(one.shown == len(one.ranks) for one in found), len(found)),
    )
