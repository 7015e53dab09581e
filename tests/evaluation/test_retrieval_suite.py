from __future__ import annotations

from typing import Any

import pytest

from memplugin.errors import ConfigError
from memplugin.evaluation.retrieval_suite import Found, RetrievalReport, run_retrieval_suite
from memplugin.evaluation.setup import InMemory
from tests.evaluation.suites import WIDE, door, session, suite


def found(*tasks: dict[str, Any], **fields: Any) -> RetrievalReport:
    with InMemory(WIDE) as stores:
        return run_retrieval_suite(suite(*tasks, **fields), stores)


def packs(needed: str, others: int, **changed: Any) -> dict[str, Any]:
    """A task whose needed record competes with others that are nearer to the request."""
    records = [
        {"key": "needed", "content": needed, **changed.pop("record", {})},
        {"content": "board pack number {n} with revenue by region", "repeat": max(others, 1)},
    ][: 1 + (others > 0)]
    request = {"text": "board pack with revenue by region", "policy": "similarity"}
    return door(others, records=records, request=request, need={"records": ["needed"]}) | changed


def test_recall_hits_and_ranks_are_those_worked_out_by_hand() -> None:
    # Ranks 1, 5 and 11: R@1 = 1/3, R@5 = 2/3, R@10 = 2/3; MRR = (1 + 1/5 + 1/11) / 3.
    report = found(*(packs("pack of something else", others) for others in (0, 4, 10)))
    assert [one.ranks for one in report.found] == [(1,), (5,), (11,)]
    scores = report.overall
    assert {cut: e.value for cut, e in scores.recall.items()} == {
        1: pytest.approx(1 / 3),
        3: pytest.approx(1 / 3),
        5: pytest.approx(2 / 3),
        10: pytest.approx(2 / 3),
    }
    assert scores.mrr.value == pytest.approx((1 + 1 / 5 + 1 / 11) / 3)
    assert scores.shown.value == pytest.approx(1 / 3)


def test_a_rank_beyond_the_depth_is_exact() -> None:
    report = found(packs("tax is taken off", 30))
    assert report.found[0].ranks == (31,)


def test_recall_is_the_share_of_what_is_needed_and_a_hit_is_any_of_it() -> None:
    one = Found("t", {}, ("fact",), (2, 9, None), shown=1, k=3)
    assert [one.recall_at(cut) for cut in (1, 3, 10)] == pytest.approx([0.0, 1 / 3, 2 / 3])
    assert one.reciprocal_rank == 0.5


def test_what_a_filter_keeps_out_has_no_rank() -> None:
    task = door(1, request={"text": "What is the code of door 1?", "kinds": ["tip"]})
    report = found(task)
    assert report.found[0].ranks == (None,)
    assert report.overall.mrr.value == 0.0


def test_standing_records_are_measured_apart_and_count_as_shown_without_a_rank() -> None:
    standing = packs("figures are net of tax", 10, record={"kind": "preference"})
    standing["request"] = {"text": "board pack with revenue by region"}
    report = found(standing, door(11))
    assert (report.standing.tasks, report.others.tasks) == (1, 1)
    assert report.standing.recall[5].value == 0.0
    assert report.standing.shown.value == 1.0
    assert set(report.by_kind) == {"fact", "preference"}


def test_the_gold_facts_of_sessions_are_stored_whatever_an_extractor_would_miss() -> None:
    heard = session("Call me Sam.", "The user is called Sam.", misread=[])
    by_text = door(1, records=[], sessions=[heard], need={"text": "the user is called Sam"})
    by_message = door(2, records=[], sessions=[heard], need={"said": {"turn": 0}})
    report = found(by_text, by_message)
    assert [len(one.ranks) for one in report.found] == [1, 1]


def test_tasks_that_need_nothing_are_left_out_and_named() -> None:
    report = found(door(1), door(2, should_use=False), door(3, need={}))
    assert report.left_out == ("door-2", "door-3")


def test_a_corpus_is_filled_once_for_all_its_tasks() -> None:
    codes = [{"key": f"c{n}", "content": f"The code of door {n} is {n}."} for n in (1, 2, 3)]
    tasks = [door(n, corpus="house", records=[], need={"records": [f"c{n}"]}) for n in (1, 2)]
    report = found(*tasks, corpora={"house": codes})
    assert [one.ranks for one in report.found] == [(1,), (1,)]


def test_a_suite_that_needs_nothing_can_not_be_measured() -> None:
    with pytest.raises(ConfigError, match="no task of suite 'made' needs a record"):
        found(door(1, need={}))
