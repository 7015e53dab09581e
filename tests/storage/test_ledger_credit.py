"""Credit, as the ledger adds it up: every figure is worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_making import LATER, WORKSPACE, candidate, connection_of, retrieval, write
from sqlalchemy import select, text

from memplugin.config import OUTCOME_ONLY, CreditWeights
from memplugin.learning.utility import weight
from memplugin.records import CreditTotals, MemoryRecord, Outcome, Score, Shown
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.sql.tables import credits

WEIGHTS = CreditWeights()
NOTHING = CreditTotals(**dict.fromkeys(CreditTotals.__dataclass_fields__, 0))


def show(ledger: SqlLedger, *records: MemoryRecord, attempt: int = 1, **fields: Any) -> None:
    """A retrieval in which the first record is shown, and the others too unless said."""
    hidden: Sequence[MemoryRecord] = fields.pop("hidden", ())
    candidates = [candidate(record, rank) for rank, record in enumerate(records, 1)]
    candidates += [candidate(record, 9, injected=False) for record in hidden]
    values = {"id": f"r_{attempt}_{len(records)}", **fields}
    ledger.retrievals.save(retrieval(*candidates, **values), "memory_on", attempt)


def report(ledger: SqlLedger, value: float, *, attempt: int = 1, **fields: Any) -> None:
    values: dict[str, Any] = {
        "id": f"a_{attempt}",
        "workspace_id": WORKSPACE,
        "task_id": "t_0417",
        "session_id": "s_9",
        "attempt": attempt,
        "succeeded": value > 0,
        "value": value,
        "confidence": 1.0,
        "failure_mode": None,
        "action": "cat > /etc/ssh/ssh_config",
        "arm": "memory_on",
        "created_at": LATER + timedelta(minutes=attempt),
    }
    ledger.outcomes.save(Outcome(**{**values, **fields}), None)


def rows(ledger: SqlLedger, *, judge: bool = True) -> list[Shown]:
    return ledger.follow_scores.shown(ledger.follow_scores.unscored(None, judge=judge))


def score(ledger: SqlLedger, **scores: Any) -> None:
    """The same score for every row that wants one."""
    ledger.follow_scores.save_scores([Score(shown, **scores) for shown in rows(ledger)], LATER)


def credited(ledger: SqlLedger, record: MemoryRecord, weights: CreditWeights = WEIGHTS) -> float:
    """By both ways of reading it, which agree."""
    found = ledger.credit.of_records(WORKSPACE, [record.id], weights)[record.id]
    totals = ledger.credit.totals(WORKSPACE, weights)[record.id]
    assert (found.attempts, found.credited) == (totals.attempts, pytest.approx(totals.credited))
    return found.credited


# ---------------------------------------------------------------- joining


@pytest.mark.parametrize("shown_first", [True, False])
def test_a_retrieval_is_joined_to_its_attempt_whichever_was_written_first(ledger, shown_first):
    record = write(ledger, "net of tax")
    steps = [lambda: show(ledger, record), lambda: report(ledger, 1.0)]
    for step in steps if shown_first else reversed(steps):
        step()
    assert ledger.credit.totals(WORKSPACE, WEIGHTS) == {
        # one attempt of value 1 * confidence 1 * weight 0.5, since nothing is known of it
        record.id: replace(NOTHING, attempts=1, successes=1, outcome=1.0, credited=0.5)
    }
    [row] = rows(ledger)
    assert (row.record_id, row.content, row.action) == (
        record.id,
        "net of tax",
        "cat > /etc/ssh/ssh_config",
    )


def test_nothing_is_credited_before_the_attempt_is_reported(ledger):
    show(ledger, write(ledger, "net of tax"))
    assert ledger.credit.totals(WORKSPACE, WEIGHTS) == {}


@pytest.mark.parametrize(
    "other", [{"task_id": "t_2"}, {"attempt": 2}, {"arm": "memory_off"}, {"workspace_id": "ws_2"}]
)
def test_another_attempt_is_not_joined(ledger, other):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 1.0, **other)
    assert ledger.credit.totals(WORKSPACE, WEIGHTS) == {}
    assert ledger.credit.totals("ws_2", WEIGHTS) == {}


def test_a_candidate_that_was_not_injected_earns_nothing_and_loses_nothing(ledger):
    shown, hidden = write(ledger, "one"), write(ledger, "two")
    for attempt, value in ((1, 1.0), (2, -0.2)):
        show(ledger, shown, attempt=attempt, hidden=[hidden])
        report(ledger, value, attempt=attempt)
    assert set(ledger.credit.of_records(WORKSPACE, [shown.id, hidden.id], WEIGHTS)) == {shown.id}
    assert {row.record_id for row in rows(ledger)} == {shown.id}


def test_a_record_shown_twice_in_one_attempt_has_had_one_chance(ledger):
    record = write(ledger, "net of tax")
    show(ledger, record, id="r_1")
    show(ledger, record, id="r_2")
    report(ledger, 1.0)
    assert ledger.credit.totals(WORKSPACE, WEIGHTS)[record.id].attempts == 1
    assert credited(ledger, record) == 0.5


def test_reporting_an_attempt_again_replaces_what_it_was_worth(ledger):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 1.0)
    report(ledger, -0.2, failure_mode="health_failure")
    assert ledger.credit.totals(WORKSPACE, WEIGHTS) == {
        record.id: replace(NOTHING, attempts=1, outcome=-0.2, credited=-0.1)
    }


# ---------------------------------------------------------------- weights


@pytest.mark.parametrize(
    ("followed", "cosine", "expected"),
    [
        (True, 0.1, 0.8),  # the judge's word: 0.8 * 1.0
        (False, 0.9, 0.0),  # 0.8 * 0.0, on a success too
        (None, 0.6, 0.8),  # 0.60 is close: 0.8 * 1.0
        (None, 0.5999, 0.0),  # below it is far: 0.8 * 0.0
        (None, None, 0.4),  # nothing known: 0.8 * 0.5
    ],
)
def test_an_attempt_is_credited_by_who_was_followed(ledger, followed, cosine, expected):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 0.8)
    score(ledger, followed=followed, cosine=cosine)
    assert credited(ledger, record) == pytest.approx(expected)
    assert credited(ledger, record, OUTCOME_ONLY) == pytest.approx(0.8)
    assert weight(followed, cosine, WEIGHTS) * 0.8 == pytest.approx(expected)


def test_confidence_counts_beside_the_value(ledger):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 0.8, confidence=0.25)
    score(ledger, followed=True)
    assert credited(ledger, record) == pytest.approx(0.2)  # 0.8 * 0.25 * 1.0


def test_other_weights_and_another_threshold_count_at_once(ledger):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 1.0)
    score(ledger, cosine=0.15)
    assert credited(ledger, record, CreditWeights(far=0.25)) == 0.25
    assert credited(ledger, record, CreditWeights(close_from=0.15, close=0.75)) == 0.75
    assert credited(ledger, record, CreditWeights(close_from=0.2, close=0.75)) == 0.0


def test_what_is_known_is_counted_by_sign(ledger):
    record = write(ledger, "net of tax")
    signs = [(True, None), (False, 0.9), (None, 0.7), (None, 0.2), (None, None)]
    for attempt, (followed, cosine) in enumerate(signs, 1):
        show(ledger, record, attempt=attempt)
        report(ledger, 1.0 if attempt % 2 else 0.0, attempt=attempt)
        [row] = [row for row in rows(ledger) if row.attempt == attempt]
        ledger.follow_scores.save_scores([Score(row, followed=followed, cosine=cosine)], LATER)
    assert ledger.credit.totals(WORKSPACE, WEIGHTS)[record.id] == CreditTotals(
        attempts=5,
        successes=3,  # attempts 1, 3 and 5
        outcome=3.0,
        credited=2.5,  # 1 judged followed, 1 close, half of the unknown one
        judged=2,
        followed=1,
        judged_successes=1,
        followed_successes=1,
        compared=2,
        close=1,
        compared_successes=1,
        close_successes=1,
    )


# ---------------------------------------------------------------- scores


def test_a_scored_row_wants_no_score_again(ledger):
    show(ledger, write(ledger, "net of tax"))
    report(ledger, 1.0)
    assert len(rows(ledger)) == 1
    score(ledger, cosine=0.3)
    assert rows(ledger, judge=False) == []
    [row] = rows(ledger)
    assert (row.followed, row.cosine) == (None, 0.3)
    score(ledger, followed=False, reasoning="It wrote the file.", judge="1")
    assert rows(ledger) == []


def test_a_row_that_failed_keeps_its_error_and_comes_last_the_next_time(ledger):
    records = [write(ledger, "one"), write(ledger, "two")]
    show(ledger, *records)
    report(ledger, 1.0)
    first, second = rows(ledger)
    ledger.follow_scores.save_scores(
        [Score(first, cosine=0.5, error="judge: error: timeout")], LATER
    )
    assert [row.number for row in rows(ledger)] == [second.number, first.number]
    with connection_of(ledger) as connection:
        kept = connection.execute(text("SELECT follow_error FROM injections ORDER BY number"))
        assert list(kept.scalars()) == ["judge: error: timeout", None]
    ledger.follow_scores.save_scores([Score(first, followed=True)], LATER)
    with connection_of(ledger) as connection:
        kept = connection.execute(text("SELECT follow_error FROM injections ORDER BY number"))
        assert list(kept.scalars()) == [None, None]


def test_another_action_for_the_attempt_drops_the_scores_of_the_old_one(ledger):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 1.0)
    score(ledger, followed=True, cosine=0.9)
    report(ledger, 1.0)
    assert credited(ledger, record) == 1.0
    report(ledger, 1.0, action="update-crypto-policies --set FUTURE")
    assert credited(ledger, record) == 0.5
    assert [row.action for row in rows(ledger)] == ["update-crypto-policies --set FUTURE"]


def test_a_score_of_an_action_that_was_replaced_meanwhile_is_not_kept(ledger):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 1.0)
    judged = [Score(row, followed=True) for row in rows(ledger)]
    report(ledger, 1.0, action="something else")
    ledger.follow_scores.save_scores(judged, LATER)
    assert credited(ledger, record) == 0.5
    assert len(rows(ledger)) == 1


def test_an_attempt_without_an_action_can_not_be_scored_and_is_counted(ledger):
    show(ledger, write(ledger, "net of tax"))
    report(ledger, 1.0, action=None)
    assert rows(ledger) == []
    assert ledger.follow_scores.without_action(WORKSPACE) == 1
    assert ledger.follow_scores.without_action("ws_2") == 0


def test_one_workspace_at_a_time(ledger):
    for workspace in (WORKSPACE, "ws_2"):
        record = write(ledger, "net of tax", workspace)
        show(ledger, record, workspace_id=workspace)
        report(ledger, 1.0, workspace_id=workspace)
    assert len(ledger.follow_scores.unscored(None, judge=True)) == 2
    [row] = ledger.follow_scores.shown(ledger.follow_scores.unscored("ws_2", judge=True))
    assert row.workspace_id == "ws_2"


def test_a_forgotten_record_is_not_scored_and_the_judges_words_go_too(ledger):
    record = write(ledger, "Primex handles all pest issues")
    show(ledger, record)
    report(ledger, 1.0)
    said = "The memory says: Primex handles all pest issues."
    score(ledger, cosine=0.5, followed=True, reasoning=said)
    ledger.erasure.forget(WORKSPACE, record.id, "asked to", LATER)
    report(ledger, 1.0, action="another")  # which would have it scored again
    assert rows(ledger) == []
    with connection_of(ledger) as connection:
        kept = list(connection.scalars(text("SELECT follow_reasoning FROM injections")))
    assert kept == [None]


def test_forgetting_redacts_the_judges_reasoning(ledger):
    record = write(ledger, "Primex handles all pest issues")
    show(ledger, record)
    report(ledger, 1.0)
    said = "The memory says: Primex handles all pest issues."
    score(ledger, followed=True, reasoning=said)
    ledger.erasure.forget(WORKSPACE, record.id, "asked to", LATER)
    with connection_of(ledger) as connection:
        kept = list(connection.scalars(text("SELECT follow_reasoning FROM injections")))
    assert kept == ["The memory says: [forgotten]."]


def test_credit_outlives_the_rows_it_came_from(ledger):
    record = write(ledger, "net of tax")
    show(ledger, record)
    report(ledger, 1.0)
    score(ledger, followed=True)
    assert ledger.maintenance.prune(LATER + timedelta(days=1))["retrievals"] == 1
    assert credited(ledger, record) == 1.0
    assert ledger.follow_scores.ever_shown(WORKSPACE) == {record.id}


def test_what_judge_and_cosine_disagree_on_is_found_the_widest_first(ledger):
    records = [write(ledger, name) for name in ("one", "two", "three", "four")]
    show(ledger, *records)
    report(ledger, 1.0)
    signs = [(True, 0.05), (False, 0.85), (True, 0.9), (False, 0.7)]
    ledger.follow_scores.save_scores(
        [Score(r, followed=f, cosine=c) for r, (f, c) in zip(rows(ledger), signs, strict=True)],
        LATER,
    )
    found = ledger.follow_scores.disagreements(WORKSPACE, 0.8, 10)
    assert [(d.content, d.followed, d.cosine) for d in found] == [
        ("one", True, 0.05),  # 0.95 apart
        ("two", False, 0.85),  # 0.85 apart; the others 0.1 and 0.7
    ]
    assert [d.content for d in ledger.follow_scores.disagreements(WORKSPACE, 0.8, 1)] == ["one"]
    assert ledger.follow_scores.disagreements("ws_2", 0.0, 10) == []


# ---------------------------------------------------------------- the sums stay true

CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("show"), st.integers(1, 3), st.integers(0, 2)),
        st.tuples(st.just("report"), st.integers(1, 3), st.sampled_from([1.0, 0.8, 0.0, -0.2])),
        st.tuples(
            st.just("score"),
            st.sampled_from([True, False, None]),
            st.sampled_from([None, -1.0, 0.0, 0.15, 0.5999, 0.6, 1.0]),
        ),
    ),
    max_size=14,
)


def by_hand(ledger: SqlLedger) -> dict[str, tuple[int, float]]:
    """Attempts and credit of each record, from the rows alone."""
    joined = """
        SELECT i.record_id, i.attempt, MAX(i.followed_llm), MAX(i.followed_cosine), a.value
        FROM injections i JOIN attempts a ON a.workspace_id = i.workspace_id
            AND a.task_id = i.task_id AND a.arm = i.arm AND a.attempt = i.attempt
        GROUP BY i.record_id, i.attempt, a.value
    """
    sums: dict[str, tuple[int, float]] = {}
    with connection_of(ledger) as connection:
        for record_id, _, llm, cosine, value in connection.execute(text(joined)):
            attempts, total = sums.get(record_id, (0, 0.0))
            followed = None if llm is None else bool(llm)
            gained = value * weight(followed, cosine, WEIGHTS)
            sums[record_id] = (attempts + 1, total + gained)
    return sums


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes=CHANGES)
def test_the_sums_are_always_those_of_the_rows(changes):
    ledger = SqlLedger.open("sqlite://")
    records = [write(ledger, name) for name in ("one", "two", "three")]
    for place, (what, one, two) in enumerate(changes):
        if what == "show":
            show(ledger, records[two], attempt=one, id=f"r_{place}")
        elif what == "report":
            report(ledger, two, attempt=one)
        else:
            waiting = rows(ledger)[:2]
            ledger.follow_scores.save_scores(
                [Score(r, followed=one, cosine=two) for r in waiting], LATER
            )
    found = ledger.credit.totals(WORKSPACE, WEIGHTS)
    assert {id_: (t.attempts, pytest.approx(t.credited)) for id_, t in found.items()} == by_hand(
        ledger
    )
    with connection_of(ledger) as connection:
        assert connection.execute(select(credits).where(credits.c.attempts < 1)).all() == []
    ledger.close()


def test_writers_at_the_same_time_lose_no_credit(shared_url):
    ledger = SqlLedger.open(shared_url)
    records = [write(ledger, name) for name in ("one", "two", "three")]

    def attempt(number: int) -> None:
        show(ledger, *records, attempt=number, id=f"r_{number}")

    def reported(number: int) -> None:
        report(ledger, 1.0, attempt=number)

    with ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(job, n) for n in range(1, 17) for job in (attempt, reported)]
    for job in jobs:
        job.result()
    sums = ledger.credit.totals(WORKSPACE, WEIGHTS)
    assert {t.attempts for t in sums.values()} == {16}
    assert [t.credited for t in sums.values()] == [8.0, 8.0, 8.0]
    ledger.close()
