"""What the spans of each hop carry, and how they are linked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext, Need
from memplugin.telemetry import names
from memplugin.testing import ScriptedChatModel, SpanCapture, memory_for_tests

SECRET = "the vault code is four one seven"


class Pack(BaseModel):
    """What is decided."""

    basis: str


REPLY = {
    "memory_reasoning": "read",
    "considered": "nothing",
    "cited_record_ids": [],
    "basis": "net",
}


def context(session: str = "s_1", task: str = "t_0417") -> MemoryContext:
    return MemoryContext("ws_8841", session, task_id=task)


def every_hop(memory: Memory) -> None:
    written = memory.write("revenue is net of tax", context=context())
    assert written.record_id
    memory.remember(
        [{"role": "user", "content": "hello"}],
        context=context(),
        model=ScriptedChatModel([{"memories": []}]),
    )
    with memory.task("t_0417", workspace_id="ws_8841") as task:
        retrieval = memory.recall("revenue", context=context("s_2"))
        memory.decide(
            "revenue?",
            context=context("s_2"),
            answer=Pack,
            model=ScriptedChatModel([REPLY]),
            retrieval=retrieval,
        )
        memory.report(context=context("s_2"), succeeded=False)
        task.diagnose(Need(record_ids=(written.record_id,)))
    memory.forget(written.record_id, context=context("s_2"), reason="asked to")


def test_every_hop_has_its_span(memory: Memory, capture: SpanCapture) -> None:
    every_hop(memory)
    assert [span.name for span in capture.spans] == [
        "upsert_memory",
        "upsert_memory",
        "search_memory",
        "use_memory",
        "report_outcome",
        "memory_task",
        "delete_memory",
    ]


def test_every_span_carries_task_session_workspace_arm_and_schema(
    memory: Memory, capture: SpanCapture
) -> None:
    every_hop(memory)
    for span in capture.spans:
        carried = dict(span.attributes or {})
        assert carried["memplugin.task.id"] == "t_0417"
        assert carried["memplugin.session.id"] in ("s_1", "s_2")
        assert carried["memplugin.workspace.id"] == "ws_8841"
        assert carried["memplugin.arm"] == "memory_on"
        assert carried["memplugin.schema.version"] == 1


def test_every_attribute_and_event_is_defined_in_names(
    memory: Memory, capture: SpanCapture
) -> None:
    every_hop(memory)
    emitted = {key for span in capture.spans for key in span.attributes or {}}
    emitted |= {
        key for span in capture.spans for event in span.events for key in event.attributes or {}
    }
    assert emitted <= set(names.ATTRIBUTES)


def test_the_operation_name_and_the_task_are_there_when_the_span_starts() -> None:
    seen: list[dict[str, Any]] = []

    class AtStart(SpanProcessor):
        def on_start(self, span: Any, parent_context: Any = None) -> None:
            seen.append(dict(span.attributes or {}))

    provider = TracerProvider()
    provider.add_span_processor(AtStart())
    with memory_for_tests(tracer_provider=provider) as memory:
        memory.recall("revenue", context=context())
    assert seen[0]["gen_ai.operation.name"] == "search_memory"
    assert seen[0]["memplugin.task.id"] == "t_0417"


def test_a_context_without_a_task_is_its_own_task_the_session(
    memory: Memory, capture: SpanCapture
) -> None:
    memory.recall("revenue", context=MemoryContext("w", "s_9"))
    assert capture.attributes("search_memory")[0]["memplugin.task.id"] == "s_9"


def test_a_write_shows_each_proposal_in_parallel_arrays(
    memory: Memory, capture: SpanCapture
) -> None:
    first, again, empty = memory.write_many(
        ["revenue is net of tax", {"content": "revenue is net of tax", "source": "x"}, " "],
        context=context(),
    )
    shown = capture.attributes("upsert_memory")[0]
    assert shown["memplugin.write.rulings"] == (first.ruling, again.ruling, empty.ruling)
    assert shown["memplugin.write.rulings"] == ("accepted", "accepted", "rejected")
    assert shown["memplugin.write.reasons"] == ("", "", "empty")
    assert shown["memplugin.write.rejected"] == 1
    assert shown["memplugin.write.record_ids"][2] == ""
    assert shown["memplugin.write.indexed_at"][0].startswith("2026-03-02T09:14")


def test_a_search_shows_candidates_in_rank_order_and_says_how_many_there_were(
    memory: Memory, capture: SpanCapture
) -> None:
    memory.write_many([f"revenue note {n}" for n in range(60)], context=context())
    retrieval = memory.recall("revenue note", context=context(), k=20)
    shown = capture.attributes("search_memory")[0]
    assert shown["memplugin.candidate.count"] == len(retrieval.candidates) == 60
    assert len(shown["memplugin.candidate.ids"]) == 50
    assert shown["memplugin.candidate.ids"] == tuple(c.record_id for c in retrieval.candidates[:50])
    assert shown["memplugin.candidate.injected"].count(True) == 20
    events = capture.named("search_memory")[0].events
    assert [event.name for event in events] == ["memplugin.candidate"] * 10
    assert (events[0].attributes or {})["memplugin.candidate.rank"] == 1


def test_a_decision_shows_status_flags_citations_and_order(
    memory: Memory, capture: SpanCapture
) -> None:
    reply = {**REPLY, "cited_record_ids": ["m_unknown"]}
    memory.decide("?", context=context(), answer=Pack, model=ScriptedChatModel([reply]))
    shown = capture.attributes("use_memory")[0]
    assert shown["memplugin.decision.status"] == "decided"
    assert shown["memplugin.decision.flags"] == ("unknown_citation",)
    assert shown["memplugin.use.cited_record_ids"] == ("m_unknown",)
    assert shown["memplugin.decision.order_preserved"] is True
    assert "gen_ai.operation.name" not in shown


def test_a_finished_task_shows_its_verdict(memory: Memory, capture: SpanCapture) -> None:
    every_hop(memory)
    shown = capture.attributes("memory_task")[0]
    assert shown["memplugin.task.success"] is False
    assert shown["memplugin.verdict.stage"] == "use"
    assert shown["memplugin.verdict.cause"] == "ignored"
    assert shown["memplugin.verdict.rank"] == 1


# ---------------------------------------------------------------- stitching


def links(span: Any) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for link in span.links:
        found.setdefault(link.attributes[names.RELATION], []).append(link.context.span_id)
    return found


def test_a_recall_links_the_write_of_each_shown_record_and_the_session_before(
    memory: Memory, capture: SpanCapture
) -> None:
    memory.write("revenue is net of tax", context=context("s_1"))
    memory.write("unrelated note", context=context("s_1"))
    memory.recall("revenue net tax", context=context("s_2"), k=1)
    first_write = capture.named("upsert_memory")[0]
    search = capture.named("search_memory")[0]
    assert first_write.context is not None
    assert links(search) == {
        "previous_session": [first_write.context.span_id],
        "written_by": [first_write.context.span_id],
    }
    assert (search.attributes or {})["memplugin.link.count"] == 2


def test_only_the_first_span_of_a_session_links_the_session_before(
    memory: Memory, capture: SpanCapture
) -> None:
    memory.write("a note", context=context("s_1"))
    memory.recall("other words", context=context("s_2"))
    memory.recall("other words", context=context("s_2"))
    related = [list(links(span)) for span in capture.named("search_memory")]
    assert [("previous_session" in found) for found in related] == [True, False]


def test_a_decision_in_another_trace_links_its_search(memory: Memory, capture: SpanCapture) -> None:
    retrieval = memory.recall("revenue", context=context())
    memory.decide(
        "?",
        context=context(),
        answer=Pack,
        model=ScriptedChatModel([REPLY]),
        retrieval=retrieval.id,
    )
    search, use = capture.named("search_memory")[0], capture.named("use_memory")[0]
    assert search.context is not None
    assert links(use)["retrieved_by"] == [search.context.span_id]


def test_a_decision_in_the_same_trace_needs_no_link(memory: Memory, capture: SpanCapture) -> None:
    with capture.provider.get_tracer("host").start_as_current_span("request"):
        retrieval = memory.recall("revenue", context=context())
        memory.decide(
            "?",
            context=context(),
            answer=Pack,
            model=ScriptedChatModel([REPLY]),
            retrieval=retrieval,
        )
    assert "retrieved_by" not in links(capture.named("use_memory")[0])


def test_at_most_100_links_are_made_and_the_true_number_is_shown(
    memory: Memory, capture: SpanCapture
) -> None:
    for n in range(120):
        memory.write(f"note {n}", context=context())
    memory.recall("note", context=context(), k=120)
    search = capture.named("search_memory")[0]
    assert len(search.links) == 100
    assert (search.attributes or {})["memplugin.link.count"] == 120


def test_the_ledgers_rows_name_the_span_that_wrote_them(
    memory: Memory, capture: SpanCapture
) -> None:
    written = memory.write("revenue is net of tax", context=context())
    span = capture.named("upsert_memory")[0].context
    assert span is not None
    record = memory.get(written.record_id or "", context=context())
    assert record.traceparent == (
        f"00-{trace.format_trace_id(span.trace_id)}-{trace.format_span_id(span.span_id)}-01"
    )


def test_the_models_own_spans_are_children_of_ours(memory: Memory, capture: SpanCapture) -> None:
    def reply(_: Any) -> dict[str, Any]:
        with capture.provider.get_tracer("model").start_as_current_span("chat"):
            return REPLY

    memory.decide("?", context=context(), answer=Pack, model=ScriptedChatModel(reply))
    chat, use = capture.named("chat")[0], capture.named("use_memory")[0]
    assert chat.parent is not None
    assert use.context is not None
    assert chat.parent.span_id == use.context.span_id


# ---------------------------------------------------------------- never the host's problem


def test_without_an_sdk_rows_have_no_trace_id() -> None:
    with memory_for_tests(tracer_provider=trace.NoOpTracerProvider()) as memory:
        written = memory.write("a note", context=context())
        record = memory.get(written.record_id or "", context=context())
        retrieval = memory.recall("note", context=context())
    assert record.traceparent is None
    assert retrieval.span is None


class Broken(SpanProcessor):
    """A host's processor that fails."""

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("start")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("end")


def test_a_processor_that_raises_changes_no_result() -> None:
    provider = TracerProvider()
    provider.add_span_processor(Broken())
    with memory_for_tests(tracer_provider=provider) as memory:
        every_hop(memory)
        assert memory.recall("revenue", context=context()).id.startswith("r_")


def test_an_error_is_shown_by_its_class_and_never_by_its_text(
    memory: Memory, capture: SpanCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(memory.backend.ledger.retrievals, "save", fails)
    with pytest.raises(ValueError, match="vault"):
        memory.recall("revenue", context=context())
    span = capture.named("search_memory")[0]
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert span.status.description == "ValueError"
    assert not [event for event in span.events if event.name == "exception"]


@pytest.mark.parametrize("mode", ["none", "hash"])
def test_in_none_and_hash_no_stored_text_is_anywhere_on_a_span(mode: Any) -> None:
    capture = SpanCapture()
    config = MemoryConfig(content_on_spans=mode, floor=-1.0)
    with memory_for_tests(tracer_provider=capture.provider, config=config) as memory:
        scoped = MemoryContext("ws", "s_1", task_id="t_1", scope={"place": SECRET})
        memory.write(SECRET, context=scoped, source=SECRET, around=SECRET, scope={"place": SECRET})
        memory.recall(SECRET, context=scoped)
        memory.decide(SECRET, context=scoped, answer=Pack, model=ScriptedChatModel([SECRET] * 2))
    exported = json.dumps([json.loads(span.to_json()) for span in capture.spans])
    assert len(capture.spans) == 4
    assert "vault" not in exported


def test_the_hash_is_keyed_and_the_same_for_the_same_text() -> None:
    def shown(key: bytes) -> str:
        capture = SpanCapture()
        config = MemoryConfig(hash_key=key)
        with memory_for_tests(tracer_provider=capture.provider, config=config) as memory:
            memory.recall("yes", context=context())
        return str(capture.attributes("search_memory")[0]["gen_ai.memory.query.text"])

    assert shown(b"one") == shown(b"one")
    assert shown(b"one") != shown(b"two")
    assert shown(b"one").startswith("hmac-sha256:")


def test_full_shows_the_text_cut_at_2000_bytes_between_characters() -> None:
    capture = SpanCapture()
    config = MemoryConfig(content_on_spans="full")
    with memory_for_tests(tracer_provider=capture.provider, config=config) as memory:
        memory.recall("é" * 3_000, context=context())
    text = str(capture.attributes("search_memory")[0]["gen_ai.memory.query.text"])
    assert text == "é" * 1_000
