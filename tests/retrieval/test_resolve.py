"""The deterministic look-up, as a function of records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memplugin.records import MemoryRecord, Resolved
from memplugin.retrieval.scope import applies, resolved

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PEST = {"trade": "pest"}
HERE = {"property": "221-229 Union Pl", "trade": "pest"}


def claiming(value: Any = "primex", **fields: Any) -> MemoryRecord:
    values: dict[str, Any] = {
        "id": "m_1",
        "workspace_id": "ws",
        "kind": "belief",
        "content": "-",
        "scope": PEST,
        "claim": {"vendor_id": value},
        "status": "active",
        "confidence": 0.8,
        "pinned": False,
        "evidence_count": 0,
        "occurred_at": NOON,
        "created_at": NOON,
        "source_session": "s_1",
        "task_id": None,
        "seq": 1,
    }
    return MemoryRecord(**{**values, **fields})


def value_of(*records: MemoryRecord) -> Any:
    found = resolved(records, "vendor_id", HERE)
    return found.value if found else None


def test_the_answer_says_where_it_comes_from_and_how_sure_it_is() -> None:
    pinned = claiming(pinned=True)
    assert resolved([pinned], "vendor_id", HERE) == Resolved(
        field="vendor_id",
        value="primex",
        record_id="m_1",
        scope=PEST,
        confidence=0.8,
        pinned=True,
    )


def test_nothing_is_said_where_nothing_claims_the_field_or_applies() -> None:
    assert value_of() is None
    assert value_of(claiming(scope={"trade": "plumbing"})) is None
    assert value_of(claiming(claim={"price": 3}), claiming(claim=None)) is None
    assert value_of(claiming(status="superseded")) is None


def test_a_claim_of_null_is_an_answer() -> None:
    found = resolved([claiming(None)], "vendor_id", HERE)
    assert found is not None
    assert found.value is None


def test_an_exception_comes_before_a_default_that_is_surer_and_pinned() -> None:
    default = claiming("primex", pinned=True, confidence=1.0)
    exception = claiming("dever", scope=HERE, confidence=0.5)
    assert value_of(default, exception) == "dever"
    assert value_of(exception, default) == "dever"


def test_among_equally_specific_ones_a_pin_then_confidence_then_the_newest_counts() -> None:
    sure, new = claiming("sure", confidence=0.9), claiming("new", occurred_at=NOON + timedelta(1))
    assert value_of(claiming("plain"), new) == "new"
    assert value_of(sure, new) == "sure"
    assert value_of(sure, claiming("pinned", pinned=True, confidence=0.1)) == "pinned"


records = st.builds(
    claiming,
    value=st.integers(0, 3),
    id=st.sampled_from(["m_1", "m_2", "m_3"]),
    scope=st.dictionaries(st.sampled_from(["property", "trade"]), st.sampled_from(["x", "y"])),
    status=st.sampled_from(["active", "evicted"]),
    confidence=st.sampled_from([0.2, 0.8]),
    pinned=st.booleans(),
    occurred_at=st.sampled_from([NOON, NOON + timedelta(1)]),
)


@given(st.lists(records, max_size=8), st.randoms())
def test_the_answer_is_the_maximum_of_the_order_whatever_the_order_of_the_records(
    drawn: list[MemoryRecord], chance: Any
) -> None:
    request = {"property": "x", "trade": "x", "other": "z"}

    def order(record: MemoryRecord) -> tuple[Any, ...]:
        times = (record.occurred_at, record.created_at)
        return (len(record.scope), record.pinned, record.confidence, *times, record.id)

    counting = [r for r in drawn if r.status == "active" and applies(r.scope, request)]
    shuffled = drawn.copy()
    chance.shuffle(shuffled)
    found = resolved(shuffled, "vendor_id", request)
    if not counting:
        assert found is None
        return
    assert found is not None
    best = max(order(record) for record in counting)
    answers = {(r.claim or {})["vendor_id"] for r in counting if order(r) == best}
    assert found.value in answers
    assert (len(found.scope), found.pinned, found.confidence) == best[:3]
