"""The arms report: on planted data the interval tells help, harm and nothing apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplugin.evaluation.arms import ArmsReport, Compared, compare_arms
from memplugin.evaluation.results import Cost, TaskRun
from tests.evaluation.suites import door, run, suite


def runs_of(pairs: list[tuple[bool, bool]], **cost: Any) -> list[TaskRun]:
    """Tasks by whether they succeed with memory and without."""
    arms = ("memory_on", "memory_off")
    return [
        TaskRun(f"t_{place}", arm, success=success, cost=Cost(**cost))
        for place, pair in enumerate(pairs)
        for arm, success in zip(arms, pair, strict=True)
    ]


def report_of(pairs: list[tuple[bool, bool]]) -> ArmsReport:
    report = compare_arms(runs_of(pairs))
    assert report is not None
    return report


def metric(report: ArmsReport, name: str = "success") -> Compared:
    return next(compared for compared in report.metrics if compared.metric == name)


BOTH, ONLY_WITH, ONLY_WITHOUT, NEITHER = (True, True), (True, False), (False, True), (False, False)


def test_a_suite_where_memory_helps() -> None:
    report = report_of([ONLY_WITH] * 10 + [BOTH] * 8 + [NEITHER] * 2)
    difference = metric(report).difference
    assert (report.finding, difference.value) == ("helps", 0.5)
    assert difference.low is not None
    assert difference.low > 0
    assert len(report.helped) == 10
    assert report.hurt == ()


def test_a_suite_where_memory_hurts() -> None:
    report = report_of([ONLY_WITHOUT] * 8 + [ONLY_WITH] + [BOTH] * 11)
    difference = metric(report).difference
    assert (report.finding, difference.value) == ("hurts", -0.35)
    assert difference.high is not None
    assert difference.high < 0
    assert len(report.hurt) == 8


def test_a_suite_where_memory_changes_tasks_and_nothing_on_the_whole() -> None:
    report = report_of([ONLY_WITH] * 5 + [ONLY_WITHOUT] * 5 + [BOTH] * 10)
    success = metric(report)
    assert (report.finding, success.difference.value) == ("no difference shown", 0.0)
    assert (success.rose, success.same, success.fell) == (5, 10, 5)
    assert (len(report.helped), len(report.hurt)) == (5, 5)


def test_a_suite_where_memory_does_nothing_says_what_could_have_been_missed() -> None:
    report = report_of([BOTH] * 20)
    difference = metric(report).difference
    # Wilson's bound for 0 of 20: z^2/(n+z²) with z = 1.96.
    assert difference.high == pytest.approx(0.1611, abs=1e-4)
    assert difference.low == pytest.approx(-0.1611, abs=1e-4)
    assert report.finding == "no difference shown"


def test_few_tasks_that_all_agree_are_not_taken_for_certain() -> None:
    difference = metric(report_of([ONLY_WITH] * 3)).difference
    assert (difference.value, difference.high) == (1.0, 1.0)
    # 1 - 2 · z^2/(3+z²): with three tasks most of the others might still go the other way.
    assert difference.low == pytest.approx(-0.1230, abs=1e-4)


def test_one_task_alone_shows_nothing() -> None:
    report = report_of([ONLY_WITH])
    assert report.finding == "no difference shown"


def test_fewer_corrections_tokens_and_milliseconds_are_help() -> None:
    runs = [
        TaskRun(
            f"t_{n}",
            arm,
            success=True,
            corrections=corrections,
            cost=Cost(answer_ms=100 + n, tokens_in=tokens + n),
        )
        for n in range(12)
        for arm, corrections, tokens in (("memory_on", n % 2, 300), ("memory_off", 1 + n % 2, 200))
    ]
    report = compare_arms(runs)
    assert report is not None
    assert metric(report, "corrections").finding == "helps"
    assert metric(report, "corrections").difference.value == -1.0
    assert metric(report, "tokens").finding == "hurts"
    assert metric(report, "tokens").difference.value == 100.0
    assert metric(report, "latency_ms").finding == "no difference shown"


def test_the_distribution_of_differences_is_kept_and_not_only_its_mean() -> None:
    success = metric(report_of([ONLY_WITH, BOTH, NEITHER, ONLY_WITHOUT, BOTH]))
    assert success.differences == (1.0, 0.0, 0.0, -1.0, 0.0)
    assert success.quantiles == (-1.0, 0.0, 0.0, 0.0, 1.0)


def test_tasks_that_ended_in_one_arm_only_count_for_nothing() -> None:
    runs = runs_of([BOTH, ONLY_WITH])
    alone = TaskRun("t_alone", "memory_on", success=True)
    broken = TaskRun("t_broken", "memory_off", error="StoreError: gone")
    report = compare_arms([*runs, alone, broken])
    assert report is not None
    assert report.pairs == ("t_0", "t_1")
    assert report.unpaired == ("t_alone",)


def test_one_arm_alone_can_not_be_compared() -> None:
    assert compare_arms([TaskRun("t_1", "memory_on", success=True)]) is None


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([BOTH, ONLY_WITH, ONLY_WITHOUT, NEITHER]), min_size=2, max_size=30))
def test_swapping_the_arms_turns_every_finding_round(pairs: list[tuple[bool, bool]]) -> None:
    one, other = metric(report_of(pairs)), metric(report_of([(b, a) for a, b in pairs]))
    assert one.difference.value == pytest.approx(-(other.difference.value or 0.0))
    assert (one.rose, one.same, one.fell) == (other.fell, other.same, other.rose)
    low, high = one.difference.low, one.difference.high
    assert low is not None
    assert high is not None
    assert low - 1e-9 <= (one.difference.value or 0.0) <= high + 1e-9


# ---------------------------------------------------------------- through the pipeline


def stale(number: int) -> dict[str, Any]:
    """A task that the model gets right by itself, and wrong when it follows what is stored."""
    return door(
        number,
        success={"exact": {"code": -1}},
        decider={"follows": "the code", "then": {"code": number}, "otherwise": {"code": -1}},
        planted={"stage": "use", "cause": "misapplied"},
        should_use=False,
    )


@pytest.mark.parametrize(
    ("tasks", "finding"),
    [
        ([door(n) for n in range(1, 9)], "helps"),
        ([{**stale(n), "planted": None} for n in range(1, 9)], "hurts"),
        ([door(n, decider={"follows": "none"}) for n in range(1, 9)], "no difference shown"),
    ],
)  # fmt: skip
def test_real_runs_of_both_arms_tell_them_apart(
    tmp_path: Path, tasks: list[dict[str, Any]], finding: str
) -> None:
    report = compare_arms(run(tmp_path, suite(*tasks), arms=("memory_on", "memory_off")))
    assert report is not None
    assert report.finding == finding
