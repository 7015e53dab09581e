"""The board pack, read from its traces: the same record as the ledger's, act after act."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from memplugin import Memory, MemoryConfig, Need, Verdict
from memplugin.demo import board_pack as story
from memplugin.demo import models as scripted
from memplugin.demo.board_pack import run_story
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_from_spans import evidence_from_spans
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.telemetry.readers.model import ReadSpan
from memplugin.testing import FixedClock, SpanCapture
from tests.telemetry.reading_back import comparable


@dataclass(frozen=True)
class Act:
    """One act: what the ledger says, and the spans so far."""

    mode: str
    record: TaskRecord
    verdict: Verdict
    spans: list[ReadSpan]

    @property
    def traced(self) -> TaskRecord:
        found = record_from_spans(self.spans, story.WORKSPACE, self.record.task_id)
        assert found is not None
        return found


@pytest.fixture(scope="module", params=["none", "hash", "full"])
def acts(request: Any, minilm: Any, tmp_path_factory: pytest.TempPathFactory) -> list[Act]:
    folder: Path = tmp_path_factory.mktemp("story")
    capture = SpanCapture()

    def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
        traced = replace(config, content_on_spans=request.param)
        return Memory.open(
            folder,
            embeddings=minilm,
            config=traced,
            clock=clock,
            tracer_provider=capture.provider,
        )

    models = scripted.extractor(), scripted.decider()
    tracer = capture.provider.get_tracer("story")
    return [
        Act(request.param, played.record, played.verdict, capture.read())
        for played in run_story(open_memory, *models, MemoryConfig(), tracer)
    ]


def test_every_acts_record_is_the_ledgers(acts: list[Act]) -> None:
    assert len(acts) == 3
    for act in acts:
        assert comparable(act.traced, act.mode) == comparable(act.record, act.mode)


def test_the_needed_record_gets_the_ledgers_verdict(acts: list[Act]) -> None:
    second, third = acts[1], acts[2]
    assert (second.verdict.stage, second.verdict.cause, second.verdict.rank) == (
        "retrieval",
        "below_cutoff",
        7,
    )
    needed = Need(record_ids=(second.verdict.record_id or "",))
    verdicts = [
        attribute(act.traced, needed, evidence_from_spans(act.spans, act.traced, needed))
        for act in (second, third)
    ]
    assert [(v.stage, v.cause, v.rank) for v in verdicts] == [
        ("retrieval", "below_cutoff", 7),
        ("none", "passed", None),
    ]


def test_what_was_never_proposed_is_only_in_the_ledger(acts: list[Act]) -> None:
    first = acts[0]
    assert (first.verdict.stage, first.verdict.cause) == ("write", "never_proposed")
    evidence = evidence_from_spans(first.spans, first.traced, story.NEED)
    verdict = attribute(first.traced, story.NEED, evidence)
    assert (verdict.stage, verdict.cause) == ("undetermined", "not_traced")
    assert "ledger" in verdict.next_step
