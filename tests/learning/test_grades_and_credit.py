"""Grades, weights and shrinkage: every expected figure is worked out beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin import MemoryConfig
from memplugin.config import (
    BINARY_GRADES,
    OUTCOME_ONLY,
    CreditWeights,
    Grades,
    LearnConfig,
    twentieths,
)
from memplugin.errors import ConfigError
from memplugin.learning.utility import credit, evictions, grade, is_misleading, utility, weight
from memplugin.records import CreditTotals, MemoryRecord
from memplugin.testing.memory import START

NOTHING = CreditTotals(**dict.fromkeys(CreditTotals.__dataclass_fields__, 0))
CONFIG = LearnConfig()


def totals(**known: Any) -> CreditTotals:
    return replace(NOTHING, **known)


def record(id_: str, **fields: Any) -> MemoryRecord:
    values: dict[str, Any] = {
        "id": id_,
        "workspace_id": "ws",
        "kind": "tip",
        "content": f"tip {id_}",
        "scope": {},
        "claim": None,
        "status": "active",
        "confidence": 0.8,
        "pinned": False,
        "evidence_count": 0,
        "occurred_at": START,
        "created_at": START,
        "source_session": "s_1",
        "task_id": None,
        "seq": 1,
    }
    return MemoryRecord(**{**values, **fields})


# ---------------------------------------------------------------- grades


@pytest.mark.parametrize(
    ("succeeded", "attempt", "failure_mode", "value", "binary"),
    [
        (True, 1, None, 1.0, 1.0),
        (True, 2, None, 0.8, 1.0),
        (True, 3, None, 0.8, 1.0),
        (True, 4, None, 0.5, 1.0),
        (True, 12, None, 0.5, 1.0),
        (False, 1, None, 0.0, 0.0),
        (False, 3, "clean_failure", 0.0, 0.0),
        (False, 1, "health_failure", -0.2, 0.0),
        (False, 9, "health_failure", -0.2, 0.0),
    ],
)
def test_an_outcome_is_graded_by_the_table(succeeded, attempt, failure_mode, value, binary):
    def graded(grades: Grades) -> float:
        return grade(succeeded=succeeded, attempt=attempt, failure_mode=failure_mode, grades=grades)

    assert graded(Grades()) == value
    assert graded(BINARY_GRADES) == binary


def test_a_table_of_ones_own_grades_by_it():
    mine = Grades(passed=((1, 1.0), (3, 0.25)), failed=-0.1, failure_modes={"leak": -1.0})
    values = [
        grade(succeeded=passed, attempt=attempt, failure_mode=mode, grades=mine)
        for passed, attempt, mode in [
            (True, 2, None),
            (True, 3, None),
            (False, 1, None),
            (False, 1, "leak"),
            (False, 1, "health_failure"),  # not in this table
        ]
    ]
    assert values == [1.0, 0.25, -0.1, -1.0, -0.1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Grades(passed=()), "rise from 1"),
        (lambda: Grades(passed=((2, 1.0),)), "rise from 1"),
        (lambda: Grades(passed=((1, 1.0), (4, 0.5), (2, 0.8))), "rise from 1"),
        (lambda: Grades(failed=-2.0), "from -1 to 1"),
        (lambda: Grades(failure_modes={"x": float("nan")}), "from -1 to 1"),
        (lambda: CreditWeights(unknown=1.5), "unknown is 1.5"),
        (lambda: CreditWeights(close_from=0.61), "multiple of 0.05"),
        (lambda: LearnConfig(prior_attempts=-1.0), "prior_attempts"),
        (lambda: LearnConfig(evict_after=0), "evict_after is 0"),
    ],
)
def test_a_setting_that_can_not_work_is_refused(make, said):
    with pytest.raises(ConfigError, match=said):
        make()


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("followed", "cosine", "expected"),
    [
        (True, None, 1.0),
        (True, -1.0, 1.0),
        (False, None, 0.0),
        (False, 1.0, 0.0),
        (None, 0.6, 1.0),
        (None, 0.9, 1.0),
        (None, 0.5999, 0.0),
        (None, -0.4, 0.0),
        (None, None, 0.5),
    ],
)
def test_the_judges_word_counts_then_the_cosine_then_half(followed, cosine, expected):
    assert weight(followed, cosine, CreditWeights()) == expected
    assert weight(followed, cosine, OUTCOME_ONLY) == 1.0


@given(st.integers(-20, 20), st.floats(-1, 1))
def test_a_step_of_a_cosine_is_exactly_the_comparison_with_the_threshold(step, cosine):
    assert (twentieths(cosine) >= step) == (cosine >= step / 20)


# ---------------------------------------------------------------- shrinkage


@pytest.mark.parametrize(
    ("attempts", "credited", "expected"),
    [
        (1, 1.0, 0.2),  # (1 + 4*0) / (1 + 4)
        (4, 4.0, 0.5),  # 4 / 8
        (36, 36.0, 0.9),  # 36 / 40
        (1, -0.2, -0.04),  # -0.2 / 5
        (6, -0.2, -0.02),  # -0.2 / 10
    ],
)
def test_one_attempt_neither_makes_nor_breaks_a_record(attempts, credited, expected):
    known = totals(attempts=attempts, credited=credited)
    assert utility(known, CONFIG) == pytest.approx(expected)
    assert credit(known, CONFIG) == pytest.approx(expected)


def test_with_another_prior_no_history_still_ranks_neither_up_nor_down():
    config = LearnConfig(prior=0.3, prior_attempts=2.0)
    good, bad = totals(attempts=2, credited=1.6), totals(attempts=2, credited=0.0)
    assert utility(good, config) == pytest.approx(0.55)  # (1.6 + 2*0.3) / (2 + 2)
    assert credit(good, config) == pytest.approx(0.25)
    assert credit(bad, config) == pytest.approx(-0.15)  # 0.6 / 4 - 0.3
    assert credit(None, config) == credit(totals(), config) == 0.0
    assert credit(totals(), LearnConfig(prior_attempts=0.0)) == 0.0


def test_a_first_try_win_is_worth_more_than_a_fourth_try_win():
    def of(attempt: int) -> float:
        value = grade(succeeded=True, attempt=attempt, failure_mode=None, grades=Grades())
        return credit(totals(attempts=1, credited=value), CONFIG)

    assert of(1) == pytest.approx(0.2)  # 1.0 / 5
    assert of(4) == pytest.approx(0.1)  # 0.5 / 5


# ---------------------------------------------------------------- misleading, evicted

LUCKY = totals(
    attempts=7, successes=7, outcome=7.0, judged=7, judged_successes=7, followed_successes=1
)
HARMFUL = totals(attempts=5, successes=0, outcome=-1.0, credited=-0.2, judged=5, followed=1)


def test_a_memory_is_misleading_when_its_successes_did_without_it():
    def misleading(known: CreditTotals, after: int = 3) -> bool:
        return is_misleading(known, after=after, rarely=0.2)

    assert misleading(LUCKY)  # followed in 1 of 7, less than 0.2 of them
    assert not misleading(replace(LUCKY, followed_successes=2))  # 2 of 7
    assert not misleading(LUCKY, after=8)
    assert not misleading(replace(LUCKY, outcome=0.0))
    assert not misleading(totals(attempts=7, successes=7, outcome=7.0))  # nothing is known
    # Without a judge the cosine has to do.
    assert misleading(totals(attempts=3, successes=3, outcome=3.0, compared_successes=3))


def test_who_is_evicted_and_why():
    records = [record(name) for name in ("lucky", "harmful", "useful", "unknown")]
    useful = totals(attempts=9, successes=9, credited=9.0, judged_successes=9, followed_successes=9)
    known = {"lucky": LUCKY, "harmful": HARMFUL, "useful": useful}
    found = evictions(records, known, MemoryConfig())
    assert [(e.record_id, e.reason) for e in found] == [
        ("harmful", "negative_utility"),
        ("lucky", "rarely_followed"),
    ]
    # -0.2 / (5 + 4), and 0 / (7 + 4)
    assert [e.utility for e in found] == [pytest.approx(-0.2 / 9), 0.0]


def test_too_few_attempts_evict_nobody():
    few = MemoryConfig(learn=LearnConfig(evict_after=6))
    assert evictions([record("m")], {"m": HARMFUL}, few) == []
    assert evictions([record("m")], {"m": HARMFUL}, MemoryConfig()) != []


@pytest.mark.parametrize(
    "fields", [{"pinned": True}, {"status": "superseded"}, {"kind": "preference"}]
)
def test_what_is_pinned_or_stands_is_never_evicted(fields):
    assert evictions([record("m", **fields)], {"m": HARMFUL}, MemoryConfig()) == []


def test_a_cosine_alone_evicts_nobody_for_not_being_followed():
    far = totals(attempts=9, successes=9, outcome=9.0, compared=9, compared_successes=9)
    assert evictions([record("m")], {"m": far}, MemoryConfig()) == []
