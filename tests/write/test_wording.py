"""The same in other words is told from what only looks the same, and from the opposite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin.write.wording import only_reworded, opposite
from tests.write.wordings import DIFFERENT, OPPOSITE, SAME


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words_is_the_same(one: str, other: str) -> None:
    assert only_reworded(one, other)
    assert only_reworded(other, one)
    assert not opposite(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_only_looks_alike_is_neither_the_same_nor_the_opposite(one: str, other: str) -> None:
    assert not only_reworded(one, other)
    assert not only_reworded(other, one)
    assert not opposite(one, other)


@pytest.mark.parametrize(("one", "other"), OPPOSITE)
def test_a_no_to_the_same_words_is_the_opposite(one: str, other: str) -> None:
    assert opposite(one, other)
    assert opposite(other, one)
    assert not only_reworded(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("北京から東京へ", "東京から北京へ"),
        ("Kommt aus München nach Berlin", "Kommt aus Berlin nach München"),
        ("Aime le thé", "N'aime pas le thé"),
    ],
)
def test_in_another_language_other_words_are_another_memory(one: str, other: str) -> None:
    assert not only_reworded(one, other)


WORDS = st.sampled_from(["Ann", "Bob", "Primex", "tea", "likes", "from", "to", "12", "and", "not"])
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)


@given(TEXTS, TEXTS)
def test_the_comparison_has_no_direction(one: str, other: str) -> None:
    assert only_reworded(one, other) == only_reworded(other, one)
    assert opposite(one, other) == opposite(other, one)


@given(TEXTS)
def test_a_text_is_itself_and_never_its_own_opposite(text: str) -> None:
    assert only_reworded(text, text.upper())
    assert not opposite(text, text)


@given(st.permutations(["Ann", "owes", "Bob", "twelve", "euros"]))
def test_words_that_nothing_joins_keep_their_order(words: list[str]) -> None:
    given = ["Ann", "owes", "Bob", "twelve", "euros"]
    assert only_reworded(" ".join(given), " ".join(words)) == (words == given)
