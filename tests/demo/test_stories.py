"""Every story of the demo ends as it is described, on the real embedding model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from memplugin import Memory, MemoryConfig
from memplugin.demo import board_pack, escalation, hardening, models, wasp
from memplugin.telemetry.sampling import task_sampler
from memplugin.testing import FixedClock, SpanCapture, memory_for_tests

OpenMemory = Callable[[MemoryConfig, FixedClock], Memory]


@pytest.fixture
def open_memory(minilm: Any, tmp_path: Path) -> OpenMemory:
    """Opens one store again and again."""
    return lambda config, clock: Memory.open(
        tmp_path, embeddings=minilm, config=config, clock=clock
    )


def test_the_board_pack_fails_twice_and_passes(open_memory: OpenMemory) -> None:
    tracer = trace.get_tracer("board_pack")  # a no-op: nobody has set a provider
    scripted = models.extractor(), models.decider()
    acts = list(board_pack.run_story(open_memory, *scripted, MemoryConfig(), tracer))
    assert [f"{act.verdict.stage} / {act.verdict.cause}" for act in acts] == [
        "write / never_proposed",
        "retrieval / below_cutoff",
        "none / passed",
    ]


def test_the_production_escalation_can_be_diagnosed_from_the_kept_traces() -> None:
    kept = SpanCapture(TracerProvider(sampler=task_sampler(escalation.RATIO)))
    clock = FixedClock(escalation.START)
    with memory_for_tests(
        config=escalation.CONFIG, clock=clock, tracer_provider=kept.provider
    ) as memory:
        tracer = kept.provider.get_tracer("production_escalation")
        backend = escalation.TraceBackend(kept.read, kept.add)
        ended = escalation.run_story(memory, clock, tracer, backend, tasks=400)
    assert (ended.tasks, ended.sessions, ended.split) == (400, 800, ())
    assert {one.agree for one in ended.judged if one.from_traces} == {True}


def test_the_hardening_run_ends_with_the_misleading_tips_gone(open_memory: OpenMemory) -> None:
    ended = hardening.run_story(open_memory)
    assert (len(ended.audit.misleading), len(ended.evicted)) == (5, 5)
    assert ended.afterwards[-1].passed


def test_the_wasp_work_order_shows_both_rankings_and_both_rules(open_memory: OpenMemory) -> None:
    ended = wasp.run_story(open_memory, MemoryConfig())
    ranked = [
        f"{candidate.rank}  {candidate.score:.2f}  {candidate.content}"
        for ranking in ended.rankings
        for candidate in ranking.candidates
    ]
    assert any(line.startswith("1  1.91  The onsite manager") for line in ranked)
    assert any(line.startswith("4  0.81  Primex") for line in ranked)
    assert {
        ("retrieval", "below_cutoff"),
        ("use", "overridden"),
        ("none", "passed"),
    } <= {(act.verdict.stage, act.verdict.cause) for act in ended.acts}
    plumber = ended.plumber
    assert f"{plumber.started:.2f} before, {plumber.beta:.2f} after" == "0.81 before, 0.87 after"
    assert f"{plumber.ema:.2f}" == "0.50"
