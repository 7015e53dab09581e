"""The retrieval suite: is what a request needs recalled, given that it is stored?

The stores hold the gold facts of the sessions and the records of the suite. No chat model
is called.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Self

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.need import carries
from memplugin.diagnosis.statistics import Estimate, mean, share
from memplugin.errors import ConfigError
from memplugin.evaluation.setup import (
    StoreRequest,
    Stores,
    recall_request,
    task_ids,
    with_parts,
    write_records,
)
from memplugin.evaluation.suite import DEFAULT_DATE, DirectRecord, Suite, Task, configured
from memplugin.memory.client import Memory
from memplugin.records import STANDING_KINDS, Noun, Retrieval
from memplugin.testing.fakes import FixedClock

CUTS = (1, 3, 5, 10)

_ARM = "retrieval"
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Found(Noun):
    """The ranks of the needed records of one task.

    Attributes:
        kinds: The kinds of the needed records.
        ranks: The rank of each needed record, exact also beyond the depth; None for one
            that a filter excluded.
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
        """1 / rank of the best needed record; 0 where a filter excluded all of them."""
        ranks = [rank for rank in self.ranks if rank is not None]
        return 1 / min(ranks) if ranks else 0.0


@dataclass(frozen=True, slots=True)
class RetrievalScore(Noun):
    """Averages over tasks, each with its interval.

    Attributes:
        recall: By cut: the share of the needed records found, averaged over tasks.
        hit: By cut: the share of tasks with any of their needed records.
        mrr: The mean reciprocal rank of the first needed record.
        shown: The share of tasks whose needed records were all shown, standing ones
            included. These need no rank, so that the share may be higher than the recall.
    """

    tasks: int
    recall: Mapping[int, Estimate]
    hit: Mapping[int, Estimate]
    mrr: Estimate
    shown: Estimate


@dataclass(frozen=True, slots=True)
class RetrievalReport(Noun):
    """The result of the retrieval suite.

    Attributes:
        standing: Tasks that need a preference or an instruction, which are recalled as
            standing records and not by their likeness to the request.
        others: The other tasks.
        left_out: Tasks that need no memory, or one that no part of the suite says.
    """

    suite: str
    policy: str
    overall: RetrievalScore
    standing: RetrievalScore
    others: RetrievalScore
    by_kind: Mapping[str, RetrievalScore]
    found: tuple[Found, ...]
    left_out: tuple[str, ...]


def run_retrieval_suite(
    suite: Suite,
    stores: Stores,
    *,
    config: MemoryConfig | None = None,
    cuts: Sequence[int] = CUTS,
    done: Callable[[Task], None] = lambda _: None,
) -> RetrievalReport:
    """Recalls for every request, and reads the ranks of the needed records.

    Args:
        suite: Its tasks; those that should not use memory are left out.
        stores: Where the records are written.
        config: Settings where neither task nor suite say otherwise.
        cuts: The values of k at which recall and hits are counted.
        done: Called with each task.

    Returns:
        The scores, and the ranks of each task.

    Raises:
        ConfigError: no task of the suite needs a record, or SciPy is not installed.
        StoreError: a store could not be written or read.
    """
    base = config or MemoryConfig()
    found: list[Found] = []
    with _FilledStores(suite, stores, base) as filled_stores:
        for task in suite.tasks:
            if task.should_use:
                with filled_stores.opened(task) as filled:
                    found += _ranks(task, filled)
            done(task)
    if not found:
        raise ConfigError(f"no task of suite {suite.name!r} needs a record: name some with need.")
    return _report(suite, found, base.policy, cuts)


def _ranks(task: Task, filled: _FilledStore) -> list[Found]:
    needed = filled.needed(task)
    if not needed:
        return []
    request, workspace = task.request, task.corpus or task.id
    context = MemoryContext(workspace, "s_request", task.id, request.user, scope=request.scope)
    retrieval = recall_request(filled.memory, request, context)
    shown = {candidate.record_id for candidate in retrieval.injected}
    return [
        Found(
            task_id=task.id,
            tags=task.tags,
            kinds=tuple(dict.fromkeys(filled.records[id_].kind for id_ in needed)),
            ranks=tuple(_rank(filled.memory, retrieval, id_) for id_ in needed),
            shown=len(shown.intersection(needed)),
            k=request.k,
        )
    ]


def _rank(memory: Memory, retrieval: Retrieval, record_id: str) -> int | None:
    for candidate in retrieval.candidates:
        if candidate.record_id == record_id:
            return None if candidate.cut == "inapplicable_scope" else candidate.rank
    return memory.explain(record_id, retrieval).rank


def _report(
    suite: Suite, found: Sequence[Found], policy: str, cuts: Sequence[int]
) -> RetrievalReport:
    standing = [one for one in found if STANDING_KINDS.issuperset(one.kinds)]
    others = [one for one in found if one not in standing]
    kinds = sorted({kind for one in found for kind in one.kinds})
    ranked = {one.task_id for one in found}
    return RetrievalReport(
        suite=suite.name,
        policy=policy,
        overall=_score(found, cuts),
        standing=_score(standing, cuts),
        others=_score(others, cuts),
        by_kind={k: _score([one for one in found if k in one.kinds], cuts) for k in kinds},
        found=tuple(found),
        left_out=tuple(task.id for task in suite.tasks if task.id not in ranked),
    )


def _score(found: Sequence[Found], cuts: Sequence[int]) -> RetrievalScore:
    return RetrievalScore(
        tasks=len(found),
        recall={cut: mean([one.recall_at(cut) for one in found]) for cut in cuts},
        hit={cut: share(sum(one.recall_at(cut) > 0 for one in found), len(found)) for cut in cuts},
        mrr=mean([one.reciprocal_rank for one in found]),
        shown=share(sum(one.shown == len(one.ranks) for one in found), len(found)),
    )


# ---------------------------------------------------------------- the stores


@dataclass(frozen=True, slots=True)
class _FilledStore:
    """A store that holds what a task may need.

    Attributes:
        records: What was written, by the ids of the records.
        ids: These ids by the keys of the suite; a session's gold fact has the key
            ``{session}.{place}``.
    """

    memory: Memory
    records: Mapping[str, DirectRecord]
    ids: Mapping[str, str]

    def needed(self, task: Task) -> list[str]:
        """The ids of the records that a task needs, by key, message, claim or text."""
        need = task.need
        if need.records:
            return [self.ids[key] for key in need.records if key in self.ids]
        found = list(self.records)
        if need.said:
            gold = dict(task.named_sessions)[need.said.session].gold
            keys = [
                f"{need.said.session}.{place}"
                for place, fact in enumerate(gold)
                if fact.turn == need.said.turn
            ]
            found = [self.ids[key] for key in keys if key in self.ids]
        if need.claim:
            found = [id_ for id_ in found if self.records[id_].claim == need.claim]
        if text := need.text:
            found = [id_ for id_ in found if carries(text, self.records[id_].content)]
        return found if need.said or need.claim or need.text else []


class _FilledStores:
    """Opens filled stores; those of corpora stay open until it is closed. A context manager."""

    def __init__(self, suite: Suite, stores: Stores, config: MemoryConfig) -> None:
        self._suite = suite
        self._stores = stores
        self._config = config
        self._corpora: dict[str, _FilledStore] = {}
        self._open = ExitStack()

    @contextmanager
    def opened(self, task: Task) -> Generator[_FilledStore]:
        """The store of a task at the time of its request."""
        config, ids = self._suite.config(task, self._config), task_ids(task.id)
        if task.corpus:
            shared, clock = self._corpus(task.corpus), FixedClock(task.request_at, step=_SECOND)
            yield replace(shared, memory=with_parts(shared.memory, config, clock, ids))
            return
        clock = FixedClock(task.starts_at, step=_SECOND)
        with self._stores.opened(StoreRequest(_ARM, task.id, config, clock, ids)) as memory:
            records = [*task.records, *_gold_records(task)]
            filled = _fill(memory, records, MemoryContext(task.id, "s_records", task_id=task.id))
            clock.set(task.request_at)
            yield filled

    def _corpus(self, name: str) -> _FilledStore:
        if name not in self._corpora:
            config = configured(self._config, self._suite.settings)
            clock = FixedClock(DEFAULT_DATE, step=_SECOND)
            wanted = StoreRequest(_ARM, name, config, clock, task_ids(name))
            memory = self._open.enter_context(self._stores.opened(wanted))
            records = self._suite.corpora[name]
            self._corpora[name] = _fill(memory, records, MemoryContext(name, "s_records"))
        return self._corpora[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def _gold_records(task: Task) -> list[DirectRecord]:
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


def _fill(memory: Memory, records: Iterable[DirectRecord], context: MemoryContext) -> _FilledStore:
    listed = [record for record in records if not record.forgotten]
    keyed = {record.key or f"#{place}": record for place, record in enumerate(listed)}
    named = [record.model_copy(update={"key": key}) for key, record in keyed.items()]
    ids = write_records(memory, named, context)
    return _FilledStore(memory, {ids[key]: record for key, record in keyed.items()}, ids)
