"""The report: one page of HTML that needs nothing else, neither files nor a network."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from importlib.resources import files
from typing import Any

from memplugin.diagnosis.next_steps import NEXT_STEPS
from memplugin.diagnosis.tally import STAGES
from memplugin.errors import ConfigError
from memplugin.evaluation.arms import ArmsReport, compare_arms
from memplugin.evaluation.cases import Case
from memplugin.evaluation.intervals import Estimate, share
from memplugin.evaluation.pictures import pictures
from memplugin.evaluation.review import ReviewReport, review_report
from memplugin.evaluation.run_report import success_of
from memplugin.evaluation.waste import Waste, citations_of, waste_of
from memplugin.records import Stage

BY_REVIEW = "reviewed"
"""The cause of a verdict that people changed: they name a stage alone."""


@dataclass(frozen=True, slots=True)
class Group:
    """The tasks with one verdict.

    Attributes:
        machine: How many had that verdict before people had their say.
    """

    stage: Stage
    cause: str
    share: Estimate
    machine: int
    next_step: str
    cases: tuple[Case, ...]

    @property
    def anchor(self) -> str:
        """Of the group in the page."""
        return f"group-{self.stage}-{self.cause}"


@dataclass(frozen=True, slots=True)
class Page:
    """What the page shows.

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
    """Sums up what the page shows.

    Args:
        cases: Tasks of a run or a store.
        title: What it is a report of.
        about: Names and values to stand below the title.
        now: When it is made.

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
        success={arm: success_of(known[arm]) for arm in arms},
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
    """Stage and cause that count: people's where they agree and see it otherwise."""
    verdict = case.run.verdict
    assert verdict is not None, "only cases with a verdict are grouped"  # noqa: S101 -- for the type
    if case.reviewed and case.reviewed != verdict.stage:
        return case.reviewed, BY_REVIEW
    return verdict.stage, verdict.cause


# ---------------------------------------------------------------- as HTML


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
        plots=pictures(cases, page.arms),
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
