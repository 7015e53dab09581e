"""The retrieval suite: is what a request needs found, given that it is stored?

The stores are filled with the gold facts of the sessions and with the suite's records. No
chat model is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.statistics import Estimate, mean, share
from memplugin.errors import ConfigError
from memplugin.evaluation.setup import Filled, Filler, Stores
from memplugin.evaluation.suite import Suite, Task
from memplugin.memory.client import Memory
from memplugin.records import STANDING_KINDS, Noun, Retrieval

CUTS = (1, 3, 5, 10)


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
            included. These need no rank, so that it may be above the recall.
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
    with Filler(suite, stores, base) as filler:
        for task in suite.tasks:
            if task.should_use:
                with filler.filled(task) as filled:
                    found += _looked(task, filled)
            done(task)
    if not found:
        raise ConfigError(f"no task of suite {suite.name!r} needs a record: name some with need.")
    return _report(suite, found, base.policy, cuts)


def _looked(task: Task, filled: Filled) -> list[Found]:
    needed = filled.needed(task)
    if not needed:
        return []
    asked = task.request
    workspace = task.corpus or task.id
    retrieval = filled.memory.recall(
        asked.query or asked.text,
        context=MemoryContext(workspace, "s_request", task.id, asked.user, scope=asked.scope),
        k=asked.k,
        kinds=asked.kinds,
        policy=asked.policy,
    )
    shown = {candidate.record_id for candidate in retrieval.injected}
    return [
        Found(
            task_id=task.id,
            tags=task.tags,
            kinds=tuple(dict.fromkeys(filled.records[id_].kind for id_ in needed)),
            ranks=tuple(_rank(filled.memory, retrieval, id_) for id_ in needed),
            shown=len(shown.intersection(needed)),
            k=asked.k,
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
