"""Waste on passing tasks, and citations against counterfactuals, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memplugin.diagnosis.task_record import CounterfactualEntry
from memplugin.evaluation.arms import citations_of, waste_of
from memplugin.evaluation.results import TaskRun
from tests.evaluation.suites import door, run, suite


def with_others(number: int, others: int, **changed: Any) -> dict[str, Any]:
    records = [
        {"key": "code", "content": f"The code of door {number} is {number}."},
        {"content": "There is a door number {n} in the yard.", "repeat": 10},
    ]
    request = {"text": f"What is the code of door {number}?", "k": 1 + others}
    return door(number, records=records, request=request, **changed)


@pytest.fixture
def runs(tmp_path: Path) -> list[TaskRun]:
    failing = with_others(3, 4, planted={"stage": "use", "cause": "ignored"})
    return run(tmp_path, suite(with_others(1, 2), with_others(2, 0), failing))


def tried(made: TaskRun, *verdicts: Any) -> TaskRun:
    """With counterfactuals of the records that were shown, in rank order."""
    assert made.record is not None
    assert made.record.retrieval is not None
    shown = [c.record_id for c in made.record.retrieval.candidates if c.injected]
    entries = tuple(CounterfactualEntry(i, v) for i, v in zip(shown, verdicts, strict=True))
    use = replace(made.record.use, counterfactuals=entries)
    return replace(made, record=replace(made.record, use=use))


def test_what_is_shown_and_what_is_cited_is_counted_on_passing_tasks_only(
    runs: list[TaskRun],
) -> None:
    waste = waste_of(runs)
    assert waste.tasks == 2
    assert waste.shown.value == 2.0  # three records, and one
    assert waste.cited.value == 1.0
    assert waste.shown_counts == {1: 1, 3: 1}
    # Cited: 24 characters, 6 tokens, each; beside the one two of 37 or 38 characters, 10 each.
    assert waste.tokens_shown.value == 16.0
    assert waste.uncited_tokens == pytest.approx(20 / 32)
    assert waste.load_bearing is None
    assert waste.idle_tokens is None


def test_load_bearing_is_counted_where_counterfactuals_were_run(runs: list[TaskRun]) -> None:
    waste = waste_of([tried(runs[0], "load_bearing", "not", "uncertain"), runs[1]])
    assert waste.load_bearing is not None
    assert (waste.load_bearing.value, waste.load_bearing.n) == (1.0, 1)
    assert waste.idle_tokens == pytest.approx(20 / 26)


def test_citations_are_held_against_counterfactuals(runs: list[TaskRun]) -> None:
    found = citations_of(
        [
            tried(runs[0], "load_bearing", "not", "uncertain"),
            tried(runs[1], "not"),
            tried(runs[2], "load_bearing", "not", "not", "not", "not"),
        ]
    )
    assert found is not None
    # Cited: load-bearing once, idle once. Not cited: load-bearing once, idle five times.
    assert (found.cited_load_bearing, found.cited_not) == (1, 1)
    assert (found.uncited_load_bearing, found.uncited_not) == (1, 5)
    assert found.uncertain == 1
    assert found.agreement == pytest.approx(6 / 8)


def test_without_counterfactuals_there_is_nothing_to_hold_citations_against(
    runs: list[TaskRun],
) -> None:
    assert citations_of(runs) is None


def test_a_run_in_which_nothing_passes_has_no_waste() -> None:
    waste = waste_of([TaskRun("t", "memory_on", success=False)])
    assert (waste.tasks, waste.shown.value, waste.uncited_tokens) == (0, None, None)
