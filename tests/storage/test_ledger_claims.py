"""Which records claim a field, in the order in which they count."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_making import NOW, WORKSPACE, accept, batch, decision, proposal, selection, write
from sqlalchemy import create_engine, text

from memplugin.claims import precedence
from memplugin.records import MemoryRecord
from memplugin.storage.sql.ledger import SqlLedger

HERE = frozenset({"{}", '{"trade":"pest"}', '{"property":"12","trade":"pest"}'})


def claiming(ledger: SqlLedger, *fields: str, **more: Any) -> list[str]:
    return [r.id for r in ledger.search.claims(selection(**more), fields)]


def test_a_claim_is_found_by_any_of_its_fields(ledger: SqlLedger) -> None:
    one = write(ledger, "a", claim={"vendor_id": "primex"})
    two = write(ledger, "b", claim={"vendor_id": "dever", "urgent": True})
    write(ledger, "c", claim={"vendor": "x"})
    write(ledger, "d")
    assert set(claiming(ledger, "vendor_id")) == {one.id, two.id}
    assert claiming(ledger, "urgent", "nothing") == [two.id]
    assert claiming(ledger, "vendor_i") == []
    assert claiming(ledger) == []


@pytest.mark.parametrize("name", ['quo"ted', "back\\slash", "é", "🦆", "%", "_", "a,b", "[", ","])
def test_nothing_in_a_fields_name_is_syntax(ledger: SqlLedger, name: str) -> None:
    write(ledger, "other", claim={"x": 1, 'y"': 2, "z": 3})
    record = write(ledger, "named", claim={name: "value"})
    assert claiming(ledger, name) == [record.id]


def test_what_counts_most_comes_first(ledger: SqlLedger) -> None:
    def claim(content: str, **more: Any) -> str:
        scope = more.pop("scope", {"trade": "pest"})
        made = proposal(content, claim={"vendor_id": content}, scope=scope, **more)
        [receipt] = ledger.writes.settle(batch(made), accept).receipts
        return str(receipt.record_id)

    broad = claim("broad", scope={}, pinned=True)
    old = claim("old", confidence=0.5)
    new = claim("new", confidence=0.5, occurred_at=NOW + timedelta(days=1))
    sure = claim("sure", confidence=0.9)
    pinned = claim("pinned", confidence=0.4, pinned=True)
    narrow = claim("narrow", scope={"property": "12", "trade": "pest"}, confidence=0.1)
    assert claiming(ledger, "vendor_id", scopes=HERE) == [narrow, pinned, sure, new, old, broad]


def test_only_active_records_that_are_selected_count(ledger: SqlLedger) -> None:
    claim = {"vendor_id": "primex"}
    kept = write(ledger, "kept", claim=claim)
    gone = write(ledger, "gone", claim={"vendor_id": "x"}, scope={"trade": "pest"})
    write(ledger, "elsewhere", claim=claim, scope={"trade": "drains"})
    write(ledger, "theirs", "ws_2", claim=claim)
    ledger.records.set_status(WORKSPACE, gone.id, "evicted", NOW)
    assert claiming(ledger, "vendor_id", scopes=HERE) == [kept.id]
    assert claiming(ledger, "vendor_id", kinds=frozenset({"tip"})) == []


NAMES = st.sampled_from(["a", 'a"', "b", ",", "ab"])


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.dictionaries(NAMES, st.booleans(), max_size=3), max_size=6), NAMES)
def test_the_same_records_are_found_as_by_looking_at_each(
    claims: list[dict[str, bool]], wanted: str
) -> None:
    ledger = SqlLedger.open("sqlite://")
    proposals = [
        proposal(f"memory {n}", id=f"p_{n}", claim=claim or None, confidence=n % 3 / 3)
        for n, claim in enumerate(claims)
    ]
    receipts = ledger.writes.settle(batch(*proposals), accept).receipts
    records = ledger.records.get_many(WORKSPACE, [str(r.record_id) for r in receipts]).values()
    expected: list[MemoryRecord] = [r for r in records if wanted in (r.claim or {})]
    expected.sort(key=precedence, reverse=True)
    assert ledger.search.claims(selection(), [wanted]) == expected
    ledger.close()


def test_a_decisions_workspaces_are_found_by_its_id(ledger: SqlLedger) -> None:
    for workspace in ("ws_b", "ws_a"):
        ledger.decisions.save(decision(workspace_id=workspace), "memory_on", 1)
    assert ledger.history.workspaces_of_decision("d_1") == ["ws_a", "ws_b"]
    assert ledger.history.workspaces_of_decision("d_") == []


def test_a_decision_from_before_overrides_were_kept_is_read(shared_url: str) -> None:
    ledger = SqlLedger.open(shared_url)
    ledger.decisions.save(decision(), "memory_on", 1)
    engine = create_engine(shared_url)
    replies = json.dumps([{"status": "decided", "raw": None, "detail": None}])
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE decisions SET overrides = NULL, options = NULL, replies = :replies"),
            {"replies": replies},
        )
    engine.dispose()
    kept = ledger.decisions.get(WORKSPACE, "d_1")
    ledger.close()
    assert kept is not None
    assert (kept.overrides, kept.options, kept.replies[0].asked) == ((), {}, ())
