"""From what was observed to evidence, and to what holds there instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.errors import ConfigError
from memplugin.records import Evidence, Known, MemoryRecord, Observation, Proposal
from memplugin.write.gate import rule
from memplugin.write.proposal import evidence_from

Made = Callable[..., MemoryRecord]
CONFIG = MemoryConfig()


@pytest.fixture
def plumber(record: Made) -> MemoryRecord:
    return record(
        "Yonic handles all plumbing.",
        kind="belief",
        scope={"trade": "plumbing"},
        claim={"vendor_id": "yonic"},
    )


def observed(
    record: MemoryRecord,
    now: datetime,
    scope: dict[str, str] | None = None,
    config: MemoryConfig = CONFIG,
    **fields: Any,
) -> tuple[Evidence, Proposal | None]:
    where = {"trade": "plumbing", "problem": "toilet"} if scope is None else scope
    context = fields.pop("context", MemoryContext("ws_8841", "s_1", task_id="t_1", scope=where))
    return evidence_from(Observation(**fields), record, context=context, config=config, now=now)


def test_a_confirmation_is_evidence_and_nothing_else(plumber: MemoryRecord, now: datetime) -> None:
    seen, narrower = observed(plumber, now, weight=0.4, note="  fixed  ")
    assert narrower is None
    assert (seen.record_id, seen.supports, seen.amount, seen.at) == ("m_old", True, 0.2, now)
    assert (seen.scope, seen.note) == ({"problem": "toilet", "trade": "plumbing"}, "fixed")
    assert (seen.session_id, seen.task_id, seen.proposal_id) == ("s_1", "t_1", None)


def test_a_contradiction_from_a_narrower_scope_proposes_what_holds_there(
    plumber: MemoryRecord, now: datetime
) -> None:
    seen, narrower = observed(plumber, now, supports=False, claim={"vendor_id": "abraham"})
    assert narrower is not None
    assert (narrower.operation, narrower.kind, narrower.pinned) == ("observe", "belief", False)
    assert narrower.scope == seen.scope == {"problem": "toilet", "trade": "plumbing"}
    assert narrower.claim == {"vendor_id": "abraham"}
    assert narrower.content == "vendor_id is abraham where problem is toilet."
    assert narrower.confidence == 0.5
    assert narrower.around == plumber.content


def test_a_note_is_the_content_of_the_narrower_belief(plumber: MemoryRecord, now: datetime) -> None:
    said = {"claim": {"vendor_id": "abraham"}, "note": "Abraham does the toilets."}
    _, narrower = observed(plumber, now, supports=False, **said)
    assert narrower is not None
    assert narrower.content == "Abraham does the toilets."


def test_without_a_claim_the_narrower_belief_is_an_exception_that_says_so(
    plumber: MemoryRecord, now: datetime
) -> None:
    _, narrower = observed(plumber, now, supports=False)
    assert narrower is not None
    assert narrower.claim is None
    assert narrower.content == (
        "An exception where problem is toilet. Not so there: Yonic handles all plumbing."
    )


@pytest.mark.parametrize("scope", [{"trade": "plumbing"}, {}])
def test_a_contradiction_in_the_records_own_scope_makes_no_exception(
    plumber: MemoryRecord, now: datetime, scope: dict[str, str]
) -> None:
    seen, narrower = observed(plumber, now, scope, supports=False)
    assert narrower is None
    assert seen.scope == {"trade": "plumbing"}


def test_another_claim_in_the_records_own_scope_is_proposed_there(
    plumber: MemoryRecord, now: datetime
) -> None:
    said = {"supports": False, "claim": {"vendor_id": "abraham"}}
    _, instead = observed(plumber, now, {"trade": "plumbing"}, **said)
    assert instead is not None
    assert (instead.scope, instead.content) == ({"trade": "plumbing"}, "vendor_id is abraham.")


def test_the_records_own_keys_belong_to_where_it_was_observed(
    plumber: MemoryRecord, now: datetime
) -> None:
    seen, narrower = observed(plumber, now, {"property": "12 Elm St"}, supports=False)
    assert seen.scope == {"property": "12 Elm St", "trade": "plumbing"}
    assert narrower is not None


def test_the_same_observation_has_the_same_id_and_another_has_another(
    plumber: MemoryRecord, now: datetime
) -> None:
    first, _ = observed(plumber, now, supports=False)
    again, _ = observed(plumber, now.replace(hour=13), supports=False, weight=0.3, salience=0.9)
    assert again.id == first.id
    where = {"trade": "plumbing", "problem": "toilet"}
    others = [
        observed(plumber, now)[0],
        observed(plumber, now, supports=False, note="twice")[0],
        observed(plumber, now, supports=False, claim={"vendor_id": "abraham"})[0],
        observed(plumber, now, {"trade": "plumbing"}, supports=False)[0],
        observed(replace(plumber, id="m_2"), now, supports=False)[0],
    ]
    contexts = (
        MemoryContext("ws_8841", "s_2", task_id="t_1", scope=where),
        MemoryContext("ws_8841", "s_1", task_id="t_2", scope=where),
        MemoryContext("ws_8841", "s_1", task_id="t_1", scope=where, attempt=2),
        MemoryContext("ws_8842", "s_1", task_id="t_1", scope=where),
    )
    others += [observed(plumber, now, context=c, supports=False)[0] for c in contexts]
    assert len({first.id, *(other.id for other in others)}) == 10


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"weight": -1}, "weight is -1: give a number from 0 to 100"),
        ({"weight": float("nan")}, "weight is nan"),
        ({"weight": True}, "weight is True"),
        ({"salience": 1.5}, "salience is 1.5: give a number from 0 to 1"),
        ({"note": 3}, "note is a int"),
        ({"claim": {"vendor_id": "abraham"}}, "give supports=False"),
        ({"claim": {"vendor_id": " YONIC"}, "supports": False}, "observed instead"),
        ({"claim": {"vendor_id": []}, "supports": False}, "JSON scalars"),
        ({"scope": {"trade": "pest"}}, "trade is 'plumbing', and the request's trade is 'pest'"),
    ],
)
def test_what_can_not_be_observed_is_refused_with_its_name(
    plumber: MemoryRecord, now: datetime, fields: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        observed(plumber, now, **fields)


def test_a_record_of_another_user_can_not_be_observed(record: Made, now: datetime) -> None:
    bobs = record(scope={"user": "bob"})
    with pytest.raises(ConfigError, match="observe a record that applies"):
        observed(bobs, now, context=MemoryContext("ws_8841", "s_1", user_id="alice"))


def test_a_note_that_the_screen_stops_is_kept_nowhere(plumber: MemoryRecord, now: datetime) -> None:
    config = MemoryConfig(screen=lambda text: "code" if "4711" in text else None)
    seen, narrower = observed(
        plumber, now, config=config, supports=False, note="The gate's code is 4711."
    )
    assert narrower is not None
    assert seen.note == "[screened]"
    assert "4711" not in str((seen, narrower))
    assert narrower.content.startswith("An exception where problem is toilet.")


# ---------------------------------------------------------------- how the gate rules on it


@pytest.fixture
def toilets(plumber: MemoryRecord, now: datetime) -> Proposal:
    said = {"supports": False, "claim": {"vendor_id": "abraham"}}
    proposal = observed(plumber, now, **said)[1]
    assert proposal is not None
    return proposal


def held(record: Made, proposal: Proposal, **fields: Any) -> MemoryRecord:
    there = {"kind": "belief", "scope": proposal.scope, "claim": {"vendor_id": "bob"}}
    return record("Bob does toilets.", **{**there, **fields})


def test_what_was_observed_is_evidence_against_another_claim_that_is_still_believed(
    record: Made, toilets: Proposal
) -> None:
    rival = held(record, toilets, confidence=0.5)
    ruling = rule(toilets, Known(same_slot=[rival]), CONFIG)
    assert (ruling.ruling, ruling.reason) == ("rejected", "outweighed: m_old")
    assert (ruling.against_id, ruling.record_id) == ("m_old", None)


def test_what_was_observed_replaces_a_claim_that_is_no_longer_believed(
    record: Made, toilets: Proposal
) -> None:
    rival = held(record, toilets, confidence=0.49)
    ruling = rule(toilets, Known(same_slot=[rival]), CONFIG)
    assert (ruling.ruling, ruling.replaced_id) == ("superseded", "m_old")


def test_a_pinned_claim_is_never_replaced_by_what_was_observed(
    record: Made, toilets: Proposal
) -> None:
    rival = held(record, toilets, confidence=0.1, pinned=True)
    ruling = rule(toilets, Known(same_slot=[rival]), CONFIG)
    assert (ruling.reason, ruling.against_id) == ("contradicts_pinned: m_old", "m_old")


def test_the_same_exception_in_other_words_is_attached(
    record: Made, plumber: MemoryRecord, now: datetime
) -> None:
    first = observed(plumber, now, supports=False, note="Not for toilets.")[1]
    other = observed(plumber, now, supports=False, note="He would not come for the loo.")[1]
    assert first is not None
    assert other is not None
    known = record(first.content, kind="belief", scope=first.scope, source=first.source)
    ruling = rule(other, Known(near=[(known, 1.0)]), CONFIG)
    assert (ruling.ruling, ruling.reason) == ("attached", "same_exception")


def test_a_check_can_not_name_evidence_against_a_record_it_was_not_shown(
    toilets: Proposal,
) -> None:
    from memplugin.write.gate import Reject

    def hook(*_: Any) -> Reject:
        return Reject("no", against="m_elsewhere")

    assert rule(toilets, Known(), CONFIG, [hook]).against_id is None
