from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from memplugin.evaluation.grading import JudgeFailed
from memplugin.evaluation.matching import Matcher, Statement
from memplugin.testing import ScriptedChatModel
from tests.evaluation.suites import WIDE


class Placed:
    """An embedder whose cosines are what a test says."""

    name, dimension, fingerprint = "placed", 2, "00"

    def __init__(self, **angles: float) -> None:
        self.angles = angles

    def embed(self, texts: Any) -> Any:
        turned = np.radians([self.angles[text] for text in texts])
        return np.stack([np.cos(turned), np.sin(turned)], axis=1).astype(np.float32)

    def truncates(self, texts: Any) -> list[bool]:
        return [False] * len(texts)


def pairs(matcher: Matcher, gold: list[Any], written: list[Any]) -> list[tuple[int, int, str]]:
    def said(items: list[Any]) -> list[Statement]:
        return [item if isinstance(item, Statement) else Statement(item) for item in items]

    return [(m.gold, m.written, m.by) for m in matcher.match(said(gold), said(written))]


def test_the_same_text_matches_whatever_its_case_and_final_stop() -> None:
    found = pairs(Matcher(WIDE), ["Ana is vegetarian."], ["Bo eats meat", "ana is  vegetarian"])
    assert found == [(0, 1, "text")]


def test_close_texts_match_and_far_ones_do_not() -> None:
    matcher = Matcher(Placed(fact=0, near=30, far=60), close=0.75)  # cosines .87 and .5
    assert pairs(matcher, ["fact"], ["far", "near"]) == [(0, 1, "embedding")]
    assert pairs(matcher, ["fact"], ["far"]) == []


def test_each_fact_and_each_memory_is_matched_once_and_the_best_pairing_wins() -> None:
    # One is nearest to both facts. The sum of cosines is best when it goes to the second.
    matcher = Matcher(Placed(g0=0, g1=40, one=20, other=-20), close=0.5)
    assert pairs(matcher, ["g0", "g1"], ["one", "other"]) == [
        (0, 1, "embedding"),
        (1, 0, "embedding"),
    ]


def test_an_equal_text_goes_before_a_close_one() -> None:
    matcher = Matcher(Placed(a=0, A=0, b=5), close=0.5)
    assert pairs(matcher, ["a", "b"], ["A"]) == [(0, 0, "text")]


@pytest.mark.parametrize(
    ("gold", "written"),
    [
        (Statement("The user likes tea."), Statement("The user does not like tea.")),
        (
            Statement("It is known.", {"vendor": "primex"}),
            Statement("It is known.", {"vendor": "dever"}),
        ),
        (
            Statement("Quotes show times."),
            Statement("Quotes show times.", scope={"client": "acme"}),
        ),
    ],
)  # fmt: skip
def test_a_memory_that_contradicts_a_fact_never_matches_it(
    gold: Statement, written: Statement
) -> None:
    assert pairs(Matcher(WIDE, close=0.1), [gold], [written]) == []


def test_whose_a_memory_is_does_not_keep_it_from_matching() -> None:
    written = Statement("Quotes show times.", scope={"user": "ana"})
    assert pairs(Matcher(WIDE), ["Quotes show times."], [written]) == [(0, 0, "text")]


def test_a_judge_is_asked_about_what_is_neither_equal_nor_close() -> None:
    asked: list[str] = []

    def judge(messages: Any) -> dict[str, Any]:
        asked.append(str(messages[-1].text))
        return {"reasoning": "same", "same": '"near"' in str(messages[-1].text)}

    embedder = Placed(fact=0, near=50, mid=60, far=85)  # cosines .64, .5, .09
    matcher = Matcher(embedder, close=0.75, judge=ScriptedChatModel(judge))
    assert pairs(matcher, ["fact"], ["mid", "near", "far"]) == [(0, 1, "judge")]
    assert len(asked) == 2, "what is about something else is not asked about"


def test_a_judge_without_a_usable_reply_is_an_error_and_no_verdict() -> None:
    matcher = Matcher(Placed(a=0, b=50), judge=ScriptedChatModel(["I am not sure."]))
    with pytest.raises(JudgeFailed):
        pairs(matcher, ["a"], ["b"])


def test_nothing_matches_nothing() -> None:
    assert pairs(Matcher(WIDE), [], ["a"]) == pairs(Matcher(WIDE), ["a"], []) == []
