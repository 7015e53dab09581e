"""Precision, recall, growth and agreement, each against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from memplugin.evaluation import agents
from memplugin.evaluation.agreement import agreements
from memplugin.evaluation.matching import Matcher
from memplugin.evaluation.setup import InMemory
from memplugin.evaluation.write_suite import Reader, WriteReport, run_write_suite
from tests.evaluation.suites import WIDE, door, session, suite


def task(number: int, *sessions: dict[str, Any], **changed: Any) -> dict[str, Any]:
    return door(number, records=[], need={}, sessions=list(sessions), **changed)


def written(*tasks: dict[str, Any]) -> WriteReport:
    with InMemory(WIDE) as stores:
        return run_write_suite(
            suite(*tasks), Reader(stores, agents.scripted_extractor), Matcher(WIDE)
        )


def said(text: str, *gold: Any, misread: Any = None, **fields: Any) -> dict[str, Any]:
    return session(text, *gold, misread=misread, **fields)


FACTS = ("Ana is vegetarian.", "The office is in Bergen.", "Moss keeps the archive.", "Hale sings.")
ALL = " ".join(FACTS)


def fact(content: str, **fields: Any) -> dict[str, Any]:
    return {"content": content, "quote": content.rstrip("."), **fields}


def test_precision_and_recall_are_those_worked_out_by_hand() -> None:
    # Four gold facts in all; three were written, and one record that says none of them.
    wrong = fact("The weather is good.", quote="Hale sings")
    report = written(
        task(1, said(ALL, *map(fact, FACTS[:3]), misread=[fact(FACTS[0]), fact(FACTS[1]), wrong])),
        task(2, said(ALL, fact(FACTS[3]))),
    )
    overall = report.overall
    assert (overall.right, overall.written, overall.found, overall.gold) == (3, 4, 3, 4)
    assert (overall.precision.value, overall.recall.value) == (0.75, 0.75)
    # Wilson's interval for 3 of 4, from its formula with z = 1.96.
    assert overall.recall.low == pytest.approx(0.3006, abs=1e-4)
    assert overall.recall.high == pytest.approx(0.9544, abs=1e-4)
    assert [m.content for m in report.missed] == ["Moss keeps the archive."]
    assert [m.content for m in report.extra] == ["The weather is good."]


def test_both_are_split_by_kind() -> None:
    as_preference = [fact(FACTS[0], kind="preference"), fact(FACTS[1])]
    report = written(task(1, said(ALL, *as_preference, fact(FACTS[2]), misread=as_preference)))
    assert report.by_kind["preference"].recall.value == 1.0
    assert (report.by_kind["fact"].found, report.by_kind["fact"].gold) == (1, 2)


def test_both_are_split_by_how_the_message_is_put_that_says_it() -> None:
    messages = [
        {"user": "Ana is vegetarian."},
        {"user": "If we moved to Oslo, what then?", "phrasing": "hypothetical"},
        {"user": "Could you keep it short from now on?", "phrasing": "question"},
    ]
    moved = {"content": "They moved to Oslo.", "turn": 1, "quote": "moved to Oslo"}
    short = {"content": "Answers are short.", "turn": 2}
    report = written(
        task(
            1,
            {
                "messages": messages,
                "gold": [fact(FACTS[0]), short],
                "misread": [fact(FACTS[0]), moved],
            },
        )
    )
    found = {name: (s.precision.value, s.recall.value) for name, s in report.by_phrasing.items()}
    assert found == {
        "statement": (1.0, 1.0),
        "hypothetical": (0.0, None),
        "question": (None, 0.0),
    }


def test_a_fact_that_is_told_twice_is_found_twice_and_stored_once() -> None:
    twice = said(FACTS[0], fact(FACTS[0]))
    report = written(task(1, twice, twice))
    assert (report.overall.found, report.overall.gold) == (2, 2)
    assert report.growth.records == 1


def test_growth_is_told_beside_recall() -> None:
    junk = [fact(f"Note {n}: the office is in Bergen.", quote="Bergen") for n in range(1, 5)]
    needed = {"content": "Ana eats no meat at the office.", "quote": "Ana is vegetarian"}
    request = {"text": "Where is the office?", "k": 2}
    tasks = [
        task(n, said(ALL, needed, misread=[needed, *extra]), request=request)
        | {"need": {"text": "Ana eats no meat at the office"}}
        for n, extra in ((1, []), (2, junk))
    ]
    report = written(*tasks)
    assert report.overall.recall.value == 1.0
    assert (report.growth.records, report.growth.gold, report.growth.extra) == (6, 2, 4)
    # Written both times, and among the first two only where no junk competes.
    assert (report.growth.still_found.value, report.growth.still_found.n) == (0.5, 2)


def test_an_extraction_that_failed_is_told_apart_from_one_that_found_nothing() -> None:
    report = written(
        task(1, said(FACTS[0], fact(FACTS[0]), misread="refused")),
        task(2, said("Good morning.")),
    )
    assert report.unreadable == {"door-1/s_1": "refused"}
    assert report.overall.recall.value == 0.0
    assert report.overall.precision.value is None


def test_a_disputed_fact_is_neither_missed_nor_wrong() -> None:
    annotated = {"annotators": ["ann", "bob"]}
    sure, disputed = fact(FACTS[0]), fact(FACTS[1], by=["ann"])
    heard = written(task(1, said(ALL, sure, disputed, **annotated)))
    unheard = written(task(1, said(ALL, sure, disputed, misread=[sure], **annotated)))
    for report in (heard, unheard):
        assert (report.overall.precision.value, report.overall.recall.value) == (1.0, 1.0)
        assert (report.missed, report.extra) == ((), ())


# ---------------------------------------------------------------- two annotators


def test_the_agreement_of_two_annotators_is_that_worked_out_by_hand() -> None:
    # Five messages in three sessions. Ann writes down A, B, C, D; Bob A, B, E.
    def annotated(texts: list[str], gold: list[dict[str, Any]]) -> dict[str, Any]:
        messages = [{"user": text} for text in texts]
        return {"messages": messages, "gold": gold, "annotators": ["ann", "bob"]}

    made = suite(
        task(
            1,
            annotated(["a", "b"], [{"content": "A", "turn": 0}, {"content": "B", "turn": 1}]),
            annotated(
                ["c", "d"],
                [
                    {"content": "C", "turn": 0, "by": ["ann"]},
                    {"content": "D", "turn": 0, "by": ["ann"]},
                    {"content": "E", "turn": 1, "by": ["bob"]},
                ],
            ),
            annotated(["nothing"], []),
        )
    )
    (found,) = agreements(made.tasks[0].sessions)
    assert found.annotators == ("ann", "bob")
    assert (found.both, found.only_one) == (2, (2, 1))
    assert found.agreement == pytest.approx(4 / 7)  # 2·2 / (2·2 + 2 + 1)
    assert (found.shared.value, found.shared.n) == (0.4, 5)
    # By message: both mark a and b, only Ann c, only Bob d, neither the last. Seen 3/5,
    # by chance (3·3 + 2·2)/25 = 13/25; kappa = (15 - 13)/(25 - 13).
    assert found.kappa == pytest.approx(2 / 12)
    assert found.messages == 5


def test_sessions_that_one_person_has_read_have_no_agreement() -> None:
    made = suite(task(1, said("x", "A"), said("y", "B", annotators=["ann"])))
    assert agreements(made.tasks[0].sessions) == []
