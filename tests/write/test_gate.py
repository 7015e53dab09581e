from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin.config import MemoryConfig
from memplugin.records import Known, MemoryRecord, Proposal, Tombstone
from memplugin.write.gate import BUILT_IN_CHECKS, Amend, Attach, Pass, Reject, Supersede, rule

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
CONFIG = MemoryConfig()
NOTHING = Known()


def outcome(ruling):
    return ruling.ruling, ruling.reason


# ---------------------------------------------------------------- terminal states


def test_a_proposal_nothing_speaks_against_is_accepted_under_its_own_record_id(propose):
    ruling = rule(propose(id="p_77"), NOTHING, CONFIG)

    assert (ruling.ruling, ruling.reason, ruling.record_id) == ("accepted", None, "m_77")


@pytest.mark.parametrize("content", ["", "  \n\t "])
def test_an_empty_content_is_rejected(propose, content):
    assert outcome(rule(propose(content), NOTHING, CONFIG)) == ("rejected", "empty")


def test_an_oversized_content_is_rejected_with_both_numbers(propose):
    ruling = rule(propose("a" * 11), NOTHING, MemoryConfig(max_content_chars=10))

    assert ruling.reason == "oversized: 11 characters, at most 10"


def test_a_content_of_exactly_the_limit_passes(propose):
    ruling = rule(propose("a" * 10), NOTHING, MemoryConfig(max_content_chars=10))

    assert ruling.ruling == "accepted"


def test_low_confidence_is_rejected_with_both_numbers(propose):
    ruling = rule(propose(confidence=0.31), NOTHING, CONFIG)

    assert ruling.reason == "low_confidence: 0.31 < 0.5"


def test_a_confidence_at_the_threshold_passes(propose):
    assert rule(propose(confidence=0.5), NOTHING, CONFIG).ruling == "accepted"


def test_a_malformed_item_fails_with_its_defect_and_is_asked_nothing(propose):
    def never(proposal, known, config):
        raise AssertionError

    ruling = rule(propose(defect="invalid: confidence"), NOTHING, CONFIG, [never])

    assert outcome(ruling) == ("failed", "invalid: confidence")


# ---------------------------------------------------------------- quotes


@pytest.mark.parametrize(
    ("quote", "said"),
    [
        ("I prefer tea", "Well, i  PREFER\ntea."),
        ("\u201cI\u2019m vegan\u201d", "I'm vegan, by the way"),
        ("caf\u00e9 at nine", "the cafe\u0301 at nine"),
        ("紅茶が好き", "私は紅茶が好きです"),
    ],
)
def test_a_quote_is_found_whatever_its_blanks_case_and_typography(propose, quote, said):
    assert rule(propose(quote=quote, said_in=said), NOTHING, CONFIG).ruling == "accepted"


@pytest.mark.parametrize(
    ("quote", "said"),
    [
        ("I prefer coffee", "I prefer tea"),
        ("tea", "the team met"),
        ("", "I prefer tea"),
        ('""', "I prefer tea"),
        (None, "I prefer tea"),
        ("I prefer tea", None),
        ("a.c", "abc"),
    ],
)
def test_a_memory_that_nobody_trusted_said_is_rejected(propose, quote, said):
    ruling = rule(propose(quote=quote, said_in=said), NOTHING, CONFIG)

    assert outcome(ruling) == ("rejected", "quote_not_found")


def test_what_a_caller_writes_needs_no_quote(propose):
    ruling = rule(propose(operation="write", quote=None, said_in=None), NOTHING, CONFIG)

    assert ruling.ruling == "accepted"


# ---------------------------------------------------------------- forgotten


def forgotten(*, turn=None, session="s_0", at=NOON):
    return [Tombstone(session_id=session, turn_id=turn, forgotten_at=at)]


def test_a_forgotten_memory_does_not_come_back_from_its_turn(propose):
    later = NOON + timedelta(days=30)
    known = Known(tombstones=forgotten(turn="t_1"))

    assert rule(propose(turn_id="t_1", occurred_at=later), known, CONFIG).reason == "tombstoned"


def test_a_forgotten_memory_does_not_come_back_in_its_session(propose):
    later = NOON + timedelta(minutes=5)
    known = Known(tombstones=forgotten(session="s_1"), session_id="s_1")

    assert rule(propose(occurred_at=later), known, CONFIG).reason == "tombstoned"


def test_a_forgotten_memory_does_not_come_back_from_older_history(propose):
    earlier = NOON - timedelta(seconds=1)
    known = Known(tombstones=forgotten(turn="t_0"), session_id="s_9")

    assert rule(propose(occurred_at=earlier), known, CONFIG).reason == "tombstoned"


def test_a_forgotten_memory_may_be_told_anew_later_and_elsewhere(propose):
    later = NOON + timedelta(days=1)
    known = Known(tombstones=forgotten(turn="t_0"), session_id="s_9")

    assert rule(propose(turn_id="t_9", occurred_at=later), known, CONFIG).ruling == "accepted"


def test_a_tombstoned_proposal_does_not_keep_the_text_that_was_forgotten(propose):
    known = Known(tombstones=forgotten(turn="t_1"))
    kept = rule(propose("The user lives at 5 Elm St.", turn_id="t_1"), known, CONFIG).proposal

    assert (kept.content, kept.quote, kept.said_in) == ("", None, None)


# ---------------------------------------------------------------- the screen


def screening(word):
    return MemoryConfig(screen=lambda text: f"holds {word}" if word in text else None)


def test_the_screen_rejects_with_its_reason(propose):
    ruling = rule(propose("The key is sk-123."), NOTHING, screening("sk-"))

    assert outcome(ruling) == ("rejected", "screened: holds sk-")


def test_what_the_screen_stops_is_not_kept_with_the_proposal(propose):
    kept = rule(propose("The key is sk-123.", id="p_5"), NOTHING, screening("sk-")).proposal

    assert kept.id == "p_5"
    assert "sk-123" not in str(kept)


@pytest.mark.parametrize(
    "field",
    [{"around": "see sk-1"}, {"source": "sk-1"}, {"claim": {"key": "sk-1"}}, {"quote": "sk-1"}],
)
def test_the_screen_sees_every_text_that_would_be_kept(propose, field):
    ruling = rule(
        propose("The key.", said_in="sk-1", **{"quote": "sk-1", **field}), NOTHING, screening("sk-")
    )

    assert ruling.reason == "screened: holds sk-"


def test_a_screen_that_says_neither_a_reason_nor_none_lets_nothing_through(propose):
    ruling = rule(propose(), NOTHING, MemoryConfig(screen=lambda _: False))

    assert outcome(ruling) == ("failed", "check is_screened: TypeError")


# ---------------------------------------------------------------- callers' checks


def test_a_check_that_raises_fails_its_proposal_and_names_itself(propose):
    def needs_network(proposal, known, config):
        raise ConnectionError("password=hunter2")

    ruling = rule(propose(), NOTHING, CONFIG, (*BUILT_IN_CHECKS, needs_network))

    assert outcome(ruling) == ("failed", "check needs_network: ConnectionError")


@pytest.mark.parametrize(("returned", "kind"), [(None, "NoneType"), (True, "bool")])
def test_a_check_that_returns_something_else_fails_its_proposal(propose, returned, kind):
    def mine(proposal, known, config):
        return returned

    assert rule(propose(), NOTHING, CONFIG, [mine]).reason == f"check mine: returned {kind}"


def test_an_amended_proposal_goes_on_under_the_same_id(propose):
    def shorter(proposal, known, config):
        return Amend(propose("Tea.", id="p_other"))

    ruling = rule(propose(id="p_1"), NOTHING, CONFIG, [shorter])

    assert (ruling.proposal.content, ruling.record_id) == ("Tea.", "m_1")


def test_checks_after_an_amendment_see_the_amended_proposal(propose):
    def empties(proposal, known, config):
        return Amend(propose(""))

    assert rule(propose(), NOTHING, CONFIG, [empties, *BUILT_IN_CHECKS]).reason == "empty"


@pytest.mark.parametrize("finding", [Attach("m_foreign", "mine"), Supersede("m_foreign", "mine")])
def test_a_check_can_not_point_at_a_record_that_is_not_known_here(propose, finding):
    def mine(proposal, known, config):
        return finding

    ruling = rule(propose(), NOTHING, CONFIG, [mine])

    assert outcome(ruling) == ("failed", "check mine: names an unknown record")


def test_the_first_check_that_objects_ends_it(propose):
    def first(proposal, known, config):
        return Reject("first")

    def second(proposal, known, config):
        return Reject("second")

    assert rule(propose(), NOTHING, CONFIG, [first, second]).reason == "first"


# ---------------------------------------------------------------- duplicates


def test_the_same_again_is_attached_and_not_stored_twice(propose, record):
    known = Known(same_content=[record("the user  LIKES tea.")])
    ruling = rule(propose("The user likes tea."), known, CONFIG)

    assert outcome(ruling) == ("attached", "exact_duplicate")
    assert ruling.record_id == "m_old"


def test_the_same_words_in_another_scope_are_another_memory(propose, record):
    known = Known(same_content=[record(scope={"user": "ann"})])

    assert rule(propose(scope={"user": "bob"}), known, CONFIG).ruling == "accepted"


def test_an_extracted_duplicate_of_another_kind_is_no_second_record(propose, record):
    known = Known(same_content=[record(kind="belief")])

    assert rule(propose(kind="fact"), known, CONFIG).reason == "exact_duplicate"


def test_what_a_caller_writes_under_another_kind_is_another_record(propose, record):
    known = Known(same_content=[record(kind="tip")])
    proposal = propose(operation="write", kind="fact", quote=None, said_in=None)

    assert rule(proposal, known, CONFIG).ruling == "accepted"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"kind": "fact"}, {"kind": "instruction"}, "exact_duplicate: now standing"),
        ({}, {"pinned": True}, "exact_duplicate: now pinned"),
        ({}, {"claim": {"drink": "tea"}}, "exact_duplicate: now with a claim"),
    ],
)
def test_a_duplicate_that_adds_something_takes_the_place_of_the_old(
    propose, record, before, after, reason
):
    ruling = rule(propose(**after), Known(same_content=[record(**before)]), CONFIG)

    assert outcome(ruling) == ("superseded", reason)
    assert (ruling.record_id, ruling.replaced_id) == ("m_1", "m_old")


def test_a_duplicate_does_not_undo_a_pin(propose, record):
    known = Known(same_content=[record(kind="fact", pinned=True)])

    assert rule(propose(kind="instruction"), known, CONFIG).ruling == "attached"


def near(record, cosine=0.97):
    return Known(near=[(record, cosine)])


def test_the_same_in_other_words_is_attached_with_its_cosine(propose, record):
    known = near(record("The user enjoys tea."))

    assert outcome(rule(propose("The user likes tea."), known, CONFIG)) == (
        "attached",
        "near_duplicate: 0.97",
    )


def test_below_the_threshold_nothing_is_taken_for_the_same(propose, record):
    known = near(record("The user enjoys tea."), 0.7999)

    assert rule(propose("The user likes tea."), known, CONFIG).ruling == "accepted"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice likes tea.", "Bob likes tea."),
        ("The report is due on the 3rd.", "The report is due on the 13th."),
        ("The limit is 1,000 euros.", "The limit is 10,000 euros."),
        ("The user's brother lives here.", "The user's sister lives here."),
        ("the user calls on monday.", "the user calls on tuesday."),
        ("Report net of tax.", "Report gross of tax."),
        ("The user has two cats.", "The user has three cats."),
        ("Use build v2.1.", "Use build v2.2."),
    ],
)
def test_texts_close_in_vector_space_that_say_something_else_stay_apart(
    propose, record, one, other
):
    proposal = propose(one, operation="write", quote=None, said_in=None)

    assert rule(proposal, near(record(other), 0.99), CONFIG).ruling == "accepted"


@pytest.mark.parametrize(
    "difference", [{"scope": {"user": "ann"}}, {"claim": {"drink": "tea"}}, {"kind": "fact"}]
)
def test_a_near_text_of_another_scope_claim_or_kind_stays_apart(propose, record, difference):
    known = near(record("The user enjoys tea.", **difference))

    assert rule(propose("The user likes tea."), known, CONFIG).ruling == "accepted"


# ---------------------------------------------------------------- claims


def vendor(make, name, **fields):
    return make(f"Use {name}.", claim={"vendor_id": name}, **fields)


def test_another_value_for_the_same_field_replaces_the_old(propose, record):
    known = Known(same_slot=[vendor(record, "acme")])
    ruling = rule(vendor(propose, "primex"), known, CONFIG)

    assert outcome(ruling) == ("superseded", "claim_changed")
    assert (ruling.record_id, ruling.replaced_id) == ("m_1", "m_old")


def test_another_value_in_another_scope_replaces_nothing(propose, record):
    known = Known(same_slot=[vendor(record, "acme", scope={"trade": "pest"})])

    assert rule(vendor(propose, "primex"), known, CONFIG).ruling == "accepted"


def test_another_value_against_a_pinned_one_is_rejected(propose, record):
    known = Known(same_slot=[vendor(record, "acme", pinned=True)])

    assert rule(vendor(propose, "primex"), known, CONFIG).reason == "contradicts_pinned: m_old"


def test_a_pinned_value_replaces_a_pinned_one(propose, record):
    known = Known(same_slot=[vendor(record, "acme", pinned=True)])

    assert rule(vendor(propose, "primex", pinned=True), known, CONFIG).reason == "claim_changed"


def test_the_same_value_in_other_words_is_attached(propose, record):
    known = Known(same_slot=[record("Acme is the vendor.", claim={"vendor_id": "Acme"})])

    assert outcome(rule(vendor(propose, "acme"), known, CONFIG)) == ("attached", "same_claim")


def test_a_near_text_with_another_value_replaces_and_is_not_attached(propose, record):
    old = vendor(record, "acme")
    known = Known(same_slot=[old], near=[(old, 0.99)])

    assert rule(vendor(propose, "acmex"), known, CONFIG).ruling == "superseded"


@pytest.mark.parametrize(
    ("old", "new", "ruling"),
    [
        (1, 1.0, "attached"),
        (1, True, "superseded"),
        (0, False, "superseded"),
        ("1", 1, "superseded"),
    ],
)
def test_values_are_compared_as_json_and_not_as_python(propose, record, old, new, ruling):
    known = Known(same_slot=[record("Old words.", claim={"n": old})])

    assert rule(propose("New words.", claim={"n": new}), known, CONFIG).ruling == ruling


# ---------------------------------------------------------------- what always holds

texts = st.text(max_size=60) | st.sampled_from(
    ["I don't like tea", "no", "not sure if", "can't you", "n't", "<think>", "a" * 8_001]
)
claims = st.none() | st.dictionaries(st.sampled_from("ab"), st.integers(0, 1) | st.text(max_size=3))
scopes = st.dictionaries(st.sampled_from(["user", "trade"]), st.text(max_size=3), max_size=2)
kinds = st.sampled_from(["preference", "fact", "x"])


@st.composite
def proposals(draw):
    return Proposal(
        id="p_1",
        operation=draw(st.sampled_from(["write", "remember"])),
        content=draw(texts),
        kind=draw(kinds),
        scope=draw(scopes),
        claim=draw(claims),
        confidence=draw(st.floats(0, 1) | st.just(math.nan)),
        occurred_at=draw(st.sampled_from([NOON, NOON - timedelta(days=1)])),
        polarity=draw(st.sampled_from(["positive", "negative"])),
        quote=draw(st.none() | texts),
        said_in=draw(st.none() | texts),
        turn_id=draw(st.none() | st.just("t_1")),
        pinned=draw(st.booleans()),
        defect=draw(st.none() | texts),
    )


@st.composite
def known_things(draw):
    def one():
        return MemoryRecord(
            id=draw(st.sampled_from(["m_a", "m_b"])),
            workspace_id="w",
            kind=draw(kinds),
            content=draw(texts),
            scope=draw(scopes),
            claim=draw(claims),
            status="active",
            confidence=0.5,
            pinned=draw(st.booleans()),
            evidence_count=1,
            occurred_at=NOON,
            created_at=NOON,
            source_session="s",
            task_id=None,
            seq=1,
        )

    size = st.integers(0, 2)
    return Known(
        same_content=[one() for _ in range(draw(size))],
        same_slot=[one() for _ in range(draw(size))],
        near=[(one(), draw(st.floats(-1, 1))) for _ in range(draw(size))],
        tombstones=forgotten(turn=draw(st.none() | st.just("t_1"))) * draw(st.integers(0, 1)),
        session_id=draw(st.none() | st.sampled_from(["s_0", "s_1"])),
    )


@given(proposals(), known_things())
def test_every_proposal_ends_in_one_of_five_states_with_what_the_state_needs(proposal, known):
    ruling = rule(proposal, known, CONFIG)

    has_record = ruling.ruling in ("accepted", "attached", "superseded")
    assert ruling.ruling in ("accepted", "attached", "superseded", "rejected", "failed")
    assert (ruling.record_id is not None) == has_record
    assert (ruling.replaced_id is not None) == (ruling.ruling == "superseded")
    assert (ruling.reason is None) == (ruling.ruling == "accepted")
    assert not (ruling.reason or "").startswith("check ")
    assert ruling == rule(proposal, known, CONFIG)


@given(proposals(), known_things())
def test_nothing_of_low_or_unknown_confidence_gets_in(proposal, known):
    ruling = rule(proposal, known, CONFIG)

    if ruling.ruling in ("accepted", "superseded", "attached"):
        assert proposal.confidence >= 0.5


def test_pass_and_the_other_findings_are_values_a_caller_can_compare():
    assert Pass() == Pass()
    assert Reject("x") == Reject("x")
