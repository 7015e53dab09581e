from __future__ import annotations

import json
from html import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin.storage.sql.redaction import FORGOTTEN, Redactor, anchor

texts = st.text(min_size=13, max_size=60).filter(lambda text: text.strip() and "\x00" not in text)


@given(texts, st.text(max_size=20), st.text(max_size=20))
def test_a_text_is_found_plain_quoted_and_escaped(text: str, before: str, after: str) -> None:
    redactor = Redactor([text])
    plain = before + text + after
    for spelled in (plain, escape(plain), json.dumps(plain), json.dumps(json.dumps(plain))):
        assert FORGOTTEN in redactor.text(spelled)


@given(texts, st.text(max_size=20))
def test_whatever_holds_a_text_holds_its_anchor(text: str, around: str) -> None:
    for spelled in (around + text, escape(text), json.dumps(text), json.dumps(escape(text))):
        assert anchor(text) in spelled


@given(st.recursive(st.none() | st.integers() | st.text(alphabet="abc "), st.lists))
def test_json_without_the_text_stays_as_it_is(value: object) -> None:
    assert Redactor(["something else entirely"]).json(value) == value


@pytest.mark.parametrize(
    ("forgotten", "given_text", "left"),
    [
        ("tea", "steam, tea. teas", "steam, [forgotten]. teas"),
        ("私は犬が好き", "実は私は犬が好きです", "実は[forgotten]です"),
        ("🦆", "a🦆b", "a[forgotten]b"),
        ("likes tea very much", "xlikes tea very muchx", "x[forgotten]x"),
        ("", "left alone", "left alone"),
        ("  ", "left  alone", "left  alone"),
    ],
)
def test_short_texts_are_whole_words(forgotten: str, given_text: str, left: str) -> None:
    assert Redactor([forgotten]).text(given_text) == left


def test_keys_keep_their_order_and_may_be_redacted_too() -> None:
    value = {"z": 1, "my secret number": [{"a": "my secret number", "b": 2}]}
    redacted = Redactor(["my secret number"]).json(value)
    assert json.dumps(redacted) == '{"z": 1, "[forgotten]": [{"a": "[forgotten]", "b": 2}]}'


def test_the_longer_of_two_texts_goes_as_a_whole() -> None:
    redactor = Redactor(["a secret number", "a secret number of hers"])
    assert redactor.text("it is a secret number of hers") == "it is [forgotten]"
