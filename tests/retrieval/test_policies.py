"""What each policy puts first, on hits whose numbers are given. Scores are by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin.records import MemoryRecord
from memplugin.retrieval.cutoff import Limits, choose
from memplugin.retrieval.rank import (
    BALANCED,
    BALANCED_1,
    BUILT_IN,
    EVIDENCE_BONUS,
    Hit,
    Policy,
    rank,
)
from memplugin.retrieval.scope import (
    applicable_keys,
    linked,
    linked_keys,
    scope_key,
    topic,
    words_beside,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
STRUCTURAL = ("property", "owner")
APART = {*STRUCTURAL, "user"}


def hit(name: str = "m_1", confidence: float = 0.9, evidence: int = 0, **fields: Any) -> Hit:
    record = MemoryRecord(
        id=name,
        workspace_id="ws",
        kind="belief",
        content=name,
        scope={},
        claim=None,
        status="active",
        confidence=confidence,
        pinned=False,
        evidence_count=evidence,
        occurred_at=NOON,
        created_at=NOON,
        source_session="s_1",
        task_id=None,
        seq=1,
    )
    return Hit(record=record, **fields)


def score(policy: Policy, **fields: Any) -> float:
    return rank([hit(**fields)], policy)[0].score


# ---------------------------------------------------------------- evidence_bonus

MANAGER = hit("manager", 0.576, 1, linked=True)
PRIMEX = hit("primex", 0.806, 0, topic=1.0)


def test_the_two_scores_of_the_wasp_case_and_their_order_come_out() -> None:
    # 0.576 * log2(3) + 1 = 1.913 and 0.806 * log2(2) = 0.806
    first, second = rank([PRIMEX, MANAGER], EVIDENCE_BONUS)
    assert (first.hit.record.id, round(first.score, 2)) == ("manager", 1.91)
    assert (second.hit.record.id, round(second.score, 2)) == ("primex", 0.81)
    assert first.parts == {"evidence": 0.576 * log2(3), "structural": 1.0}


def test_the_bonus_is_worth_more_than_certainty_without_evidence() -> None:
    assert score(EVIDENCE_BONUS, confidence=0.01, linked=True) > score(EVIDENCE_BONUS, confidence=1)


def test_nothing_in_it_asks_what_the_question_is_about() -> None:
    near = {"dense": 0.9, "around": 0.9, "lexical": 1.0, "topic": 1.0}
    assert score(EVIDENCE_BONUS, **near) == score(EVIDENCE_BONUS)


def test_balanced_puts_the_right_one_of_the_two_first_at_the_same_likeness() -> None:
    first, second = rank([MANAGER, PRIMEX], BALANCED)
    assert first.hit.record.id == "primex"
    # topic 1 + 0.3 * 0.806 + 0.1, and structural 0.2 + 0.3 * 0.576 + 0.1
    assert first.score == pytest.approx(1.3418)
    assert second.score == pytest.approx(0.4728)


# ---------------------------------------------------------------- balanced


def test_balanced_is_a_weighted_sum_of_named_parts() -> None:
    found = score(
        BALANCED,
        confidence=0.8,
        lexical=0.5,
        dense=0.4,
        around=0.2,
        topic=0.5,
        linked=True,
        age_days=90.0,
        credit=0.2,
    )
    # 3 * 0.5 + 0.4 + 0.2 + 0.5 + 0.2 + 0.3 * 0.8 + 0.1 * 0.5 + 0.5 * 0.2
    assert found == pytest.approx(3.19)


def test_relevance_outweighs_all_that_confidence_and_recency_can_add() -> None:
    relevant = hit("relevant", 0.5, dense=0.5, lexical=0.3, age_days=900)
    sure = hit("sure", 1.0, dense=0.3, lexical=0.1)
    assert [r.hit.record.id for r in rank([sure, relevant], BALANCED)] == ["relevant", "sure"]


def test_the_narrower_of_two_that_are_as_relevant_comes_first() -> None:
    default, exception = hit("default", 0.9, topic=0.5), hit("exception", 0.6, topic=1.0)
    assert rank([default, exception], BALANCED)[0].hit.record.id == "exception"


def test_words_that_name_the_property_count_nothing_for_its_own_records() -> None:
    assert score(BALANCED, lexical=0.6, beside=0.0) == score(BALANCED)
    assert score(BALANCED_1, lexical=0.6, beside=0.0) == pytest.approx(1.8)


def test_recency_is_halved_with_each_half_life() -> None:
    recency = BALANCED.parts["recency"][0]
    assert [recency(hit(age_days=days)) for days in (0, 90, 180)] == [1.0, 0.5, 0.25]


def test_a_version_that_ranked_before_is_still_there_under_its_label() -> None:
    assert BUILT_IN["balanced"].label == "balanced@2"
    assert BUILT_IN["balanced@1"].label == "balanced@1"
    assert set(BALANCED_1.parts) == {"lexical", "dense", "around"}


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=8), st.randoms())
def test_ranks_do_not_depend_on_the_order_of_the_hits(drawn: list[Any], chance: Any) -> None:
    hits = [hit(f"m_{n}", sure, linked=here) for n, (sure, here) in enumerate(drawn)]
    shuffled = hits.copy()
    chance.shuffle(shuffled)
    for policy in BUILT_IN.values():
        assert rank(shuffled, policy) == rank(hits, policy)


# ---------------------------------------------------------------- the floor


def shown(candidate: Hit, floor: float = 0.2) -> bool:
    limits = Limits(
        k=3,
        k_standing=0,
        floor=floor,
        lexical_floor=0.5,
        token_budget=None,
        count_tokens=len,
    )
    return choose(rank([candidate], BALANCED), limits)[0].injected


def test_what_is_on_the_requests_topic_needs_half_the_likeness() -> None:
    assert not shown(hit(dense=0.16))
    assert shown(hit(dense=0.16, topic=0.5))
    assert not shown(hit(dense=0.09, topic=1.0))


# ---------------------------------------------------------------- scope


def test_a_record_is_linked_by_a_structural_key_whatever_else_its_scope_says() -> None:
    request = {"property": "12 Elm St", "trade": "pest"}
    assert linked({"property": "12 Elm St"}, request, STRUCTURAL)
    assert linked({"property": "12 Elm St", "trade": "plumbing"}, request, STRUCTURAL)
    assert not linked({"property": "14 Elm St"}, request, STRUCTURAL)
    assert not linked({"trade": "pest"}, request, STRUCTURAL)
    assert not linked({}, {}, STRUCTURAL)


def test_the_linked_scopes_are_those_that_apply_and_name_the_thing() -> None:
    request = {"property": "12 Elm St", "trade": "pest"}
    assert linked_keys(request, STRUCTURAL) == {
        scope_key({"property": "12 Elm St"}),
        scope_key(request),
    }
    assert linked_keys(request, STRUCTURAL) < applicable_keys(request)
    assert linked_keys({"trade": "pest"}, STRUCTURAL) == frozenset()


def test_topic_is_the_share_of_what_the_request_is_about_that_a_scope_names() -> None:
    request = {"property": "12 Elm St", "user": "bob", "trade": "plumbing", "problem": "toilet"}
    assert topic({}, request, APART) == 0.0
    assert topic({"property": "12 Elm St", "user": "bob"}, request, APART) == 0.0
    assert topic({"trade": "plumbing"}, request, APART) == 0.5
    assert topic({"trade": "plumbing", "problem": "toilet"}, request, APART) == 1.0
    assert topic({"trade": "pest"}, request, APART) == 0.0
    assert topic({"user": "bob"}, {"user": "bob"}, APART) == 0.0


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("Wasps at 12 ELM st: whom to send?", "Wasps at   : whom to send?"),
        ("Elmer has wasps", "Elmer has wasps"),
        ("", ""),
    ],
)
def test_the_words_of_a_value_are_left_out_whatever_their_case(query: str, left: str) -> None:
    assert words_beside(query, ["12 Elm St"]) == left
