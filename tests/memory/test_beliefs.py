"""Beliefs through ``Memory``: what was observed, what is believed, and what is answered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplugin import Memory, MemoryConfig, MemoryContext, Resolved
from memplugin.errors import ConfigError, RecordNotFound, StoreError
from memplugin.storage.embedding.embedder import SentenceTransformerEmbedder
from memplugin.testing import InMemoryIndex, SpanCapture, memory_for_tests

PLUMBING = {"trade": "plumbing"}
TOILETS = {**PLUMBING, "problem": "toilet"}
DRAINS = {**PLUMBING, "problem": "drain"}
UNION_PL = "221-229 Union Pl"
WASPS = {"property": UNION_PL, "trade": "pest"}


def order(number: int, scope: dict[str, str] | None = None, **fields: Any) -> MemoryContext:
    """The context of one work order: each is a task of its own."""
    return MemoryContext("ws", f"s_{number}", task_id=f"wo_{number}", scope=scope or {}, **fields)


def told(memory: Memory, content: str = "Yonic handles all plumbing.", **fields: Any) -> str:
    values: dict[str, Any] = {"kind": "belief", "scope": PLUMBING, "claim": {"vendor_id": "yonic"}}
    receipt = memory.write(content, context=order(0), **{**values, **fields})
    assert receipt.ruling == "accepted", receipt
    assert receipt.record_id
    return receipt.record_id


def confidence(memory: Memory, record_id: str) -> float:
    return memory.get(record_id, context=order(0)).confidence


def vendor(memory: Memory, scope: dict[str, str]) -> Any:
    found = memory.resolve("vendor_id", context=order(99, scope))
    return found.value if found else None


def work_orders(memory: Memory, plumber: str) -> None:
    """Ten jobs that the plumber did, and nine toilets and drains that went to others."""
    for number in range(19):
        if number % 2 == 0:
            memory.observe(plumber, context=order(number + 1, PLUMBING), weight=0.4)
            continue
        where, who = (TOILETS, "abraham") if number % 4 == 1 else (DRAINS, "the_drain_specialist")
        memory.observe(
            plumber,
            context=order(number + 1, where),
            supports=False,
            weight=0.4,
            claim={"vendor_id": who},
        )


# ---------------------------------------------------------------- the plumber


def test_nine_exceptions_among_ten_confirmations_leave_the_rule_and_make_the_exceptions(
    memory: Memory,
) -> None:
    plumber = told(memory, confidence=0.81)
    work_orders(memory, plumber)
    # (0.81 * 4 + 10 * 0.4 * 0.5) / (4 + 2)
    assert confidence(memory, plumber) == pytest.approx(5.24 / 6)
    assert memory.get(plumber, context=order(0)).evidence_count == 19
    assert vendor(memory, PLUMBING) == "yonic"
    assert vendor(memory, {**PLUMBING, "problem": "heater"}) == "yonic"
    assert vendor(memory, TOILETS) == "abraham"
    assert vendor(memory, {**DRAINS, "property": UNION_PL}) == "the_drain_specialist"
    assert vendor(memory, {"trade": "pest"}) is None


def test_the_exceptions_are_as_sure_as_they_were_often_met(memory: Memory) -> None:
    work_orders(memory, told(memory, confidence=0.81))
    toilets = memory.resolve("vendor_id", context=order(99, TOILETS))
    drains = memory.resolve("vendor_id", context=order(99, DRAINS))
    assert toilets is not None
    assert drains is not None
    # five toilets and four drains: (0.5 * 4 + n * 0.2) / (4 + n * 0.2)
    assert (toilets.confidence, drains.confidence) == (
        pytest.approx(3.0 / 5.0),
        pytest.approx(2.8 / 4.8),
    )
    assert toilets.scope == TOILETS
    assert memory.statistics()["rows"]["memory_records"] == 3


def test_under_the_old_rule_the_same_evidence_drags_the_plumber_down() -> None:
    config = MemoryConfig(floor=-1.0, confidence_policy="ema")
    with memory_for_tests(config=config) as memory:
        plumber = told(memory, confidence=0.81)
        work_orders(memory, plumber)
        assert confidence(memory, plumber) == pytest.approx(0.50, abs=0.005)


def test_a_third_distinct_exception_lowers_the_rule(memory: Memory) -> None:
    plumber = told(memory, confidence=0.9)
    for number, problem in enumerate(["toilet", "drain", "toilet", "heater"], 1):
        moved = memory.observe(
            plumber, context=order(number, {**PLUMBING, "problem": problem}), supports=False
        )
        # three scopes, each once: 3.6 / (4 + 3 * 0.5)
        assert moved.confidence == pytest.approx(0.9 if number < 4 else 3.6 / 5.5)


def test_forty_routine_confirmations_reach_nine_in_ten(memory: Memory) -> None:
    plumber = told(memory, confidence=0.5)
    for number in range(1, 41):
        moved = memory.observe(plumber, context=order(number, PLUMBING))
    assert moved.confidence == pytest.approx(22 / 24)


def test_under_ema_routine_confirmations_settle_at_six_in_ten() -> None:
    with memory_for_tests(config=MemoryConfig(confidence_policy="ema")) as memory:
        plumber = told(memory, confidence=0.9)
        for number in range(1, 151):
            moved = memory.observe(plumber, context=order(number, PLUMBING), weight=0.4)
    assert moved.confidence == pytest.approx(0.6, abs=0.001)


# ---------------------------------------------------------------- one row, all evidence


def test_a_duplicate_in_other_words_attaches_and_moves_confidence(memory: Memory) -> None:
    plumber = told(memory, confidence=0.8)
    again = memory.write(
        "Yonic handles plumbing, disposals too.",
        context=order(1),
        kind="belief",
        scope=PLUMBING,
        claim={"vendor_id": "Yonic"},
    )
    assert (again.ruling, again.record_id, again.reason) == ("attached", plumber, "same_claim")
    record = memory.get(plumber, context=order(0))
    # (0.8 * 4 + 0.5) / 4.5
    assert (record.evidence_count, record.confidence) == (1, pytest.approx(3.7 / 4.5))
    assert memory.statistics()["rows"]["memory_records"] == 1
    [piece] = memory.observations(plumber, context=order(0))
    assert (piece.proposal_id, piece.session_id) == (again.proposal_id, "s_1")


def test_a_near_duplicate_without_a_claim_attaches_too(memory: Memory) -> None:
    first = told(memory, "reports are sent on Friday", claim=None)
    again = memory.write(
        "on Friday reports are sent", context=order(1), kind="belief", scope=PLUMBING
    )
    assert (again.ruling, again.record_id) == ("attached", first)
    assert memory.get(first, context=order(0)).evidence_count == 1


def test_the_same_in_another_scope_is_another_record(memory: Memory) -> None:
    told(memory)
    other = memory.write(
        "Yonic handles all plumbing.",
        context=order(1),
        kind="belief",
        scope={"trade": "heating"},
        claim={"vendor_id": "yonic"},
    )
    assert other.ruling == "accepted"
    assert memory.statistics()["rows"]["memory_records"] == 2


def test_a_node_that_runs_again_counts_once(memory: Memory) -> None:
    plumber = told(memory, confidence=0.5)
    for _ in range(3):
        for supports, claim in ((True, None), (False, {"vendor_id": "abraham"})):
            memory.observe(plumber, context=order(1, TOILETS), supports=supports, claim=claim)
    assert memory.get(plumber, context=order(0)).evidence_count == 2
    rows = memory.statistics()["rows"]
    assert (rows["evidence"], rows["memory_records"], rows["proposals"]) == (3, 2, 2)


def test_a_note_makes_the_same_observation_count_again(memory: Memory) -> None:
    plumber = told(memory)
    for note in (None, "in the morning", "in the afternoon", "in the morning"):
        moved = memory.observe(plumber, context=order(1, PLUMBING), note=note)
    assert moved.evidence_count == 3


# ---------------------------------------------------------------- what holds instead


def test_an_exception_without_a_claim_says_so_and_is_one_record(memory: Memory) -> None:
    plumber = told(memory)
    for number, note in enumerate([None, "He would not come.", "Again nobody came."], 1):
        memory.observe(plumber, context=order(number, TOILETS), supports=False, note=note)
    found = memory.recall("who does toilets", context=order(9, TOILETS))
    exception = next(c for c in found.candidates if c.claim is None)
    assert exception.content == (
        "An exception where problem is toilet. Not so there: Yonic handles all plumbing."
    )
    record = memory.get(exception.record_id, context=order(0))
    assert (record.evidence_count, record.confidence) == (3, pytest.approx(3.5 / 5.5))
    # It says what does not hold and not what does.
    assert vendor(memory, TOILETS) == "yonic"


def test_the_exception_is_ranked_before_the_rule_where_it_applies(memory: Memory) -> None:
    work_orders(memory, told(memory, confidence=0.81))
    found = memory.recall("plumbing: whom to send?", context=order(99, TOILETS))
    assert [(c.claim or {}).get("vendor_id") for c in found.injected] == ["abraham", "yonic"]
    left_out = next(c for c in found.candidates if not c.injected)
    assert (left_out.claim, left_out.cut) == (
        {"vendor_id": "the_drain_specialist"},
        "inapplicable_scope",
    )


def test_another_value_for_an_exception_wears_it_down_before_it_replaces_it(
    memory: Memory,
) -> None:
    plumber = told(memory)
    said = {"supports": False, "salience": 1.0}
    memory.observe(plumber, context=order(1, TOILETS), claim={"vendor_id": "abraham"}, **said)
    values = []
    for number in range(2, 5):
        memory.observe(plumber, context=order(number, TOILETS), claim={"vendor_id": "bob"}, **said)
        values.append(vendor(memory, TOILETS))
    # 3/5 for Abraham, then 3/6, then 3/7 < 0.5: the next observation replaces him
    assert values == ["abraham", "abraham", "bob"]


def test_another_claim_in_the_same_scope_replaces_the_record_once_it_is_not_believed(
    memory: Memory,
) -> None:
    plumber = told(memory, confidence=0.7)
    said = {"supports": False, "salience": 1.0, "claim": {"vendor_id": "abraham"}}
    answers = []
    for number in (1, 2):
        record = memory.observe(plumber, context=order(number, PLUMBING), **said)
        answers.append((record.status, vendor(memory, PLUMBING)))
    # 2.8 / 5 = 0.56, then 2.8 / 6 < 0.5
    assert answers == [("active", "yonic"), ("superseded", "abraham")]
    with pytest.raises(StoreError, match="is superseded, and nothing about it moves: use m_"):
        memory.observe(plumber, context=order(3, PLUMBING))


def test_what_an_observation_made_is_among_the_writes_of_its_task(memory: Memory) -> None:
    plumber = told(memory)
    memory.observe(
        plumber, context=order(7, TOILETS), supports=False, claim={"vendor_id": "abraham"}
    )
    [write] = memory.task_record("wo_7", workspace_id="ws").writes
    assert (write.gate, write.claim, write.scope) == ("accepted", {"vendor_id": "abraham"}, TOILETS)


def test_a_forgotten_exception_does_not_come_back_from_the_same_session(memory: Memory) -> None:
    plumber = told(memory)
    said = {"supports": False, "claim": {"vendor_id": "abraham"}}
    memory.observe(plumber, context=order(1, TOILETS), **said)
    made = memory.resolve("vendor_id", context=order(1, TOILETS))
    assert made is not None
    memory.forget(made.record_id, context=order(1), reason="asked")
    memory.observe(plumber, context=order(1, TOILETS, attempt=2), **said)
    assert vendor(memory, TOILETS) == "yonic"
    memory.observe(plumber, context=order(2, TOILETS), **said)  # observed anew, elsewhere
    assert vendor(memory, TOILETS) == "abraham"


def test_what_quotes_a_forgotten_record_is_forgotten_with_it_and_leaves_the_index() -> None:
    index = InMemoryIndex()
    with memory_for_tests(index=index) as memory:
        plumber = told(memory)
        memory.observe(plumber, context=order(1, TOILETS), supports=False)
        found = memory.recall("toilets", context=order(2, TOILETS)).injected
        ids = [candidate.record_id for candidate in found]
        assert len(index.fetch("ws", ids)) == 2
        memory.forget(plumber, context=order(2), reason="asked")
        assert memory.recall("toilets", context=order(3, TOILETS)).candidates == ()
        assert index.fetch("ws", ids) == {}


# ---------------------------------------------------------------- pins


def test_a_pinned_belief_keeps_all_evidence_and_never_moves(memory: Memory) -> None:
    plumber = told(memory, confidence=0.7)
    assert memory.pin(plumber, context=order(0)).pinned
    for number in range(1, 6):
        moved = memory.observe(plumber, context=order(number, PLUMBING), supports=False)
    assert (moved.confidence, moved.evidence_count) == (0.7, 5)
    free = memory.unpin(plumber, context=order(0))
    # 2.8 / (4 + 2.5)
    assert (free.pinned, free.confidence) == (False, pytest.approx(2.8 / 6.5))


steps = st.lists(
    st.tuples(
        st.sampled_from(["observe", "write", "pin"]),
        st.booleans(),
        st.sampled_from([PLUMBING, TOILETS, DRAINS, {}]),
    ),
    max_size=12,
)


@given(steps)
@settings(max_examples=25, deadline=None)
def test_nothing_that_is_told_or_observed_moves_a_pin(drawn: list[Any]) -> None:
    with memory_for_tests() as memory:
        plumber = told(memory, confidence=0.9, pinned=True)
        for number, (step, supports, scope) in enumerate(drawn, 1):
            if step == "pin":
                memory.pin(plumber, context=order(number))
            elif step == "write":
                memory.write(
                    f"The plumber is {number}.",
                    context=order(number),
                    scope=PLUMBING,
                    claim={"vendor_id": "yonic" if supports else "other"},
                )
            else:
                claim = None if supports else {"vendor_id": "other"}
                memory.observe(
                    plumber, context=order(number, scope), supports=supports, claim=claim
                )
        record = memory.get(plumber, context=order(0))
        assert (record.status, record.pinned, record.confidence) == ("active", True, 0.9)


# ---------------------------------------------------------------- resolve


def test_resolve_says_which_record_answers_and_how_sure_it_is(memory: Memory) -> None:
    plumber = told(memory, confidence=0.8)
    assert memory.resolve("vendor_id", context=order(1, TOILETS)) == Resolved(
        field="vendor_id",
        value="yonic",
        record_id=plumber,
        scope=PLUMBING,
        confidence=0.8,
        pinned=False,
    )


def test_resolve_answers_nobody_with_another_users_or_workspaces_claims(memory: Memory) -> None:
    alice = MemoryContext("ws", "s_1", user_id="alice")
    memory.write("tea", context=alice, claim={"drink": "tea"})
    assert memory.resolve("drink", context=MemoryContext("ws", "s_2", user_id="bob")) is None
    assert memory.resolve("drink", context=MemoryContext("other", "s_2", user_id="alice")) is None
    found = memory.resolve("drink", context=alice)
    assert found is not None
    assert found.value == "tea"


@pytest.mark.parametrize("field", ["", "  ", None, 3])
def test_a_field_without_a_name_is_refused(memory: Memory, field: Any) -> None:
    with pytest.raises(ConfigError, match="give the name of a claim's field"):
        memory.resolve(field, context=order(1))


def test_observing_what_is_not_there_says_so(memory: Memory) -> None:
    for act in (memory.observe, memory.pin, memory.unpin, memory.observations):
        with pytest.raises(RecordNotFound, match="m_none"):
            act("m_none", context=order(1))


def test_observations_are_in_the_order_in_which_they_count(memory: Memory) -> None:
    plumber = told(memory)
    for number, salience in enumerate([0.1, 0.9, 0.5], 1):
        memory.observe(plumber, context=order(number, PLUMBING), salience=salience)
    found = memory.observations(plumber, context=order(9))
    assert [piece.salience for piece in found] == [0.9, 0.5, 0.1]


async def test_the_async_twins_do_the_same(memory: Memory) -> None:
    plumber = told(memory, confidence=0.5)
    moved = await memory.aobserve(plumber, context=order(1, PLUMBING))
    assert moved.confidence == pytest.approx(2.5 / 4.5)
    assert (await memory.apin(plumber, context=order(1))).pinned
    assert not (await memory.aunpin(plumber, context=order(1))).pinned
    found = await memory.aresolve("vendor_id", context=order(1, PLUMBING))
    assert found is not None
    assert found.record_id == plumber
    assert len(await memory.aobservations(plumber, context=order(1))) == 1


# ---------------------------------------------------------------- spans


def test_an_observation_is_on_its_span_with_what_it_made() -> None:
    capture = SpanCapture()
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        plumber = told(memory, confidence=0.8)
        capture.clear()
        memory.observe(plumber, context=order(1, PLUMBING), weight=0.4)
        memory.observe(
            plumber, context=order(2, TOILETS), supports=False, claim={"vendor_id": "abraham"}
        )
        memory.pin(plumber, context=order(3))
        made = memory.resolve("vendor_id", context=order(3, TOILETS))
    plain, exception, pin = capture.attributes("upsert_memory")
    assert made is not None
    assert plain["memplugin.task.id"] == "wo_1"
    assert plain["gen_ai.operation.name"] == "upsert_memory"
    assert plain["gen_ai.memory.record.id"] == plumber
    assert plain["memplugin.observation.supports"] is True
    assert plain["memplugin.observation.weight"] == pytest.approx(0.2)
    assert plain["memplugin.belief.confidence"] == pytest.approx(3.4 / 4.2)
    assert plain["memplugin.write.count"] == 0
    assert exception["memplugin.observation.supports"] is False
    assert exception["memplugin.write.accepted"] == 1
    assert exception["memplugin.write.record_ids"] == (made.record_id,)
    assert (pin["memplugin.belief.pinned"], pin["memplugin.belief.evidence_count"]) == (True, 2)
    assert "memplugin.observation.supports" not in pin


def test_a_refused_observation_marks_its_span_and_stores_nothing() -> None:
    capture = SpanCapture()
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        plumber = told(memory)
        with pytest.raises(ConfigError):
            memory.observe(plumber, context=order(1, {"trade": "pest"}))
        assert memory.statistics()["rows"]["evidence"] == 0
    assert capture.attributes("upsert_memory")[-1]["error.type"] == "ConfigError"


# ---------------------------------------------------------------- ranking


def wasp_case(memory: Memory) -> tuple[str, str]:
    """The two beliefs of the wasp case, with the evidence that gives their numbers."""
    manager = told(
        memory,
        "The onsite manager coordinates visits at 221-229 Union Pl.",
        scope={"property": UNION_PL},
        claim=None,
        confidence=0.523,
    )
    # (0.523 * 4 + 0.5) / 4.5 = 0.576
    moved = memory.observe(manager, context=order(1, {"property": UNION_PL}))
    assert (round(moved.confidence, 3), moved.evidence_count) == (0.576, 1)
    primex = told(
        memory,
        "Primex does all pest work, before Dever.",
        scope={"trade": "pest"},
        claim={"vendor_id": "primex"},
        confidence=0.806,
    )
    return manager, primex


@pytest.mark.parametrize(
    "question",
    [
        "Wasp nest above the front door. Which vendor do we send?",
        "Wasps at 221-229 Union Pl: whom to send?",
        "Who handles pest control at 221-229 Union Pl?",
        "wasps",
    ],
)
def test_the_wasp_case_has_its_old_scores_and_balanced_puts_the_right_belief_first(
    question: str, minilm: SentenceTransformerEmbedder
) -> None:
    with memory_for_tests(embedder=minilm, config=MemoryConfig()) as memory:
        manager, primex = wasp_case(memory)
        old = memory.recall(question, context=order(9, WASPS), policy="evidence_bonus")
        new = memory.recall(question, context=order(9, WASPS), policy="balanced")
    assert [(c.record_id, round(c.score, 2)) for c in old.candidates] == [
        (manager, 1.91),
        (primex, 0.81),
    ]
    assert new.injected[0].record_id == primex


def test_linked_records_are_found_whatever_the_question_under_the_bonus(memory: Memory) -> None:
    manager = told(memory, "zebra", scope={"property": UNION_PL}, claim=None, confidence=0.5)
    memory.write_many([f"revenue by region {n}" for n in range(60)], context=order(0))
    found = memory.recall("revenue", context=order(9, WASPS), policy="evidence_bonus")
    first = found.candidates[0]
    assert (first.record_id, first.sources) == (manager, ("structural",))
    elsewhere = memory.recall("revenue", context=order(9), policy="evidence_bonus")
    assert manager not in {c.record_id for c in elsewhere.injected}


def test_a_linked_record_of_another_user_is_never_brought(memory: Memory) -> None:
    bob = MemoryContext("ws", "s_0", user_id="bob", scope={"property": UNION_PL})
    memory.write("the gate's code", context=bob, scope={"property": UNION_PL})
    alice = MemoryContext("ws", "s_1", user_id="alice", scope={"property": UNION_PL})
    found = memory.recall("the gate's code", context=alice, policy="evidence_bonus")
    assert found.candidates == ()


def test_what_an_earlier_version_ranked_is_explained_by_that_version(memory: Memory) -> None:
    default = told(memory, "plumbing by Yonic", confidence=0.9, scope={}, claim=None)
    exception = told(memory, "by somebody else", confidence=0.9, claim=None)
    old = memory.recall("plumbing Yonic", context=order(9, PLUMBING), policy="balanced@1")
    new = memory.recall("plumbing Yonic", context=order(9, PLUMBING))
    assert (old.policy, new.policy) == ("balanced@1", "balanced@2")
    for found in (old, new):
        given = {c.record_id: c.rank for c in found.candidates}
        for record_id in (default, exception):
            assert memory.explain(record_id, found).rank == given[record_id]
