from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_making import (
    NOW,
    WORKSPACE,
    accept,
    batch,
    connection_of,
    context,
    found,
    full_text,
    proposal,
    selection,
    settle,
    write,
)
from sqlalchemy import text

from memplugin.records import Entry, WorkspaceState
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.text import clean


def test_a_search_finds_word_forms_in_any_case_rare_words_first(ledger: SqlLedger) -> None:
    tax = write(ledger, "revenue is reported net of taxes")
    chart = write(ledger, "revenue goes into bar charts")
    write(ledger, "likes tea")
    assert found(ledger, "TAX on revenue") == [tax.id, chart.id]
    scores = [score for _, score in full_text(ledger, selection(), "TAX on revenue", 20)]
    assert 1.0 >= scores[0] > scores[1] > 0


def test_a_score_is_the_share_of_the_words_weighed_by_rarity(ledger: SqlLedger) -> None:
    both = write(ledger, "alpha beta")
    one = write(ledger, "alpha gamma")
    scores = dict(full_text(ledger, selection(), "alpha beta", 20))
    # Of 2 entries 2 hold alpha: ln(1 + 0.5/2.5) = 0.182; 1 holds beta: ln(1 + 1.5/1.5) = 0.693.
    # Length: 10 and 11 characters at k1 = 1.2, b = 0.4: 1.72 / (1.72 + n * 0.004).
    assert scores[both.id] == pytest.approx(1.72 / (1.72 + 10 * 0.004), abs=1e-3)
    assert scores[one.id] == pytest.approx(0.182 / 0.875 * 1.72 / (1.72 + 11 * 0.004), abs=1e-3)


def test_words_around_a_record_count_half(ledger: SqlLedger) -> None:
    inside = write(ledger, "the tractor is red")
    beside = write(ledger, "it is red", around="the tractor is loud")
    scores = dict(full_text(ledger, selection(), "tractor", 20))
    assert 0 < scores[beside.id] <= scores[inside.id] / 2 + 0.01


def test_a_query_of_stop_words_finds_nothing(ledger: SqlLedger) -> None:
    write(ledger, "what is it that you want")
    for query in ("what is it", "", "   ", "?!", "\u2019"):
        assert full_text(ledger, selection(), query, 20) == []


@pytest.mark.parametrize(
    "query",
    [
        "tax AND",
        "AND OR NOT tax",
        "NEAR(tax",
        'tax"',
        '" tax "',
        "tax*",
        "content:tax",
        "workspace:tax",
        "-tax",
        "^tax",
        "tax & | ! <-> ( )",
        "'tax'",
        "tax\\",
        "{tax} + tax",
        "tax:*A",
        "%tax_",
        "tax; DROP TABLE lexical",
    ],
)
def test_nothing_in_a_query_is_syntax(ledger: SqlLedger, query: str) -> None:
    record = write(ledger, "net of tax")
    write(ledger, "likes tea", workspace="ws_other")
    assert found(ledger, query) == [record.id]


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(query=st.text().map(clean), content=st.text().map(clean))
def test_any_text_can_be_stored_and_asked(ledger: SqlLedger, query: str, content: str) -> None:
    given = proposal("x " + content)
    ledger.writes.settle(batch(given), accept)
    assert (
        ledger.records.get_many(WORKSPACE, [given.record_id])[given.record_id].content
        == "x " + content
    )
    for id_, score in full_text(ledger, selection(), query + " " + content, 5):
        assert score > 0
        assert id_.startswith("m_")


@pytest.mark.parametrize(
    "content",
    [
        "emoji 🦆👩‍👩‍👧‍👦 done",
        "עברית مرحبا mixed",
        "e\u0301 combining and \u00e9 composed",
        "tab\tnewline\n\u2028 separators",
        "a 'quote' \"double\" \\ back",
    ],
)
def test_text_comes_back_as_it_was_given(ledger: SqlLedger, content: str) -> None:
    record = write(ledger, content, around=content, source=content)
    assert (record.content, record.around, record.source) == (content, content, content)


def test_a_megabyte_of_text_is_kept_and_found_by_its_beginning(ledger: SqlLedger) -> None:
    content = "tractor " + "".join(f"word{n} " for n in range(110_000)) + "🦆"
    assert len(content) > 1_000_000
    record = write(ledger, content, around=content)
    assert record.content == content
    assert found(ledger, "tractor") == [record.id]
    ledger.erasure.forget(WORKSPACE, record.id, "asked", NOW)
    assert found(ledger, "tractor") == []


def test_a_selection_takes_kinds_and_scopes_by_equality(ledger: SqlLedger) -> None:
    broad = write(ledger, "net of tax", kind="preference")
    narrow = write(ledger, "gross of tax", scope={"trade": "pest"})
    user = write(ledger, "tax for ana", scope={"user": "ana"}, kind="belief")
    pest = frozenset({"{}", '{"trade":"pest"}'})
    assert set(found(ledger, "tax")) == {broad.id}
    assert set(found(ledger, "tax", scopes=pest)) == {broad.id, narrow.id}
    assert ledger.search.count(selection(scopes=pest)) == 2
    assert ledger.search.count(selection(scopes=pest, kinds=frozenset({"fact"}))) == 1
    assert found(ledger, "tax", scopes=pest, kinds=frozenset({"fact"})) == [narrow.id]
    assert ledger.search.standing(selection(scopes=frozenset({'{"user":"ana"}'})), 5) == [user.id]


def test_a_selection_that_allows_nothing_selects_nothing(ledger: SqlLedger) -> None:
    write(ledger, "net of tax")
    for nothing in ({"scopes": frozenset[str]()}, {"kinds": frozenset[str]()}):
        assert found(ledger, "tax", **nothing) == []
        assert ledger.search.count(selection(**nothing)) == 0
        assert ledger.search.standing(selection(**nothing), 5) == []


def test_ten_scope_keys_select_by_all_their_subsets(ledger: SqlLedger) -> None:
    record = write(ledger, "net of tax", scope={"k": "v"})
    scopes = frozenset({'{"k":"v"}', *(f'{{"k":"{n}"}}' for n in range(1_023))})
    assert found(ledger, "tax", scopes=scopes) == [record.id]
    assert ledger.search.count(selection(scopes=scopes)) == 1


def test_standing_records_come_most_specific_then_pinned_then_confident_then_newest(
    ledger: SqlLedger,
) -> None:
    day = timedelta(days=1)
    older = write(ledger, "older", occurred_at=NOW - day)
    newer = write(ledger, "newer", occurred_at=NOW)
    sure = write(ledger, "sure", confidence=0.95, occurred_at=NOW - day)
    pinned = write(ledger, "pinned", pinned=True, confidence=0.6, occurred_at=NOW - day)
    narrow = write(ledger, "narrow", scope={"a": "1"}, confidence=0.6, occurred_at=NOW - day)
    chosen = selection(scopes=frozenset({"{}", '{"a":"1"}'}))
    order = [narrow.id, pinned.id, sure.id, newer.id, older.id]
    assert ledger.search.standing(chosen, 9) == order
    assert ledger.search.standing(chosen, 2) == order[:2]


def test_a_workspace_without_records_is_all_zeros(ledger: SqlLedger) -> None:
    assert ledger.search.state("ws_none") == WorkspaceState(0, 0, 0)
    assert ledger.search.changes("ws_none", 0) == []
    assert ledger.records.get_many("ws_none", ["m_1"]) == {}
    assert ledger.records.get_many("ws_none", []) == {}


def test_the_directory_tells_what_changed_since(ledger: SqlLedger) -> None:
    one = write(ledger, "one", around="beside", kind="tip")
    two = write(ledger, "two", scope={"a": "1"})
    assert ledger.search.changes(WORKSPACE, 0) == [
        Entry(one.id, 1, True, False, True, "tip", "{}", 1, 3, 6),
        Entry(two.id, 2, True, False, False, "fact", '{"a":"1"}', 2, 3, 0),
    ]
    ledger.records.mark_indexed(WORKSPACE, [one.id], NOW)
    ledger.records.set_status(WORKSPACE, two.id, "evicted", NOW)
    assert ledger.search.changes(WORKSPACE, 2) == [
        Entry(one.id, 3, True, True, True, "tip", "{}", 1, 3, 6),
        Entry(two.id, 4, False, False, False, "fact", '{"a":"1"}', 2, 3, 0),
    ]
    assert ledger.search.changes(WORKSPACE, 4) == []
    assert ledger.search.state(WORKSPACE) == WorkspaceState(seq=4, active=1, pending=0)


def test_thousands_of_ids_can_be_asked_for(ledger: SqlLedger) -> None:
    record = write(ledger, "one")
    ids = [f"m_{n}" for n in range(5_000)]
    assert list(ledger.records.get_many(WORKSPACE, [*ids, record.id, record.id])) == [record.id]


def test_scores_do_not_move_with_what_other_workspaces_hold(ledger: SqlLedger) -> None:
    write(ledger, "net of tax")
    write(ledger, "gross figures")
    before = full_text(ledger, selection(), "tax figures", 20)
    proposals = [proposal(f"tax {n}", workspace="ws_other") for n in range(50)]
    settle(ledger, *proposals, context=context("ws_other"))
    assert full_text(ledger, selection(), "tax figures", 20) == before


def test_the_ten_second_check_works_as_it_is_written(ledger: SqlLedger) -> None:
    ours = write(ledger, "revenue reported net of Tax", WORKSPACE, kind="preference")
    newer = write(ledger, "taxes are due in April", occurred_at=NOW + timedelta(days=1))
    write(ledger, "likes tea")
    write(ledger, "tax", workspace="ws_88410")
    with connection_of(ledger) as connection:
        like = "LIKE" if connection.dialect.name == "sqlite" else "ILIKE"
        rows = connection.execute(
            text(
                "SELECT id, kind, content, occurred_at, source_session, confidence"
                " FROM memory_records"
                f" WHERE workspace_id = 'ws_8841' AND content {like} '%tax%'"
                " ORDER BY occurred_at DESC"
            )
        ).all()
    assert [row.id for row in rows] == [newer.id, ours.id]
    assert tuple(rows[1])[:3] == (ours.id, "preference", "revenue reported net of Tax")
    assert tuple(rows[1])[4:] == ("s_1", 0.8)
    assert str(rows[1].occurred_at).startswith("2026-03-02 09:14:11")
