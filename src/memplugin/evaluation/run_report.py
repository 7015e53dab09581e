"""What a run comes to: success, which stage fails and why, waste, and the arms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from memplugin.diagnosis.counterfactual import CitationAgreement
from memplugin.diagnosis.next_steps import NEXT_STEPS
from memplugin.diagnosis.tally import STAGES, tally
from memplugin.evaluation.arms import ArmsReport, compare_arms
from memplugin.evaluation.intervals import Estimate, share
from memplugin.evaluation.results import MEMORY_ON, Header, TaskRun
from memplugin.evaluation.waste import Waste, citations_of, waste_of
from memplugin.records import Noun, Stage


@dataclass(frozen=True, slots=True)
class Row(Noun):
    """How many failed tasks have one verdict, and what to do about them.

    Attributes:
        share: Of all failed tasks, with its interval.
        task_ids: Which.
    """

    stage: Stage
    cause: str
    tasks: int
    share: Estimate
    next_step: str
    task_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Misjudged(Noun):
    """A task whose verdict is not that of its planted fault."""

    task_id: str
    expected: tuple[str, str]
    verdict: tuple[str, str]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planted(Noun):
    """Verdicts against the faults that were planted.

    Attributes:
        tasks: With a verdict and a known fault, or known to have none.
        misjudged: Whose verdict is another.
        blamed: Passing tasks for which a stage is blamed.
    """

    tasks: int
    misjudged: tuple[Misjudged, ...]
    blamed: tuple[str, ...]

    @property
    def as_it_should_be(self) -> bool:
        """Whether every verdict is that of the fault, and no passing task is blamed."""
        return not (self.misjudged or self.blamed)


@dataclass(frozen=True, slots=True)
class RunReport(Noun):
    """What a run comes to.

    Attributes:
        success: First answers that were right, by arm.
        by_tag: The same with memory, by each value of each tag.
        attribution: The failed tasks with memory, each once.
        planted: None with models whose faults nobody knows.
        errors: Tasks that could not be run, and why.
    """

    suite: str
    model: str
    embedder: str
    success: Mapping[str, Estimate]
    by_tag: Mapping[str, Mapping[str, Estimate]]
    attribution: tuple[Row, ...]
    waste: Waste
    citations: CitationAgreement | None
    planted: Planted | None
    arms: ArmsReport | None
    errors: Mapping[str, str]


def report_of(header: Header, runs: Sequence[TaskRun]) -> RunReport:
    """Sums a run up.

    Raises:
        ConfigError: SciPy is not installed.
    """
    done = [run for run in runs if run.error is None]
    with_memory = [run for run in done if run.arm == MEMORY_ON]
    return RunReport(
        suite=header.suite,
        model=header.model,
        embedder=header.embedder,
        success={arm: success_of(run for run in done if run.arm == arm) for arm in header.arms},
        by_tag=_by_tag(with_memory),
        attribution=attribution_table(with_memory),
        waste=waste_of(with_memory),
        citations=citations_of(with_memory),
        planted=_planted(with_memory),
        arms=compare_arms(done),
        errors={f"{run.task_id} ({run.arm})": run.error for run in runs if run.error is not None},
    )


def success_of(runs: Iterable[TaskRun]) -> Estimate:
    """The share of first answers that were right.

    Raises:
        ConfigError: SciPy is not installed.
    """
    right = [bool(run.success) for run in runs]
    return share(sum(right), len(right))


def attribution_table(runs: Iterable[TaskRun]) -> tuple[Row, ...]:
    """Stage and cause of every task that failed, the stages in order.

    Raises:
        ConfigError: SciPy is not installed.
    """
    failed = [run for run in runs if run.verdict and not run.success]
    verdicts = [run.verdict for run in failed if run.verdict]
    return tuple(
        Row(
            stage=counted.stage,
            cause=counted.cause,
            tasks=counted.tasks,
            share=share(counted.tasks, len(failed)),
            next_step=NEXT_STEPS[counted.stage, counted.cause],
            task_ids=tuple(
                v.task_id or ""
                for v in verdicts
                if (v.stage, v.cause) == (counted.stage, counted.cause)
            ),
        )
        for counted in tally(verdicts)
    )


def by_stage(rows: Iterable[Row]) -> dict[Stage, int]:
    """How many tasks each stage owns."""
    listed = list(rows)
    return {stage: sum(r.tasks for r in listed if r.stage == stage) for stage in STAGES}


def _by_tag(runs: Sequence[TaskRun]) -> dict[str, dict[str, Estimate]]:
    names = dict.fromkeys(name for run in runs for name in run.tags)
    return {
        name: {
            value: success_of(run for run in runs if run.tags.get(name) == value)
            for value in dict.fromkeys(run.tags[name] for run in runs if name in run.tags)
        }
        for name in names
    }


def _planted(runs: Sequence[TaskRun]) -> Planted | None:
    known = [run for run in runs if run.as_planted is not None]
    if not known:
        return None
    return Planted(
        tasks=len(known),
        misjudged=tuple(
            Misjudged(
                run.task_id,
                run.expected,
                (run.verdict.stage, run.verdict.cause),
                run.verdict.evidence,
            )
            for run in known
            if run.verdict and run.expected and not run.as_planted
        ),
        blamed=tuple(
            run.task_id
            for run in known
            if run.success and run.verdict and run.verdict.stage != "none"
        ),
    )
