"""What memory costs where nothing is wrong: shown and not needed, on tasks that passed.

Attribution looks at failures only. A memory that is shown, passed over and paid for on a
task that passes is in none of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from memplugin.config import MemoryConfig
from memplugin.diagnosis.chance import share_interval
from memplugin.diagnosis.counterfactual import CitationAgreement
from memplugin.diagnosis.task_record import CandidateEntry, TaskRecord
from memplugin.evaluation.intervals import Estimate, mean
from memplugin.evaluation.results import MEMORY_ON, TaskRun
from memplugin.records import Noun


@dataclass(frozen=True, slots=True)
class Waste(Noun):
    """Memories shown on tasks that passed, against those that were of use.

    Attributes:
        tasks: Passing tasks that asked memory.
        shown: Records shown to a task.
        cited: Of these, records that the answer cites. A citation is no proof of use.
        load_bearing: Records without which the answer is another, over the tasks with
            counterfactuals; None without any.
        tokens_shown: Tokens of the records shown to a task.
        uncited_tokens: Share of these tokens in records that were not cited.
        idle_tokens: Share in records that counterfactuals found to do nothing, over the
            tasks that have them.
        shown_counts: How many tasks were shown how many records.
    """

    tasks: int
    shown: Estimate
    cited: Estimate
    load_bearing: Estimate | None
    tokens_shown: Estimate
    uncited_tokens: float | None
    idle_tokens: float | None
    shown_counts: Mapping[int, int]


def waste_of(
    runs: Iterable[TaskRun],
    count_tokens: Callable[[str], int] | None = None,
) -> Waste:
    """Counts it over the passing tasks with memory.

    Raises:
        ConfigError: SciPy is not installed.
    """
    count = count_tokens or MemoryConfig().count_tokens
    records = [
        run.record
        for run in runs
        if run.arm == MEMORY_ON and run.success and run.record and run.record.retrieval
    ]
    tried = [record for record in records if record.use.counterfactuals]

    def tokens(candidates: Iterable[CandidateEntry]) -> int:
        return sum(count(c.content or "") for c in candidates)

    all_tokens = [tokens(shown_of(record)) for record in records]
    uncited = [
        tokens(c for c in shown_of(r) if c.record_id not in r.use.cited_record_ids) for r in records
    ]
    idle = [tokens(c for c in shown_of(r) if c.record_id not in bearing_of(r)) for r in tried]
    return Waste(
        tasks=len(records),
        shown=mean([len(shown_of(record)) for record in records]),
        cited=mean([_cited(record) for record in records]),
        load_bearing=mean([len(bearing_of(record)) for record in tried]) if tried else None,
        tokens_shown=mean(all_tokens),
        uncited_tokens=_ratio(sum(uncited), sum(all_tokens)),
        idle_tokens=_ratio(sum(idle), sum(tokens(shown_of(record)) for record in tried)),
        shown_counts=dict(sorted(Counter(len(shown_of(r)) for r in records).items())),
    )


def shown_of(record: TaskRecord) -> list[CandidateEntry]:
    """The records that were shown."""
    return [c for c in record.retrieval.candidates if c.injected] if record.retrieval else []


def bearing_of(record: TaskRecord) -> set[str]:
    """Records without which the answer is another."""
    return {c.record_id for c in record.use.counterfactuals if c.verdict == "load_bearing"}


def citations_of(runs: Iterable[TaskRun]) -> CitationAgreement | None:
    """How far citations tell what counterfactuals tell; None without counterfactuals.

    Raises:
        ConfigError: SciPy is not installed.
    """
    pairs = [
        (entry.record_id in run.record.use.cited_record_ids, entry.verdict)
        for run in runs
        if run.record
        for entry in run.record.use.counterfactuals
    ]
    if not pairs:
        return None
    counts = Counter(pairs)
    agreeing = counts[True, "load_bearing"] + counts[False, "not"]
    uncertain = counts[True, "uncertain"] + counts[False, "uncertain"]
    return CitationAgreement(
        cited_load_bearing=counts[True, "load_bearing"],
        cited_not=counts[True, "not"],
        uncited_load_bearing=counts[False, "load_bearing"],
        uncited_not=counts[False, "not"],
        uncertain=uncertain,
        interval=share_interval(agreeing, len(pairs) - uncertain),
    )


def _cited(record: TaskRecord) -> int:
    shown = {candidate.record_id for candidate in shown_of(record)}
    return len(shown & set(record.use.cited_record_ids))


def _ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
