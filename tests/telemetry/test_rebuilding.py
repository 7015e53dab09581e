"""A trace that was not sampled, made again from the ledger: as if it had been."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider

from memplugin import Memory, MemoryConfig, MemoryContext, Need
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_from_spans import evidence_from_spans
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.errors import ConfigError
from memplugin.memory.emit import Emission, emit
from memplugin.telemetry import names
from memplugin.telemetry.sampling import task_sampler
from memplugin.testing import ScriptedChatModel, SpanCapture, memory_for_tests
from memplugin.testing.spans import read_back
from tests.telemetry.reading_back import comparable
from tests.telemetry.sent_task import TASK, W, earlier_task, later_session


class Sent:
    """A collector that takes everything, or nothing."""

    def __init__(self, *, works: bool = True) -> None:
        self.works = works
        self.spans: list[ReadableSpan] = []

    def __call__(self, batch: Sequence[ReadableSpan]) -> bool:
        if self.works:
            self.spans += batch
        return self.works

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]


def emitted(memory: Memory, task: str = TASK, *, again: bool = False) -> tuple[Sent, Emission]:
    sent = Sent()
    return sent, emit(memory.backend, W, task, sent, service="agent", again=again)


def work(memory: Memory, provider: TracerProvider | None = None) -> str:
    """A task of two sessions that recalls what another task wrote, and fails at rank 7."""
    tracer = (provider or NoOpTracerProvider()).get_tracer("host")
    earlier_task(memory, tracer)
    said = [{"role": "user", "content": "Could you do the pack net of tax going forward?"}]
    proposed = {
        "turn_index": 0,
        "quote": "do the pack net of tax going forward",
        "polarity": "positive",
        "content": "the pack is net of tax",
        "kind": "instruction",
        "confidence": 0.9,
    }
    with tracer.start_as_current_span("first session"):
        context = MemoryContext(W, "s_1", task_id=TASK)
        model = ScriptedChatModel([{"memories": [proposed]}])
        needed = memory.remember(said, context=context, model=model)[0].record_id or ""
    later_session(memory, tracer)
    return needed


def memory_at(provider: TracerProvider | None, mode: Any = "hash") -> Memory:
    config = MemoryConfig(floor=-1.0, policy="similarity", content_on_spans=mode)
    return memory_for_tests(tracer_provider=provider, config=config)


def dropping() -> TracerProvider:
    return TracerProvider(sampler=task_sampler(0.0))


# ---------------------------------------------------------------- the same as a sampled one


@pytest.mark.parametrize("mode", ["none", "hash", "truncate", "full"])
@pytest.mark.parametrize("traced", [True, False], ids=["unsampled", "without an SDK"])
def test_record_and_verdict_from_the_rebuilt_trace_are_those_of_the_ledger(
    mode: str, traced: bool
) -> None:
    provider = dropping() if traced else None
    with memory_at(provider, mode) as memory:
        needed = work(memory, provider)
        sent, _ = emitted(memory)
        record = memory.task_record(TASK, workspace_id=W)
        need = Need(record_ids=(needed,))
        verdict = memory.diagnose(TASK, workspace_id=W, need=need)
    spans = read_back(sent.spans)
    found = record_from_spans(spans, W, TASK)
    assert found is not None
    assert comparable(found, mode) == comparable(record, mode)
    again = attribute(found, need, evidence_from_spans(spans, found, need))
    assert (again.stage, again.cause, again.record_id, again.rank) == (
        verdict.stage,
        verdict.cause,
        verdict.record_id,
        verdict.rank,
    )
    assert (again.cause, again.rank) == ("below_cutoff", 7)


def test_a_rebuilt_span_says_what_the_sampled_one_would_have_said() -> None:
    kept = SpanCapture()
    with memory_at(kept.provider) as memory:
        work(memory, kept.provider)
        sent, _ = emitted(memory, again=True)
    for name in ("search_memory", "use_memory", "report_outcome"):
        (live,), (rebuilt,) = kept.named(name), sent.named(name)
        added = {names.REBUILT: True, names.ORIGINAL_TIME: (live.attributes or {})[names.AT]}
        assert dict(rebuilt.attributes or {}) == {**(live.attributes or {}), **added}
        assert [e.attributes for e in rebuilt.events] == [e.attributes for e in live.events]
        assert [(x.context.span_id, x.attributes) for x in rebuilt.links] == [
            (x.context.span_id, x.attributes) for x in live.links
        ]
        assert rebuilt.context == live.context or (
            rebuilt.get_span_context().span_id == live.get_span_context().span_id
        )
        assert rebuilt.kind == live.kind


def test_the_ids_are_those_that_the_rows_kept_so_that_links_lead_there() -> None:
    provider = dropping()
    with memory_at(provider) as memory:
        work(memory, provider)
        sent, emission = emitted(memory)
        rows = memory.backend.ledger.history.task_rows(W, TASK)
        later = memory.recall("board pack", context=MemoryContext(W, "s_9", task_id="t_0500"))
    (retrieval,), (decision,) = rows.retrievals, rows.decisions
    assert retrieval.span
    assert decision.span
    ids = {f"{span.get_span_context().span_id:016x}" for span in sent.spans}
    assert {retrieval.span.span_id, decision.span.span_id} <= ids
    assert retrieval.span.trace_id in emission.trace_ids
    pointed_at = {(c.traceparent or "").split("-")[2] for c in later.injected}
    assert pointed_at <= ids


def test_every_link_of_the_rebuilt_trace_leads_to_a_span_that_is_sent() -> None:
    provider = dropping()
    with memory_at(provider) as memory:
        work(memory, provider)
        sent, _ = emitted(memory)
    ids = {span.get_span_context().span_id for span in sent.spans}
    linked = {link.context.span_id for span in sent.spans for link in span.links}
    relations = {(link.attributes or {})[names.RELATION] for s in sent.spans for link in s.links}
    assert linked <= ids
    assert relations == {"written_by", "previous_session"}
    assert all(link.context.trace_flags.sampled for span in sent.spans for link in span.links)


def test_the_writes_of_other_tasks_come_along_under_their_own_names() -> None:
    provider = dropping()
    with memory_at(provider) as memory:
        work(memory, provider)
        sent, _ = emitted(memory)
    tasks = {
        (span.name, (span.attributes or {})[names.TASK_ID])
        for span in sent.spans
        if span.name == "upsert_memory"
    }
    assert tasks == {("upsert_memory", "t_0401"), ("upsert_memory", TASK)}
    (foreign,) = (s for s in sent.spans if (s.attributes or {})[names.TASK_ID] == "t_0401")
    assert (foreign.attributes or {})[names.PROPOSAL_COUNT] == 6


def test_a_rebuilt_span_is_marked_and_its_times_are_those_of_now() -> None:
    with memory_at(dropping()) as memory:
        work(memory)
        sent, _ = emitted(memory)
    for span in sent.spans:
        attributes = span.attributes or {}
        assert attributes[names.REBUILT] is True
        assert str(attributes[names.ORIGINAL_TIME]).startswith("2026-03-02T09:")
        assert span.parent is None
        assert span.start_time
    starts = [span.start_time or 0 for span in sent.spans]
    originals = [(span.attributes or {})[names.ORIGINAL_TIME] for span in sent.spans]
    assert starts == sorted(starts)
    assert originals == sorted(originals)
    assert starts[0] > time.time_ns() - 60 * 10**9


def test_the_verdict_that_was_given_stands_on_the_tasks_span() -> None:
    provider = dropping()
    with memory_at(provider) as memory:
        needed = work(memory, provider)
        memory.diagnose(TASK, workspace_id=W, need=Need(record_ids=(needed,)))
        sent, _ = emitted(memory)
    (finished,) = sent.named("memory_task")
    attributes = finished.attributes or {}
    assert attributes[names.TASK_SUCCESS] is False
    assert attributes[names.VERDICT_CAUSE] == "below_cutoff"
    assert attributes[names.VERDICT_RANK] == 7


def test_a_sampler_in_the_environment_drops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    with memory_at(dropping()) as memory:
        work(memory)
        sent, emission = emitted(memory)
    assert emission.spans == len(sent.spans) == 6


# ---------------------------------------------------------------- what became of its records


def forgotten_and_replaced(memory: Memory) -> dict[str, str]:
    """What becomes of four records after they were recalled, by their ids."""
    wrote = MemoryContext(W, "s_0", task_id="t_0401")
    old = memory.write("The auditor is Hale.", claim={"auditor": "Hale"}, context=wrote)
    both = memory.write("The chair is Ann.", claim={"chair": "Ann"}, context=wrote)
    gone = memory.write("The board meets on Mondays.", context=wrote)
    idle = memory.write("The board room is blue.", context=wrote)
    context = MemoryContext(W, "s_1", task_id=TASK)
    memory.recall("auditor board chair", context=context)
    memory.report(context=context, succeeded=False)
    later = MemoryContext(W, "s_2", task_id="t_0502")
    memory.write("The auditor is Moss.", claim={"auditor": "Moss"}, context=later)
    memory.write("The chair is Bob.", claim={"chair": "Bob"}, context=later)
    for record in (gone, both):
        memory.forget(record.record_id or "", context=later, reason="asked")
    ledger = memory.backend.ledger
    ledger.records.set_status(W, idle.record_id or "", "evicted", memory.backend.clock.now())
    states = ((old, "superseded"), (both, "forgotten"), (gone, "forgotten"), (idle, "evicted"))
    return {receipt.record_id or "": status for receipt, status in states}


def test_that_a_record_was_replaced_forgotten_or_evicted_later_is_in_the_rebuilt_trace() -> None:
    with memory_at(dropping()) as memory:
        states = forgotten_and_replaced(memory)
        sent, _ = emitted(memory)
        record = memory.task_record(TASK, workspace_id=W)
    found = record_from_spans(read_back(sent.spans), W, TASK)
    assert found is not None
    assert comparable(found, "hash") == comparable(record, "hash")
    assert {entry.record_id: entry.status for entry in found.writes} == states


def test_turns_that_nobody_kept_do_not_hide_what_was_taken_from_them() -> None:
    config = MemoryConfig(floor=-1.0, policy="similarity", keep_turns="off")
    with memory_for_tests(tracer_provider=dropping(), config=config) as memory:
        work(memory)
        sent, _ = emitted(memory)
        record = memory.task_record(TASK, workspace_id=W)
    found = record_from_spans(read_back(sent.spans), W, TASK)
    assert found is not None
    assert comparable(found, "hash") == comparable(record, "hash")


def test_a_failed_extraction_is_in_the_rebuilt_trace() -> None:
    context = MemoryContext(W, "s_1", task_id=TASK)
    with memory_at(dropping()) as memory:
        said = [{"role": "user", "content": "net of tax"}]
        memory.remember(said, context=context, model=ScriptedChatModel(["no JSON"]))
        sent, _ = emitted(memory)
        record = memory.task_record(TASK, workspace_id=W)
    found = record_from_spans(read_back(sent.spans), W, TASK)
    assert found is not None
    assert comparable(found, "hash") == comparable(record, "hash")
    assert [entry.gate for entry in found.writes] == ["failed"]


# ---------------------------------------------------------------- once


def test_a_task_is_emitted_once_and_again_only_when_asked() -> None:
    with memory_at(dropping()) as memory:
        work(memory)
        first, done = emitted(memory)
        second, refused = emitted(memory)
        third, forced = emitted(memory, again=True)
    assert done.spans == len(first.spans) == 6
    assert second.spans == []
    assert refused.spans == 0
    assert refused.before is not None
    assert forced.spans == 6
    assert [s.context for s in third.spans] == [s.context for s in first.spans]


def test_a_task_that_was_sampled_is_not_sent_twice() -> None:
    with memory_at(TracerProvider()) as memory:
        work(memory)
        sent, done = emitted(memory)
    assert sent.spans == []
    assert done.was_sampled


def test_of_a_task_that_was_sampled_in_part_the_other_part_is_sent() -> None:
    context = MemoryContext(W, "s_1", task_id=TASK)
    later = MemoryContext(W, "s_2", task_id=TASK)
    with memory_at(TracerProvider()) as memory:
        memory.recall("?", context=context)
        ledger = memory.backend.ledger
        unsampled = memory.backend.tracing.on(TracerProvider(sampler=ALWAYS_OFF))
        object.__setattr__(memory.backend, "tracing", unsampled)
        memory.recall("?", context=later)
        sent, _ = emitted(memory)
        assert len(ledger.history.task_rows(W, TASK).retrievals) == 2
    sessions = [(span.attributes or {})[names.SESSION_ID] for span in sent.spans]
    assert sessions == ["s_2"]


def test_what_did_not_arrive_was_not_emitted() -> None:
    with memory_at(dropping()) as memory:
        work(memory)
        with pytest.raises(ConfigError, match="did not arrive"):
            emit(memory.backend, W, TASK, Sent(works=False), service="agent")
        sent, _ = emitted(memory)
    assert len(sent.spans) == 6


def test_a_task_that_is_not_there_is_an_error() -> None:
    with memory_at(None) as memory:
        work(memory)
        with pytest.raises(ConfigError, match="has no task 't_9'"):
            emitted(memory, "t_9")
        with pytest.raises(ConfigError, match="has no task"):
            emit(memory.backend, "ws_other", TASK, Sent(), service="agent")
