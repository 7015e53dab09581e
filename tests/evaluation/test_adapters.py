"""Public data as suites and as known truths; skipped where the data are not here."""

from __future__ import annotations

from pathlib import Path

import pytest

from memplugin.evaluation.adapters import locomo, memorybench1, memsyco
from memplugin.evaluation.adapters.files import DataAbsent, DataSet
from memplugin.evaluation.adapters.locomo_truth import verify
from memplugin.evaluation.adapters.memorybench1 import compare
from memplugin.evaluation.setup import InMemory
from tests.evaluation.suites import WIDE


def there(data: DataSet) -> Path:
    path = data.find()
    if path is None:
        pytest.skip(data.absent)
    return path


def test_verdicts_agree_with_the_known_stage_on_every_question() -> None:
    conversation = locomo.load(there(locomo.LOCOMO))[1]
    with InMemory(WIDE) as stores:
        report = verify([conversation], stores, cuts=(5, 20), limit=25)
    assert report.holds
    assert [split.questions for split in report.splits] == [25, 25]
    # Every stage is there to be told apart, and a larger k loses no more in retrieval.
    assert all(report.splits[0].known.values())
    assert report.splits[1].known["retrieval"] <= report.splits[0].known["retrieval"]


def test_another_systems_runs_are_attributed_and_held_against_its_labels() -> None:
    system, traces = memorybench1.load(there(memorybench1.MEMORYBENCH1))
    report = compare(system, traces, WIDE)
    assert (report.tests, report.passed, len(report.compared)) == (71, 44, 27)
    assert report.agreement.n == 27
    assert len(report.disagreements) == 27 - round((report.agreement.value or 0) * 27)
    labels = sum(len(one.labels) for one in report.compared)
    assert sum(n for causes in report.table.values() for n in causes.values()) == labels


def test_locomo_is_a_suite_over_its_facts() -> None:
    suite = locomo.suite_of(there(locomo.LOCOMO))
    assert {task.corpus for task in suite.tasks} == set(suite.corpora)


def test_memsyco_says_when_a_memory_is_to_be_left_aside() -> None:
    suite = memsyco.suite_of(there(memsyco.MEMSYCO))
    aside = {t.tags["policy"] for t in suite.tasks if not t.should_use}
    assert aside <= memsyco.LEAVE_ASIDE
    assert all(task.need.text for task in suite.tasks)


def test_absent_data_are_an_error_that_says_where_to_get_them(tmp_path: Path) -> None:
    nowhere = {locomo.LOCOMO.variable: str(tmp_path / "nowhere.json")}
    with pytest.raises(DataAbsent, match=r"set MEMPLUGIN_LOCOMO to the file .* of https://"):
        locomo.LOCOMO.path(nowhere)
