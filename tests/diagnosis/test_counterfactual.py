"""Whether leaving a record out changes the answer, by more than chance."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplugin.diagnosis.counterfactual import answer_in, citation_agreement, compare, latest
from memplugin.diagnosis.statistics import detectable, difference_interval, p_value, share_interval
from memplugin.records import Bearing, Counterfactual, Runs

approx = pytest.approx

A, B, C = {"vendor": "primex"}, {"vendor": "dever"}, {"vendor": "other"}


def test_the_same_answer_on_both_sides_is_no_effect() -> None:
    found = compare([A] * 8, [A] * 8)
    assert (found.verdict, found.flip, found.p_value) == ("not", False, 1.0)
    assert (found.with_record.variation, found.without_record.variation) == (0.0, 0.0)


def test_another_answer_whenever_it_is_left_out_is_an_effect() -> None:
    found = compare([A] * 8, [B] * 8)
    assert (found.verdict, found.flip) == ("load_bearing", True)
    # Of the C(16, 8) = 12870 ways to deal 8 and 8, two are this extreme.
    assert found.p_value == approx(2 / 12870)
    assert found.detectable == approx(0.7)  # by the side with the record, whichever is usual


def test_half_of_the_answers_changed_on_eight_runs_is_uncertain() -> None:
    found = compare([A] * 8, [A] * 4 + [B] * 4)
    # Fisher, two-sided: 2 * C(8, 4) / C(16, 4) = 140 / 1820.
    assert found.p_value == approx(140 / 1820)
    assert (found.verdict, found.flip) == ("uncertain", False)
    assert found.without_record.variation == 0.5


def test_how_often_each_side_varies_by_itself_is_told() -> None:
    found = compare([A] * 6 + [B] * 2, [A] * 5 + [B, C, None])
    assert (found.with_record.variation, found.without_record.variation) == (0.25, 0.375)
    assert [(one.answer, one.runs) for one in found.without_record.answers] == [
        (A, 5),
        (None, 1),
        (B, 1),
        (C, 1),
    ]


def test_answers_that_all_differ_hide_any_effect() -> None:
    found = compare([{"n": n} for n in range(8)], [{"n": n} for n in range(8, 16)])
    assert (found.verdict, found.detectable) == ("uncertain", None)


def test_a_reply_that_decides_nothing_is_an_answer_like_others() -> None:
    assert compare([A] * 8, [None] * 8).verdict == "load_bearing"
    assert compare([None] * 8, [None] * 8).verdict == "not"


def test_the_caller_says_which_answers_are_the_same() -> None:
    def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
        return round(left["price"]) == round(right["price"])

    near = [{"price": 10 + n / 100} for n in range(8)]
    assert compare(near, near[::-1], same).verdict == "not"
    assert compare(near, [{"price": 20.0}] * 8, same).verdict == "load_bearing"
    assert compare(near, near, same).with_record.variation == 0.0


@pytest.mark.parametrize("answers", [2, 3, 4, 10])
def test_a_model_that_answers_at_random_is_hardly_ever_taken_to_heed_a_record(
    answers: int,
) -> None:
    found = []
    for seed in range(100):
        throw = random.Random(seed)
        sides = [[{"n": throw.randrange(answers)} for _ in range(8)] for _ in range(2)]
        found.append(compare(*sides))
    assert sum(one.verdict in ("uncertain", "not") for one in found) >= 95
    assert sum(one.p_value is not None and one.p_value < 0.05 for one in found) <= 5


@pytest.mark.parametrize("n", [4, 8, 10])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_the_test_is_exact_for_two_answers(n: int, share: float) -> None:
    # Every pair of counts, by its probability under a model that heeds nothing.
    binomial = pytest.importorskip("scipy.stats").binom
    chance = 0.0
    for a in range(n + 1):
        for b in range(n + 1):
            sides = ([A] * a + [B] * (n - a), [A] * b + [B] * (n - b))
            p = compare(*sides).p_value
            if p is not None and p < 0.05:
                chance += float(binomial.pmf(a, n, share) * binomial.pmf(b, n, share))
    assert chance < 0.05


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.sampled_from([A, B, C, None]), min_size=4, max_size=10),
    st.lists(st.sampled_from([A, B, C, None]), min_size=4, max_size=10),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_runs_and_of_the_sides_says_nothing(
    kept: list[Any], left_out: list[Any], shuffled: random.Random
) -> None:
    first = compare(kept, left_out)
    mixed = [shuffled.sample(side, len(side)) for side in (kept, left_out)]
    assert compare(mixed[0], mixed[1]) == first
    assert compare(left_out, kept).p_value == approx(first.p_value)


def test_fewer_than_four_runs_a_side_can_tell_nothing() -> None:
    found = compare([A] * 3, [B] * 3)
    assert (found.verdict, found.p_value) == ("uncertain", None)
    assert compare([], []).verdict == "uncertain"


def test_the_intervals_are_those_of_the_textbooks() -> None:
    # Wilson for 8 of 8: 8 / (8 + 1.96²), and its mirror image.
    assert share_interval(8, 8) == (approx(0.6756, abs=1e-4), 1.0)
    assert share_interval(0, 0) == (0.0, 1.0)
    # Newcombe's own example: 56/70 and 48/80, difference 0.2 from 0.0524 to 0.3339.
    low, high = difference_interval((48, 56), (80, 70))
    assert (low, high) == (approx(0.0524, abs=1e-4), approx(0.3339, abs=1e-4))


def test_the_least_change_that_would_be_seen_is_stated() -> None:
    # 8 usual answers of 8 need at most 3 of 8 on the other side: p is .026, with 4 .077.
    assert p_value((8, 3), (8, 8)) < 0.05 < p_value((8, 4), (8, 8))
    # That comes with a probability of .8 when 30 % stay: P(at most 3 of 8) = .806.
    assert detectable(1.0, (8, 8)) == approx(0.7)
    assert detectable(0.5, (8, 8)) is None
    assert (detectable(1.0, (30, 30)) or 1) < 0.35


def test_reasoning_is_no_part_of_the_answer() -> None:
    schema = {
        "properties": dict.fromkeys(
            [
                "memory_reasoning",
                "considered",
                "cited_record_ids",
                "why",
                "action",
                "refusal_reason",
            ]
        )
    }
    said = {"memory_reasoning": "…", "why": "…", "action": "refuse", "refusal_reason": "weather"}
    assert answer_in(said, schema) == {"action": "refuse", "refusal_reason": "weather"}


def made(record: str, verdict: Bearing, *, cited: bool, minute: int = 0) -> Counterfactual:
    return Counterfactual(
        id=f"x_{record}_{minute}",
        workspace_id="ws",
        task_id="t",
        session_id="s",
        decision_id="d",
        record_id=record,
        verdict=verdict,
        flip=verdict == "load_bearing",
        p_value=None,
        detectable=None,
        deterministic=True,
        with_record=Runs((), 0),
        without_record=Runs((), 0),
        cited=cited,
        model=None,
        created_at=datetime(2026, 3, 2, 9, minute, tzinfo=UTC),
    )


def test_citations_are_held_against_counterfactuals() -> None:
    found = [
        made("m_1", "load_bearing", cited=True),
        made("m_2", "not", cited=True),
        made("m_3", "not", cited=True),
        made("m_4", "load_bearing", cited=False),
        *(made(f"m_{n}", "not", cited=False) for n in (5, 6, 7)),
        made("m_8", "uncertain", cited=True),
    ]
    agreed = citation_agreement(found)
    assert (agreed.cited_load_bearing, agreed.cited_not) == (1, 2)
    assert (agreed.uncited_load_bearing, agreed.uncited_not) == (1, 3)
    assert (agreed.uncertain, agreed.compared) == (1, 7)
    assert agreed.agreement == approx(4 / 7)
    assert agreed.interval == share_interval(4, 7)
    assert citation_agreement([]).agreement is None


def test_of_two_counterfactuals_of_a_record_the_later_counts() -> None:
    early, late = (
        made("m_1", "uncertain", cited=True),
        made("m_1", "not", cited=True, minute=1),
    )
    assert latest([late, early]) == [late]
