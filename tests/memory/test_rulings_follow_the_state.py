"""A receipt says what is true, and what became true later wins, whenever it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.ports import Embedder
from memplugin.records import MemoryRecord, WriteReceipt
from memplugin.testing import memory_for_tests
from tests.write.wordings import DIFFERENT, SAME

HERE = MemoryContext("ws_8841", "s_1")
IN_2023 = datetime(2023, 5, 1, tzinfo=UTC)
IN_2026 = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture(params=["sqlite", "postgresql"])
def memory(request: pytest.FixtureRequest) -> Iterator[Memory]:
    sqlite = request.param == "sqlite"
    url = "sqlite://" if sqlite else request.getfixturevalue("postgres_url")
    # Likeness is given by hand where a test needs it: the fake embedder knows no meaning.
    with memory_for_tests(url, config=MemoryConfig(near_duplicate=0.2)) as memory:
        yield memory


def city(
    memory: Memory, name: str, at: datetime | None = None, context: MemoryContext = HERE
) -> WriteReceipt:
    return memory.write(f"Lives in {name}", context=context, claim={"city": name}, occurred_at=at)


def resolved(memory: Memory) -> object:
    found = memory.resolve("city", context=HERE)
    return found and found.value


def rows(memory: Memory) -> dict[str, int]:
    counted = memory.backend.ledger.maintenance.statistics()["rows"]
    return {name: counted[name] for name in ("proposals", "memory_records")}


def record(memory: Memory, receipt: WriteReceipt) -> MemoryRecord:
    assert receipt.record_id
    return memory.get(receipt.record_id, context=HERE)


# ---------------------------------------------------------------- a receipt and its state


def test_what_was_replaced_and_is_said_again_holds_again(memory: Memory) -> None:
    first, rome, again = (city(memory, name) for name in ("Paris", "Rome", "Paris"))
    assert (rome.ruling, again.ruling) == ("superseded", "superseded")
    assert (rome.replaced_id, again.replaced_id) == (first.record_id, rome.record_id)
    assert again.record_id != first.record_id
    assert resolved(memory) == "Paris"


def test_the_same_holds_inside_one_call(memory: Memory) -> None:
    items = [{"content": f"Lives in {n}", "claim": {"city": n}} for n in ("Paris", "Rome", "Paris")]
    receipts = memory.write_many(items, context=HERE)
    assert [r.ruling for r in receipts] == ["accepted", "superseded", "superseded"]
    assert resolved(memory) == "Paris"


def test_a_call_that_is_made_again_adds_nothing(memory: Memory) -> None:
    items = [{"content": f"Lives in {n}", "claim": {"city": n}} for n in ("Paris", "Rome", "Paris")]
    receipts, counted = memory.write_many(items, context=HERE), rows(memory)
    again = memory.write_many(items, context=HERE)
    assert [r.record_id for r in again] == [r.record_id for r in receipts]
    assert rows(memory) == counted
    assert resolved(memory) == "Paris"


def test_a_call_with_an_older_fact_in_it_adds_nothing_when_it_is_made_again(
    memory: Memory,
) -> None:
    city(memory, "Oslo")
    items = [{"content": f"Lives in {n}", "claim": {"city": n}} for n in ("Paris", "Rome")]
    older = {"content": "Lives in Bern", "claim": {"city": "Bern"}, "occurred_at": IN_2023}
    memory.write_many([older, *items], context=HERE)
    counted = rows(memory)
    memory.write_many([older, *items], context=HERE)
    assert rows(memory) == counted
    assert resolved(memory) == "Rome"


def test_a_single_write_after_such_a_call_is_ruled_on_by_itself(memory: Memory) -> None:
    items = [{"content": f"Lives in {n}", "claim": {"city": n}} for n in ("Paris", "Rome")]
    memory.write_many(items, context=HERE)
    assert city(memory, "Paris").ruling == "superseded"
    assert resolved(memory) == "Paris"


def test_a_write_that_is_made_again_in_the_same_state_gets_its_receipt(memory: Memory) -> None:
    first = city(memory, "Paris")
    counted = rows(memory)
    again = city(memory, "Paris")
    assert (again.proposal_id, again.record_id) == (first.proposal_id, first.record_id)
    assert rows(memory) == counted


def test_what_was_evicted_is_stored_again_when_it_is_said_again(memory: Memory) -> None:
    first = memory.write("Use the lift.", context=HERE, kind="tip")
    memory.backend.ledger.records.set_status(
        "ws_8841", str(first.record_id), "evicted", datetime.now(UTC)
    )
    again = memory.write("Use the lift.", context=HERE, kind="tip")
    assert (again.ruling, again.record_id == first.record_id) == ("accepted", False)
    assert record(memory, again).status == "active"


def test_a_check_that_was_down_is_asked_again() -> None:
    down = [True]

    def screen(text: str) -> str | None:
        if down[0]:
            raise ConnectionError("the service is down")
        return None

    with memory_for_tests(config=MemoryConfig(screen=screen)) as memory:
        failed = memory.write("Likes tea.", context=HERE)
        counted = rows(memory)
        assert memory.write("Likes tea.", context=HERE) == failed  # still down: no second row
        assert rows(memory) == counted
        down[0] = False
        assert memory.write("Likes tea.", context=HERE).ruling == "accepted"
        assert failed.ruling == "failed"


def test_what_was_rejected_is_accepted_when_the_rule_would_pass_it_now() -> None:
    with memory_for_tests(config=MemoryConfig(max_content_chars=10)) as memory:
        assert memory.write("Likes green tea.", context=HERE).ruling == "rejected"
        roomy = memory_with(memory, MemoryConfig())
        assert roomy.write("Likes green tea.", context=HERE).ruling == "accepted"


def memory_with(memory: Memory, config: MemoryConfig) -> Memory:
    from dataclasses import replace

    return Memory(replace(memory.backend, config=config))


def test_what_was_forgotten_stays_forgotten_when_it_is_said_again(memory: Memory) -> None:
    first = city(memory, "Paris")
    memory.forget(str(first.record_id), context=HERE, reason="asked")
    counted = rows(memory)
    assert city(memory, "Paris").reason == "tombstoned"
    assert rows(memory) == counted


@given(said=st.lists(st.sampled_from(["Paris", "Rome", "Oslo"]), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_whatever_was_said_last_holds_and_every_receipt_was_true_when_given(
    said: list[str],
) -> None:
    with memory_for_tests() as memory:
        for name in said:
            receipt = city(memory, name)
            assert resolved(memory) == name
            assert record(memory, receipt).status == "active"
            assert record(memory, receipt).content == f"Lives in {name}"


# ---------------------------------------------------------------- the time of what is said


def test_an_older_fact_that_is_imported_later_does_not_win(memory: Memory) -> None:
    now = city(memory, "Rome", IN_2026)
    old = city(memory, "Paris", IN_2023)
    assert (old.ruling, old.reason) == ("accepted", "already_replaced: claim_changed")
    kept = record(memory, old)
    assert (kept.status, kept.replaced_by) == ("superseded", now.record_id)
    assert resolved(memory) == "Rome"


def test_an_older_fact_is_readable_and_never_recalled(memory: Memory) -> None:
    city(memory, "Rome", IN_2026)
    old = city(memory, "Paris", IN_2023)
    recalled = memory.recall("Lives in Paris", context=HERE, k=5)
    assert old.record_id not in {c.record_id for c in recalled.candidates}
    assert record(memory, old).content == "Lives in Paris"


def test_an_import_that_is_made_again_adds_nothing(memory: Memory) -> None:
    city(memory, "Rome", IN_2026)
    first = city(memory, "Paris", IN_2023)
    counted = rows(memory)
    assert city(memory, "Paris", IN_2023).record_id == first.record_id
    assert rows(memory) == counted


def test_the_order_of_an_import_does_not_matter() -> None:
    years = {"Oslo": 2021, "Paris": 2023, "Rome": 2026}
    for order in (["Rome", "Oslo", "Paris"], ["Oslo", "Rome", "Paris"], ["Paris", "Rome", "Oslo"]):
        with memory_for_tests() as memory:
            for name in order:
                city(memory, name, datetime(years[name], 5, 1, tzinfo=UTC))
            assert resolved(memory) == "Rome"


def test_of_two_that_became_true_at_once_the_one_stored_later_holds(memory: Memory) -> None:
    city(memory, "Rome", IN_2026)
    assert city(memory, "Paris", IN_2026).ruling == "superseded"
    assert resolved(memory) == "Paris"


def test_a_pin_wins_over_time(memory: Memory) -> None:
    city(memory, "Rome", IN_2026)
    pinned = memory.write(
        "Lives in Paris", context=HERE, claim={"city": "Paris"}, occurred_at=IN_2023, pinned=True
    )
    assert pinned.ruling == "superseded"
    assert resolved(memory) == "Paris"


# ---------------------------------------------------------------- a change of mind


def likings(memory: Memory) -> set[str]:
    found = memory.recall("coriander", context=HERE, k=9)
    return {c.content for c in found.candidates}


def said_in(memory: Memory, session: int, text: str, **more: object) -> WriteReceipt:
    context = MemoryContext("ws_8841", f"s_{session}")
    return memory.write(text, context=context, kind="preference", **more)  # pyright: ignore


def test_a_change_of_mind_and_back_leaves_the_last_word(memory: Memory) -> None:
    texts = ("Loves coriander", "Hates coriander", "Loves coriander")
    receipts = [said_in(memory, n, text) for n, text in enumerate(texts)]
    assert [r.ruling for r in receipts] == ["accepted", "superseded", "superseded"]
    assert [r.reason for r in receipts] == [None, "opposite", "opposite"]
    assert likings(memory) == {"Loves coriander"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Eats meat", "No longer eats meat"),
        ("Use bullet points", "Don't use bullet points"),
        ("Can't stand long meetings", "Enjoys long meetings"),
        ("Not vegan", "Vegan"),
    ],
)
def test_a_no_to_what_was_said_replaces_it(memory: Memory, before: str, after: str) -> None:
    first = said_in(memory, 1, before)
    second = said_in(memory, 2, after)
    assert (second.ruling, second.replaced_id) == ("superseded", first.record_id)


def test_an_older_opposite_does_not_replace_the_newer(memory: Memory) -> None:
    said_in(memory, 1, "Hates coriander", occurred_at=IN_2026)
    old = said_in(memory, 2, "Loves coriander", occurred_at=IN_2023)
    assert old.reason == "already_replaced: opposite"
    assert likings(memory) == {"Hates coriander"}


def test_an_opposite_in_another_scope_is_another_memory(memory: Memory) -> None:
    said_in(memory, 1, "Loves coriander", scope={"meal": "lunch"})
    assert said_in(memory, 2, "Hates coriander", scope={"meal": "dinner"}).ruling == "accepted"


def test_a_pinned_memory_is_not_replaced_by_its_opposite(memory: Memory) -> None:
    pinned = said_in(memory, 1, "Loves coriander", pinned=True)
    refused = said_in(memory, 2, "Hates coriander")
    assert (refused.ruling, refused.reason) == (
        "rejected",
        f"contradicts_pinned: {pinned.record_id}",
    )


def test_other_things_are_no_change_of_mind(memory: Memory) -> None:
    said_in(memory, 1, "Loves coriander")
    assert said_in(memory, 2, "Hates parsley").ruling == "accepted"
    assert said_in(memory, 3, "Ann hates coriander").ruling == "accepted"


def test_a_day_between_is_enough(memory: Memory) -> None:
    said_in(memory, 1, "Loves coriander", occurred_at=IN_2026)
    said_in(memory, 2, "Hates coriander", occurred_at=IN_2026 + timedelta(days=1))
    assert likings(memory) == {"Hates coriander"}


# ---------------------------------------------------------------- the same in other words


def test_near_duplicates_are_merged_by_the_real_model_only_where_they_say_the_same(
    minilm: Embedder,
) -> None:
    with memory_for_tests(embedder=minilm) as memory:

        def merged(pair: tuple[str, str], workspace: str) -> bool:
            context = MemoryContext(workspace, "s_1")
            one, other = memory.write_many(list(pair), context=context)
            return other.record_id == one.record_id

        same = [merged(pair, f"same_{n}") for n, pair in enumerate(SAME)]
        different = [merged(pair, f"different_{n}") for n, pair in enumerate(DIFFERENT)]
    assert (len(same), sum(same) >= 20) == (30, True)
    assert (len(different) >= 30, sum(different)) == (True, 0)
