"""The suite that comes with the package: every fault really happens and is found out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from memplugin import MemoryContext
from memplugin.config import MemoryConfig
from memplugin.diagnosis.stages import NEXT_STEPS
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.evaluation import agents
from memplugin.evaluation.load import starter_suite
from memplugin.evaluation.reports import RunReport, report_of
from memplugin.evaluation.results import TaskRun
from memplugin.memory.client import Memory
from tests.evaluation.suites import header_of, run

ONLY_ON_SPANS = {("undetermined", "not_traced")}
MADE_WITH_IDS = {("undetermined", "unknown_record")}
"""A suite can't name a record that is not there: loading refuses it."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[TaskRun]:
    return run(tmp_path_factory.mktemp("starter"), starter_suite())


@pytest.fixture(scope="module")
def report(ran: list[TaskRun]) -> RunReport:
    return report_of(header_of(starter_suite()), ran)


def test_it_has_at_least_forty_tasks_over_every_way_to_put_things() -> None:
    suite = starter_suite()
    phrasings = {task.tags["phrasing"] for task in suite.tasks}
    assert len(suite.tasks) >= 40
    assert phrasings >= {
        "question",
        "negation",
        "change of mind",
        "hypothetical",
        "third person",
        "scope",
        "exception",
        "relative date",
        "standing instruction",
        "override",
        "nothing relevant",
    }


def test_its_faults_are_all_that_a_verdict_can_name() -> None:
    planted = {agents.expected_verdict(task) for task in starter_suite().tasks}
    assert planted == set(NEXT_STEPS) - ONLY_ON_SPANS - MADE_WITH_IDS


def test_every_planted_stage_and_cause_comes_out_right(report: RunReport) -> None:
    assert report.errors == {}
    assert report.planted is not None
    assert report.planted.tasks == len(starter_suite().tasks)
    assert report.planted.misjudged == ()


def test_no_passing_task_is_blamed(ran: list[TaskRun], report: RunReport) -> None:
    assert report.planted is not None
    assert report.planted.blamed == ()
    verdicts = {r.verdict.cause for r in ran if r.success and r.verdict}
    assert verdicts == {"passed"}


def test_the_attribution_table_counts_each_failed_task_once(
    ran: list[TaskRun], report: RunReport
) -> None:
    planted = Counter(agents.expected_verdict(task) for task in starter_suite().tasks)
    del planted["none", "passed"]
    assert {(row.stage, row.cause): row.tasks for row in report.attribution} == planted
    assert sum(row.tasks for row in report.attribution) == sum(not r.success for r in ran)
    assert all(row.next_step and len(row.task_ids) == row.tasks for row in report.attribution)


def test_a_task_is_one_record_with_all_its_sessions_under_one_id(ran: list[TaskRun]) -> None:
    record = next(r.record for r in ran if r.task_id == "mind-changed")
    assert record is not None
    assert record.sessions == ("s_1", "s_2", "s_request")
    assert [write.gate for write in record.writes] == ["accepted", "superseded"]
    assert record.workspace_id == "mind-changed"


def test_counterfactuals_change_no_verdict_and_find_what_carries_the_answer(
    tmp_path: Path,
) -> None:
    tasks = {task.id: task for task in starter_suite().tasks}
    chosen = (
        "question-heard",
        "standing-passed-over",
        "exception-misapplied",
        "standing-beside-rank",
    )
    suite = starter_suite().model_copy(update={"tasks": tuple(tasks[name] for name in chosen)})

    def leave_out(memory: Memory, record: TaskRecord) -> None:
        memory.counterfactual(
            context=MemoryContext(record.workspace_id, "s_request", record.task_id),
            model=agents.scripted_decider(tasks[record.task_id]),
            deterministic=True,
        )

    runs = {r.task_id: r for r in run(tmp_path, suite, probe=leave_out)}
    assert all(r.as_planted for r in runs.values())
    found = {
        name: {
            c.verdict
            for c in r.record.use.counterfactuals
            if c.record_id in r.record.use.cited_record_ids
        }
        for name, r in runs.items()
        if r.record
    }  # fmt: skip
    assert found["question-heard"] == {"load_bearing"}
    report = report_of(header_of(suite), list(runs.values()))
    assert report.waste.load_bearing is not None
    # Two passing tasks: one record of one, and one of the four that the other was shown.
    assert report.waste.load_bearing.value == 1.0
    assert report.waste.shown.value == 2.5
    assert report.citations is not None


def test_its_settings_can_all_be_made() -> None:
    suite = starter_suite()
    assert all(suite.config(task, MemoryConfig()) for task in suite.tasks)
