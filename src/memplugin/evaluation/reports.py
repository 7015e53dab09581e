"""The report on a run: success, which stage fails and why, waste, the arms; and as HTML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.resources import files
from typing import Any

from memplugin.diagnosis.attribution import STAGES, tally
from memplugin.diagnosis.counterfactual import CitationAgreement
from memplugin.diagnosis.stages import NEXT_STEPS
from memplugin.diagnosis.statistics import Estimate, share
from memplugin.errors import ConfigError
from memplugin.evaluation.arms import ArmsReport, Waste, citations_of, compare_arms, waste_of
from memplugin.evaluation.cases import Case
from memplugin.evaluation.charts import plots
from memplugin.evaluation.results import MEMORY_ON, Header, TaskRun
from memplugin.evaluation.review import ReviewReport, review_report
from memplugin.records import Noun, Stage


@dataclass(frozen=True, slots=True)
class Row(Noun):
    """How many failed tasks have one verdict, and what to do about them.

    Attributes:
        share: Their share of all failed tasks, with its interval.
    """

    stage: Stage
    cause: str
    tasks: int
    share: Estimate
    next_step: str
    task_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Misjudged(Noun):
    """A task whose verdict does not name its planted fault."""

    task_id: str
    expected: tuple[str, str]
    verdict: tuple[str, str]
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planted(Noun):
    """The verdicts compared with the faults that were planted.

    Attributes:
        tasks: How many tasks have a verdict and a known fault, or are known to have none.
        misjudged: The tasks whose verdict names another fault.
        blamed: The passing tasks whose verdict blames a stage.
    """

    tasks: int
    misjudged: tuple[Misjudged, ...]
    blamed: tuple[str, ...]

    @property
    def as_it_should_be(self) -> bool:
        """Whether every verdict names the fault, and no passing task is blamed."""
        return not (self.misjudged or self.blamed)


@dataclass(frozen=True, slots=True)
class RunReport(Noun):
    """The report on a run.

    Attributes:
        success: The share of first answers that were right, by arm.
        by_tag: The same for the arm with memory, by each value of each tag.
        attribution: The failed tasks with memory, each counted once.
        planted: None with models whose faults are not known.
        errors: The tasks that could not be run, and why.
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
    """Makes the report on a run.

    Raises:
        ConfigError: SciPy is not installed.
    """
    done = [run for run in runs if run.error is None]
    with_memory = [run for run in done if run.arm == MEMORY_ON]
    return RunReport(
        suite=header.suite,
        model=header.model,
        embedder=header.embedder,
        success={arm: _success(run for run in done if run.arm == arm) for arm in header.arms},
        by_tag=_by_tag(with_memory),
        attribution=_attribution(with_memory),
        waste=waste_of(with_memory),
        citations=citations_of(with_memory),
        planted=_planted(with_memory),
        arms=compare_arms(done),
        errors={f"{run.task_id} ({run.arm})": run.error for run in runs if run.error is not None},
    )


def _success(runs: Iterable[TaskRun]) -> Estimate:
    """The share of first answers that were right."""
    right = [bool(run.success) for run in runs]
    return share(sum(right), len(right))


def _attribution(runs: Iterable[TaskRun]) -> tuple[Row, ...]:
    """Stage and cause of every task that failed, the stages in order."""
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


def _by_tag(runs: Sequence[TaskRun]) -> dict[str, dict[str, Estimate]]:
    names = dict.fromkeys(name for run in runs for name in run.tags)
    return {
        name: {
            value: _success(run for run in runs if run.tags.get(name) == value)
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


# ---------------------------------------------------------------- as a page

_BY_REVIEW = "reviewed"
"""The cause in a verdict that annotators changed: they name only a stage."""


@dataclass(frozen=True, slots=True)
class Group:
    """The tasks with one verdict.

    Attributes:
        machine: How many had that verdict before the review.
    """

    stage: Stage
    cause: str
    share: Estimate
    machine: int
    next_step: str
    cases: tuple[Case, ...]

    @property
    def anchor(self) -> str:
        """The id of the group in the page."""
        return f"group-{self.stage}-{self.cause}"


@dataclass(frozen=True, slots=True)
class Page:
    """The contents of the page.

    Attributes:
        groups: Tasks with a verdict, the stages in order.
        others: Tasks of an arm without memory, and those that could not be run.
    """

    title: str
    about: tuple[tuple[str, str], ...]
    made_at: datetime
    success: dict[str, Estimate]
    groups: tuple[Group, ...]
    others: tuple[Case, ...]
    review: ReviewReport | None
    waste: Waste
    arms: ArmsReport | None


def page_of(
    cases: Sequence[Case], *, title: str, about: Sequence[tuple[str, str]], now: datetime
) -> Page:
    """Collects the contents of the page.

    Args:
        cases: Tasks of a run or a store.
        title: The title of the page.
        about: Names and values that are shown below the title.
        now: The time at which it is made.

    Returns:
        The contents, to be given to ``render``.

    Raises:
        ConfigError: SciPy is not installed.
    """
    runs = [case.run for case in cases if case.run.error is None]
    arms = list(dict.fromkeys(run.arm for run in runs))
    known = {arm: [r for r in runs if r.arm == arm and r.success is not None] for arm in arms}
    return Page(
        title=title,
        about=tuple(about),
        made_at=now,
        success={arm: _success(known[arm]) for arm in arms},
        groups=_groups([case for case in cases if case.run.verdict]),
        others=tuple(case for case in cases if not case.run.verdict),
        review=review_report(cases) if any(case.people for case in cases) else None,
        waste=waste_of(runs),
        arms=compare_arms(runs),
    )


def _groups(cases: Sequence[Case]) -> tuple[Group, ...]:
    counted = Counter(_verdict(case) for case in cases)
    before = Counter((c.run.verdict.stage, c.run.verdict.cause) for c in cases if c.run.verdict)
    keys = sorted(counted, key=lambda key: (STAGES.index(key[0]), -counted[key], key[1]))
    return tuple(
        Group(
            stage=stage,
            cause=cause,
            share=share(counted[stage, cause], len(cases)),
            machine=before[stage, cause],
            next_step=NEXT_STEPS.get((stage, cause), "Read what the annotators say."),
            cases=tuple(case for case in cases if _verdict(case) == (stage, cause)),
        )
        for stage, cause in keys
    )


def _verdict(case: Case) -> tuple[Stage, str]:
    """Stage and cause that count: the annotators' stage where they agree on another one."""
    verdict = case.run.verdict
    assert verdict is not None, "only cases with a verdict are grouped"  # noqa: S101 -- for the type
    if case.reviewed and case.reviewed != verdict.stage:
        return case.reviewed, _BY_REVIEW
    return verdict.stage, verdict.cause


def render(page: Page) -> str:
    """The page as HTML; every text in it is escaped.

    Raises:
        ConfigError: Jinja is not installed.
    """
    try:
        jinja: Any = import_module("jinja2")  # the extra `lab`
    except ImportError as error:
        raise ConfigError('the report needs Jinja: pip install "memplugin[lab]".') from error
    environment = jinja.Environment(
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja.FunctionLoader(_template),
    )
    environment.filters |= {
        "percent": _percent,
        "estimate": _estimate,
        "json": _json,
        "when": _when,
    }
    cases = [case for group in page.groups for case in group.cases]
    return environment.get_template("report.html.j2").render(
        page=page,
        plots=plots(cases, page.arms),
        safe=jinja.utils.markupsafe.Markup,
        citations=citations_of(case.run for case in cases),
        faults=sum(len(g.cases) for g in page.groups if g.stage in ("write", "retrieval", "use")),
    )


def _template(name: str) -> str:
    return files("memplugin.evaluation").joinpath(name).read_text(encoding="utf-8")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _estimate(found: Estimate) -> str:
    if found.value is None:
        return "no tasks"
    if found.low is None or found.high is None:
        return f"{found.value:.2f}"
    return f"{found.value:.2f} ({found.low:.2f} to {found.high:.2f})"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _when(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC") if at else "-"
