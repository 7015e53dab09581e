"""Traces alone give the record and the verdict that the ledger gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest

from memplugin import MemoryConfig, Need, Verdict
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_from_spans import evidence_from_spans
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.telemetry.readers.model import ReadSpan
from memplugin.testing import SpanCapture, memory_for_tests
from tests.diagnosis import test_attribution as planted
from tests.telemetry.reading_back import comparable

MODES = ("none", "hash", "truncate", "full")
FAULTS = {
    name.removeprefix("test_"): fault
    for name, fault in vars(planted).items()
    if name.startswith("test_")
}
WITHOUT_A_RECORD = {
    "said_in_a_turn_and_never_proposed",
    "not_said_by_anyone",
    "said_only_after_the_task_had_asked",
    "said_before_and_extracted_only_after_the_task_had_asked",
    "a_proposal_that_the_gate_rejected",
    "an_extraction_that_failed",
    "a_record_about_another_thing_said_in_the_same_turn_distorts_nothing",
    "without_turns_never_said_cannot_be_told_from_never_proposed",
    "without_a_need_nothing_is_blamed",
    "every_verdict_says_what_to_do_next",
}
"""Faults whose verdict names no record, so that there is no need by ids."""

WITHOUT_A_TEXT = {
    "a_record_superseded_before_the_query",
    "a_record_forgotten_before_the_query",
    "a_record_beyond_the_depth_has_its_exact_rank",
    "a_record_below_the_cut_off",
    "a_record_cut_for_space",
    "a_record_cut_by_the_floor",
    "a_record_that_was_not_to_be_used_is_rightly_ignored",
    "a_passing_task_gets_no_verdict",
    "without_a_need_nothing_is_blamed",
    "a_task_that_failed_for_two_reasons_counts_at_the_earliest",
}
"""Faults whose need is given by ids, or not at all."""


@dataclass
class Diagnosed:
    """A need, and the verdict of the ledger on it."""

    need: Need
    verdict: Verdict


@dataclass
class TracedStory(planted.Story):
    """A story that keeps every need and verdict."""

    diagnosed: list[Diagnosed] = field(default_factory=list)
    records: list[TaskRecord] = field(default_factory=list)

    def verdict(self, need: Need = planted.CORRECTION) -> Verdict:
        verdict = super().verdict(need)
        self.records.append(self.memory.task_record(planted.TASK, workspace_id=planted.W))
        self.diagnosed.append(Diagnosed(need, verdict))
        if verdict.record_id and not need.record_ids:
            by_id = replace(need, record_ids=(verdict.record_id,), text=None)
            self.diagnosed.append(Diagnosed(by_id, super().verdict(by_id)))
        return verdict


@dataclass
class Run:
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


@cache
def replayed_run(fault: str, mode: Any) -> Run:
    """Runs a fault once for all tests."""
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
        _run(FAULTS[fault], memory, story, monkeypatch)
    return Run(mode, stories[-1], capture.read())


def _run(fault: Callable[..., None], memory: Any, story: Any, monkeypatch: Any) -> None:
    parameters = inspect.signature(fault).parameters
    if "story" not in parameters:
        fault()
        return
    with memory() as opened:
        given = {"story": story(opened), "monkeypatch": monkeypatch}
        fault(**{name: given[name] for name in parameters})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", FAULTS)
def test_the_record_is_the_ledgers(fault: str, mode: str) -> None:
    run = replayed_run(fault, mode)
    for record in run.story.records:
        expected, found = comparable(record, run.mode), comparable(run.record, run.mode)
        for ledgers, spans in zip(expected["writes"], found["writes"], strict=True):
            if spans["indexed_at"] is None:  # draining the outbox later is no hop, and has no span
                ledgers["indexed_at"] = None
        assert found == expected


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in WITHOUT_A_RECORD])
def test_a_need_by_record_ids_gets_the_ledgers_verdict_in_every_mode(fault: str, mode: str) -> None:
    run = replayed_run(fault, mode)
    by_ids = [one for one in run.story.diagnosed if one.need.record_ids]
    assert by_ids
    for one in by_ids:
        expected, found = one.verdict, run.verdict(one.need)
        assert (found.stage, found.cause, found.record_id) == (
            expected.stage,
            expected.cause,
            expected.record_id,
        )
        assert found.rank in (expected.rank, None)
        assert found.rank == expected.rank or found.cause == "beyond_depth"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in WITHOUT_A_TEXT])
def test_a_need_by_text_is_answered_as_by_the_ledger_or_not_at_all(fault: str, mode: str) -> None:
    run = replayed_run(fault, mode)
    by_text = [d for d in run.story.diagnosed if d.need.text and not d.need.record_ids]
    assert by_text
    for one in by_text:
        found = run.verdict(one.need)
        known = (found.stage, found.cause) == (one.verdict.stage, one.verdict.cause)
        missing = (found.stage, found.cause) == ("undetermined", "not_traced")
        assert known or missing
        assert run.mode == "full" or missing or found.cause == "passed"
