"""Sampling by task: whole tasks are kept, in every process, and at the ratio asked for."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, context, trace
from opentelemetry.propagate import extract, inject
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState
from scipy.stats import binom

from memplugin import MemoryContext
from memplugin.errors import ConfigError
from memplugin.telemetry.sampling import TaskSampler, bucket, randomness, task_baggage, task_sampler
from memplugin.testing import SpanCapture, memory_for_tests
from tests.telemetry.sampled_sessions import open_sessions

WELL_FORMED = re.compile(
    r"ot=(?:th:(?:0|[0-9a-f]{0,13}[1-9a-f]);)?rv:[0-9a-f]{14}"  # as the specification has them
)


def state_of(span: Any) -> str:
    return span.get_span_context().trace_state.to_header()


def parent(state: TraceState, *, valid: bool = True) -> context.Context:
    ids = (0x5, 0x6) if valid else (0, 0)
    return trace.set_span_in_context(
        NonRecordingSpan(SpanContext(*ids, is_remote=True, trace_state=state))
    )


def decide(ratio: float, task: str | None, **arguments: Any) -> Any:
    attributes = {"memplugin.task.id": task} if task else {}
    arguments = {"parent_context": context.Context(), "trace_id": 1} | arguments
    return TaskSampler(ratio).should_sample(name="s", attributes=attributes, **arguments)


# ---------------------------------------------------------------- whole tasks, at the ratio


def test_of_10000_tasks_with_3_sessions_in_3_processes_none_is_split() -> None:
    tasks, ratio = 10_000, 1 / 50
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=3, mp_context=spawn) as pool:
        runs = [pool.submit(open_sessions, process, tasks, ratio) for process in range(3)]
        first, second, third = (run.result() for run in runs)
    assert first == second == third
    low, high = binom.interval(0.999, tasks, ratio)
    assert low <= sum(sampled for sampled, _ in first) <= high
    assert all(WELL_FORMED.fullmatch(state) for _, state in first)
    assert {"th:" in state for sampled, state in first if sampled} == {True}
    assert {"th:" in state for sampled, state in first if not sampled} == {False}


def test_the_numbers_are_those_of_the_specification() -> None:
    # printf t_0417 | sha256sum; and 2**56 - round(2**56 / 50), with its zeros trimmed.
    assert randomness("t_0417") == 0x6BE86154EEAF85
    kept = decide(1.0, "t_0417")
    assert kept.trace_state.to_header() == "ot=th:0;rv:6be86154eeaf85"
    assert TaskSampler(1 / 50)._threshold == 0xFAE147AE147AE1


@pytest.mark.parametrize(
    ("ratio", "threshold"), [(1.0, "0"), (0.5, "8"), (0.25, "c"), (2**-56, "ffffffffffffff")]
)
def test_a_thresholds_trailing_zeros_are_trimmed(ratio: float, threshold: str) -> None:
    highest = parent(TraceState([("ot", "rv:ffffffffffffff")]))
    kept = decide(ratio, None, parent_context=highest)
    assert kept.trace_state.get("ot") == f"th:{threshold};rv:ffffffffffffff"


def test_ratio_0_keeps_nothing_and_ratio_1_everything() -> None:
    for number in range(1_000):
        assert decide(0.0, f"t_{number}").decision is Decision.DROP
        assert decide(1.0, f"t_{number}").decision is Decision.RECORD_AND_SAMPLE


@pytest.mark.parametrize("ratio", [-0.01, 1.01, math.nan, math.inf, "0.02"])
def test_a_ratio_that_is_none_is_refused(ratio: Any) -> None:
    with pytest.raises(ConfigError, match="from 0 to 1"):
        task_sampler(ratio)


@given(task=st.text(min_size=1), ratio=st.floats(0, 1))
def test_any_task_id_gives_a_well_formed_state_that_agrees_with_the_decision(
    task: str, ratio: float
) -> None:
    result = decide(ratio, task)
    state = result.trace_state.to_header()
    assert WELL_FORMED.fullmatch(state)
    if result.decision is Decision.RECORD_AND_SAMPLE:
        _, threshold, number = re.split(r"th:|;rv:", state)
        assert int(number, 16) >= int(threshold.ljust(14, "0"), 16)


@given(task=st.text(min_size=1), lower=st.floats(0, 1), higher=st.floats(0, 1))
def test_what_is_kept_at_a_ratio_is_kept_at_every_higher_one(
    task: str, lower: float, higher: float
) -> None:
    lower, higher = sorted((lower, higher))
    if decide(lower, task).decision is Decision.RECORD_AND_SAMPLE:
        assert decide(higher, task).decision is Decision.RECORD_AND_SAMPLE


# ---------------------------------------------------------------- what decides


def test_the_task_in_the_attributes_wins_over_the_one_in_the_baggage() -> None:
    ambient = baggage.set_baggage("memplugin.task.id", "t_other", context.Context())
    assert decide(1.0, "t_0417", parent_context=ambient).trace_state.get("ot") == (
        "th:0;rv:6be86154eeaf85"
    )


@pytest.mark.parametrize("key", ["memplugin.session.id", "gen_ai.conversation.id"])
def test_without_a_task_the_session_decides(key: str) -> None:
    result = TaskSampler(1.0).should_sample(context.Context(), 1, "s", attributes={key: "s_1"})
    assert result.trace_state.get("ot") == f"th:0;rv:{hashlib.sha256(b's_1').hexdigest()[:14]}"
    assert result.attributes["memplugin.task.bucket"] == bucket(randomness("s_1"))


def test_without_either_the_trace_id_decides_and_the_ratio_holds() -> None:
    provider = TracerProvider(sampler=task_sampler(0.25))
    tracer = provider.get_tracer("host")
    spans = [tracer.start_span("request", context=context.Context()) for _ in range(2_000)]
    kept = [span for span in spans if span.get_span_context().trace_flags.sampled]
    low, high = binom.interval(0.999, 2_000, 0.25)
    assert low <= len(kept) <= high
    # The trace id is the randomness, so none is spelled out.
    assert {state_of(span) for span in kept} == {"ot=th:c"}
    assert all((span.get_span_context().trace_id & (2**56 - 1)) >= 0xC << 52 for span in kept)


def test_a_hosts_root_inside_the_tasks_block_is_decided_by_the_task() -> None:
    capture = SpanCapture(TracerProvider(sampler=task_sampler(0.5)))
    host = capture.provider.get_tracer("host")
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        for number in range(40):
            task_id = f"t_{number}"
            with memory.task(task_id, workspace_id="ws") as task:
                with host.start_as_current_span("request"):
                    memory.recall("?", context=task.context("s_1"))
                with host.start_as_current_span("request"):
                    memory.recall("?", context=task.context("s_2"))
    shown: dict[str, set[str]] = {}
    for span in capture.named("search_memory"):
        attributes = span.attributes or {}
        sessions = shown.setdefault(str(attributes["memplugin.task.id"]), set())
        sessions.add(str(attributes["memplugin.session.id"]))
    wanted = {f"t_{number}" for number in range(40) if randomness(f"t_{number}") >= 1 << 55}
    assert shown == {task_id: {"s_1", "s_2"} for task_id in wanted}


def test_a_hosts_root_that_starts_before_the_task_is_known_decides_for_its_whole_trace() -> None:
    capture = SpanCapture(TracerProvider(sampler=task_sampler(0.5)))
    host = capture.provider.get_tracer("host")
    agreed = 0
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        for number in range(40):
            with host.start_as_current_span("request") as request:
                found = memory.recall("?", context=MemoryContext("ws", "s", task_id=f"t_{number}"))
            assert found.span
            assert found.span.sampled == request.get_span_context().trace_flags.sampled
            agreed += found.span.sampled == (randomness(f"t_{number}") >= 1 << 55)
    assert agreed < 40  # the traces are whole, the tasks need not be


def test_a_remote_parents_decision_is_followed() -> None:
    provider = TracerProvider(sampler=task_sampler(1.0))
    for flags in (TraceFlags.DEFAULT, TraceFlags.SAMPLED):
        remote = SpanContext(
            5,
            6,
            is_remote=True,
            trace_flags=TraceFlags(flags),
            trace_state=TraceState([("v", "1")]),
        )
        span = provider.get_tracer("host").start_span(
            "request", trace.set_span_in_context(NonRecordingSpan(remote))
        )
        assert span.get_span_context().trace_flags.sampled == bool(flags)
        assert state_of(span) == "v=1"


def test_the_decision_travels_to_another_service_in_w3c_headers() -> None:
    here, there = (TracerProvider(sampler=task_sampler(1.0)) for _ in range(2))
    headers: dict[str, str] = {}
    with here.get_tracer("gateway").start_as_current_span(
        "request", attributes={"memplugin.task.id": "t_0417"}
    ):
        inject(headers)
    span = there.get_tracer("agent").start_span("run", extract(headers))
    assert state_of(span) == headers["tracestate"] == "ot=th:0;rv:6be86154eeaf85"


@pytest.mark.parametrize("task", ["t \ud800", "nul \x00", "é" * 3_000, "a, b; c=d"])
def test_an_awkward_task_id_is_the_same_task_in_baggage_and_on_our_spans(task: str) -> None:
    capture = SpanCapture(TracerProvider(sampler=task_sampler(1.0)))
    context_ = MemoryContext("ws", "s", task_id=task)
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        memory.recall("?", context=context_)
        with task_baggage(task):
            headers: dict[str, str] = {}
            inject(headers)
            capture.provider.get_tracer("host").start_span("request").end()
    (ours,), (hosts,) = capture.named("search_memory"), capture.named("request")
    assert state_of(ours) == state_of(hosts)
    assert buckets([ours]) == buckets([hosts])


# ---------------------------------------------------------------- what else stands in tracestate


def test_other_members_and_other_vendors_entries_are_kept() -> None:
    state = TraceState([("congo", "t61rcWkgMzE"), ("ot", "p:8;th:c;k1:7"), ("rojo", "00f067aa")])
    result = decide(1.0, "t_0417", parent_context=parent(state))
    assert result.trace_state.to_header() == (
        "ot=th:0;rv:6be86154eeaf85;p:8;k1:7,congo=t61rcWkgMzE,rojo=00f067aa"
    )


def test_a_dropped_traces_threshold_is_taken_out_and_the_rest_stays() -> None:
    state = TraceState([("ot", "p:8;th:c"), ("rojo", "00f067aa")])
    dropped = decide(0.0, "t_0417", parent_context=parent(state))
    assert dropped.trace_state.to_header() == "ot=rv:6be86154eeaf85;p:8,rojo=00f067aa"


def test_a_full_tracestate_loses_its_oldest_entry_and_not_ours() -> None:
    state = TraceState([(f"v{number}", "1") for number in range(32)])
    result = decide(1.0, "t_0417", parent_context=parent(state))
    assert list(result.trace_state) == ["ot", *(f"v{number}" for number in range(31))]


def test_a_member_that_no_longer_fits_goes_and_ours_stay() -> None:
    state = TraceState([("ot", f"k1:7;k2:{'x' * 240}")])
    result = decide(1.0, "t_0417", parent_context=parent(state))
    assert result.trace_state.get("ot") == "th:0;rv:6be86154eeaf85;k1:7"


# ---------------------------------------------------------------- buckets


def buckets(spans: list[ReadableSpan]) -> set[Any]:
    return {(span.attributes or {}).get("memplugin.task.bucket") for span in spans}


def test_the_bucket_is_on_our_spans_without_this_sampler(capture: SpanCapture) -> None:
    with memory_for_tests(tracer_provider=capture.provider) as memory:
        memory.recall("?", context=MemoryContext("ws", "s_1", task_id="t_0417"))
    assert buckets(capture.spans) == {0x6BE86154EEAF85 * 100 // 2**56} == {42}


def test_the_sampler_puts_the_bucket_on_the_hosts_root_and_keeps_its_attributes() -> None:
    capture = SpanCapture(TracerProvider(sampler=task_sampler(1.0)))
    ambient = baggage.set_baggage("memplugin.task.id", "t_0417", context.Context())
    host = capture.provider.get_tracer("host")
    host.start_span("request", ambient, attributes={"url.path": "/chat"}).end()
    assert capture.attributes("request") == [{"url.path": "/chat", "memplugin.task.bucket": 42}]


def test_the_highest_buckets_are_the_tasks_that_the_ratio_keeps() -> None:
    for number in range(10_000):
        task = f"t_{number}"
        kept = decide(1 / 50, task).decision is Decision.RECORD_AND_SAMPLE
        assert kept == (bucket(randomness(task)) >= 98)
