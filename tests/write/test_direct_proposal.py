from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.records import WriteRequest
from memplugin.write.proposal import direct_proposal

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
ANN = MemoryContext("w", "s", user_id="ann")


def write(content="Report net of tax.", context=ANN, **fields):
    return direct_proposal(WriteRequest(content, **fields), context=context, now=NOON)


def test_a_caller_s_words_are_proposed_as_they_are():
    proposal = write(" Report net of tax.\x00 ", kind="preference", around="Q3", source="wiki")

    assert (proposal.operation, proposal.content) == ("write", "Report net of tax.")
    assert (proposal.kind, proposal.around, proposal.source) == ("preference", "Q3", "wiki")
    assert (proposal.occurred_at, proposal.turn_id, proposal.quote) == (NOON, None, None)


def test_without_a_confidence_it_is_trusted_with_room_for_evidence():
    assert write().confidence == 0.9
    assert write(confidence=0).confidence == 0.0


def test_what_a_user_s_context_writes_belongs_to_the_user():
    assert write(scope={"trade": "pest"}).scope == {"trade": "pest", "user": "ann"}


def test_unless_it_is_shared_or_another_user_is_named():
    assert write(shared=True).scope == {}
    assert write(scope={"user": "bob"}).scope == {"user": "bob"}


def test_a_context_without_a_user_writes_for_all():
    assert write(context=MemoryContext("w", "s")).scope == {}


def test_shared_and_a_user_at_once_are_an_error():
    with pytest.raises(ConfigError, match="shared"):
        write(scope={"user": "bob"}, shared=True)


def test_the_same_again_is_the_same_proposal_whatever_its_blanks_and_case():
    assert write("Report net of  tax.").id == write(" report NET of tax. ").id


@pytest.mark.parametrize(
    "difference",
    [
        {"content": "Report gross of tax."},
        {"kind": "instruction"},
        {"scope": {"trade": "pest"}},
        {"claim": {"basis": "net"}},
        {"pinned": True},
        {"shared": True},
        {"context": MemoryContext("w", "s2", user_id="ann")},
        {"context": MemoryContext("w2", "s", user_id="ann")},
    ],
)
def test_what_makes_another_memory_makes_another_proposal(difference):
    assert write(**difference).id != write().id


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"content": None}, "content is a NoneType"),
        ({"content": ["x"]}, "content is a list"),
        ({"kind": " "}, "kind is empty"),
        ({"kind": 3}, "kind is a int"),
        ({"occurred_at": datetime(2026, 1, 1)}, "occurred_at has no time zone"),
        ({"occurred_at": "2026-01-01"}, "occurred_at is a str"),
        ({"confidence": 1.1}, "confidence is 1.1"),
        ({"confidence": -0.1}, "confidence is -0.1"),
        ({"confidence": math.nan}, "confidence is nan"),
        ({"confidence": True}, "confidence is True"),
        ({"confidence": "0.5"}, "confidence is '0.5'"),
        ({"claim": ["vendor"]}, "claim is"),
        ({"claim": {}}, "claim is"),
        ({"claim": {"": 1}}, "claim has the field ''"),
        ({"claim": {1: 1}}, "claim has the field 1"),
        ({"claim": {"a": {"b": 1}}}, r"claim\['a'\] is a dict"),
        ({"claim": {"a": math.inf}}, "claim holds a number"),
        ({"scope": ["x"]}, "scope is a list"),
        ({"scope": {"a": 1}}, r"scope\['a'\]"),
        ({"source": 1}, "source is a int"),
        ({"around": b"x"}, "around is a bytes"),
    ],
)
def test_an_argument_that_can_not_be_used_is_named(fields, says):
    with pytest.raises(ConfigError, match=says):
        write(**fields)


def test_an_empty_content_is_a_proposal_for_the_gate_to_reject():
    assert write("  ").content == ""


def test_a_claim_may_hold_every_json_scalar():
    claim = {"a": "x", "b": 1, "c": 1.5, "d": True, "e": None}

    assert write(claim=claim).claim == claim
