"""What a hop's attributes hold when there is more than fits, and less than may be shown."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.records import Candidate, Retrieval
from memplugin.telemetry import names
from memplugin.telemetry.attributes import searched
from memplugin.telemetry.content import ContentPolicy
from memplugin.testing import ScriptedChatModel, SpanCapture, memory_for_tests
from tests.telemetry.sent_task import Pack

NOW = datetime(2026, 3, 2, 9, 14, 11, tzinfo=UTC)


def candidate(rank: int, **changed: Any) -> Candidate:
    plain = Candidate(
        record_id=f"m_{rank}",
        content=f"note {rank}",
        kind="fact",
        scope={},
        claim=None,
        confidence=0.5,
        pinned=False,
        occurred_at=NOW,
        rank=rank,
        score=1 / rank,
        parts={"dense": 1 / rank},
        sources=("dense",),
        injected=False,
        cut="below_cutoff",
    )
    return replace(plain, **changed)


def retrieval(*candidates: Candidate, **changed: Any) -> Retrieval:
    plain = Retrieval(
        id="r_1",
        workspace_id="ws",
        task_id="t_1",
        session_id="s_1",
        query="which basis?",
        filters={"workspace_id": "ws", "kind": None, "scope": {}},
        k=3,
        policy="balanced@1",
        candidates=candidates,
        total=len(candidates),
        shown=0,
        pending_index=0,
        stale_dropped=0,
        text="",
        created_at=NOW,
    )
    return replace(plain, **changed)


def shown_in(mode: Any, found: Retrieval) -> dict[str, Any]:
    return searched(found, ContentPolicy(mode, b"key"))


def test_what_was_shown_is_among_the_50_however_low_it_ranks() -> None:
    many = [candidate(rank) for rank in range(1, 70)]
    many[63] = candidate(64, injected=True, cut=None, sources=("standing",))
    shown = shown_in("hash", retrieval(*many))
    assert shown[names.CANDIDATE_COUNT] == 69
    assert shown[names.CANDIDATE_RANKS] == [*range(1, 50), 64]
    assert shown[names.CANDIDATE_INJECTED][-1] is True
    assert shown[names.CANDIDATE_SOURCES][-1] == "standing"


def test_the_parts_of_a_score_are_there_to_be_read() -> None:
    shown = shown_in("none", retrieval(candidate(1, parts={"dense": 0.25, "scope": 1.0})))
    assert json.loads(shown[names.CANDIDATE_PARTS][0]) == {"dense": 0.25, "scope": 1.0}


@pytest.mark.parametrize(
    ("mode", "texts"), [("none", None), ("hash", None), ("full", ["note 1", "note 2"])]
)
def test_contents_stand_on_a_search_in_full_only(mode: str, texts: list[str] | None) -> None:
    shown = shown_in(mode, retrieval(candidate(1), candidate(2)))
    assert shown[names.CANDIDATE_CONTENTS] == texts


def test_all_texts_of_a_span_together_have_a_limit_and_keep_their_places() -> None:
    long = [candidate(rank, content="x" * 1_900) for rank in range(1, 8)]
    texts = shown_in("full", retrieval(*long))[names.CANDIDATE_CONTENTS]
    assert [len(text) for text in texts] == [1_900, 1_900, 1_900, 1_900, 0, 0, 0]


def test_a_scope_too_long_for_an_attribute_is_still_whole_json() -> None:
    scope = {"place": "x" * 3_000, "trade": "pest"}
    found = retrieval(filters={"workspace_id": "ws", "kind": None, "scope": scope})
    filters = shown_in("full", found)[names.FILTERS]
    assert len(filters.encode()) <= 2_000
    assert set(json.loads(filters)["scope"]) == {"place", "trade"}


@pytest.mark.parametrize(
    ("mode", "answer"), [("none", {"basis": None}), ("full", {"basis": "gross"})]
)
def test_a_decision_shows_what_it_goes_against_and_the_answer_as_the_mode_has(
    mode: Any, answer: dict[str, str | None]
) -> None:
    capture = SpanCapture()
    config = MemoryConfig(floor=-1.0, content_on_spans=mode)
    reply = {
        "memory_reasoning": "read",
        "considered": "net",
        "cited_record_ids": [],
        "basis": "gross",
    }
    with memory_for_tests(tracer_provider=capture.provider, config=config) as memory:
        context = MemoryContext("ws", "s_1", task_id="t_1")
        claim = {"basis": "net"}
        against = memory.write("reported net", context=context, kind="belief", claim=claim)
        memory.write("reported on page two", context=context)
        memory.decide("?", context=context, answer=Pack, model=ScriptedChatModel([reply]))
    shown = capture.attributes("use_memory")[0]
    assert shown[names.CONTRADICTED_IDS] == (against.record_id,)
    assert json.loads(shown[names.ANSWER]) == answer
    assert shown[names.AT].startswith("2026-03-02T09:14")


def test_a_write_of_one_record_names_it_where_every_store_can_search(
    memory: Memory, capture: SpanCapture
) -> None:
    context = MemoryContext("ws", "s_1", task_id="t_1")
    one = memory.write("reported net", context=context)
    memory.write_many(["a note", "another note"], context=context)
    first, second = capture.attributes("upsert_memory")
    assert first[names.RECORD_ID] == one.record_id
    assert names.RECORD_ID not in second


def test_what_a_write_replaced_is_on_its_span(memory: Memory, capture: SpanCapture) -> None:
    context = MemoryContext("ws", "s_1", task_id="t_1")
    old = memory.write("net", context=context, kind="belief", claim={"basis": "net"})
    memory.write("gross", context=context, kind="belief", claim={"basis": "gross"})
    first, second = capture.attributes("upsert_memory")
    assert first[names.REPLACED_IDS] == ("",)
    assert second[names.REPLACED_IDS] == (old.record_id,)
