"""Traces alone give the record and the verdict that the ledger gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from memplugin import MemoryConfig, Need, Verdict
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_from_spans import evidence_from_spans
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.telemetry.readers.model import ReadSpan
from memplugin.testing import SpanCapture, memory_for_tests
from tests.diagnosis import test_attribution_by_planted_faults as planted
from tests.telemetry.reading_back import comparable

MODES = ("none", "hash", "truncate", "full")
FAULTS = [fault for name, fault in vars(planted).items() if name.startswith("test_")]


@dataclass
class Asked:
    """A need, and what the ledger said of it."""

    need: Need
    verdict: Verdict


@dataclass
class TracedStory(planted.Story):
    """A story that keeps what it was asked."""

    asked: list[Asked] = field(default_factory=list)
    records: list[TaskRecord] = field(default_factory=list)

    def verdict(self, need: Need = planted.CORRECTION) -> Verdict:
        verdict = super().verdict(need)
        self.records.append(self.memory.task_record(planted.TASK, workspace_id=planted.W))
        self.asked.append(Asked(need, verdict))
        if verdict.record_id and not need.record_ids:
            by_id = replace(need, record_ids=(verdict.record_id,), text=None)
            self.asked.append(Asked(by_id, super().verdict(by_id)))
        return verdict


@dataclass
class Played:
    """What a planted fault left in the ledger, and on spans."""

    mode: str
    story: TracedStory
    spans: list[ReadSpan]

    @property
    def record(self) -> TaskRecord:
        found = record_from_spans(self.spans, planted.W, planted.TASK)
        assert found is not None
        return found

    def verdict(self, need: Need) -> Verdict:
        return attribute(self.record, need, evidence_from_spans(self.spans, self.record, need))


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(
    scope="module", params=FAULTS, ids=lambda fault: fault.__name__.removeprefix("test_")
)
def played(request: pytest.FixtureRequest, mode: Any) -> Played:
    capture, stories = SpanCapture(), list[TracedStory]()

    def memory(config: MemoryConfig | None = None, **_: Any) -> Any:
        config = config or MemoryConfig(floor=-1.0)
        traced = replace(config, content_on_spans=mode)
        return memory_for_tests(config=traced, tracer_provider=capture.provider)

    def story(of: Any) -> TracedStory:
        stories.append(TracedStory(of))
        return stories[-1]

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(planted, "memory_for_tests", memory)
        monkeypatch.setattr(planted, "Story", story)
        _play(request.param, memory, story, monkeypatch)
    return Played(mode, stories[-1], capture.read())


def _play(fault: Callable[..., None], memory: Any, story: Any, monkeypatch: Any) -> None:
    parameters = inspect.signature(fault).parameters
    if "story" not in parameters:
        fault()
        return
    with memory() as opened:
        given = {"story": story(opened), "monkeypatch": monkeypatch}
        fault(**{name: given[name] for name in parameters})


def test_the_record_is_the_ledgers(played: Played) -> None:
    for record in played.story.records:
        expected, found = comparable(record, played.mode), comparable(played.record, played.mode)
        for ledgers, spans in zip(expected["writes"], found["writes"], strict=True):
            if spans["indexed_at"] is None:  # draining the outbox later is no hop, and has no span
                ledgers["indexed_at"] = None
        assert found == expected


def test_a_need_by_record_ids_gets_the_ledgers_verdict_in_every_mode(played: Played) -> None:
    for asked in played.story.asked:
        if not asked.need.record_ids:
            continue
        expected, found = asked.verdict, played.verdict(asked.need)
        assert (found.stage, found.cause, found.record_id) == (
            expected.stage,
            expected.cause,
            expected.record_id,
        )
        assert found.rank in (expected.rank, None)
        assert found.rank == expected.rank or found.cause == "beyond_depth"


def test_a_need_by_text_is_answered_as_by_the_ledger_or_not_at_all(played: Played) -> None:
    for asked in played.story.asked:
        if asked.need.record_ids or not asked.need.text:
            continue
        found = played.verdict(asked.need)
        known = (found.stage, found.cause) == (asked.verdict.stage, asked.verdict.cause)
        missing = (found.stage, found.cause) == ("undetermined", "not_traced")
        assert known or missing
        assert played.mode == "full" or missing or found.cause == "passed"
