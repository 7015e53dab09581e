"""One task, played: what was said is remembered, the request is answered, and judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.evaluation.agents import Agent, Asked
from memplugin.evaluation.answers import answer_model
from memplugin.evaluation.costs import added, cost_of, tokens_spent
from memplugin.evaluation.grading import is_right
from memplugin.evaluation.results import Cost, TaskRun
from memplugin.evaluation.suite import Task
from memplugin.evaluation.telling import remember_session, turn_id, write_records
from memplugin.memory.diagnosing import judge
from memplugin.memory.front import Memory
from memplugin.memory.task import Task as Block
from memplugin.records import Json, Need
from memplugin.testing.fakes import FixedClock

RECORDS_SESSION = "s_records"
REQUEST_SESSION = "s_request"
DAY = timedelta(days=1)


Probe = Callable[[Memory, TaskRecord], None]


@dataclass(frozen=True, slots=True)
class Models:
    """The chat models of a run; all the caller's.

    Attributes:
        judge: For tasks that are judged by a model.
    """

    extractor: BaseChatModel
    decider: BaseChatModel
    judge: BaseChatModel | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """One task on its store.

    Attributes:
        remembers: False in the arm without memory: nothing is written.
        corrections: How often a user corrects a wrong answer before giving up.
        ids: Records that are there already, by their keys.
        probe: Looks at the task after its first answer, counterfactuals say; what it leaves
            in the ledger is part of the task's record.
        timer: Seconds, to take differences of.
    """

    task: Task
    arm: str
    workspace_id: str
    memory: Memory
    clock: FixedClock
    models: Models
    agent: Agent
    timer: Callable[[], float]
    probe: Probe | None = None
    remembers: bool = True
    corrections: int = 0
    ids: Mapping[str, str] = field(default_factory=dict[str, str])

    def context(self, session_id: str, user: str | None = None) -> MemoryContext:
        """The context of one session of the task."""
        return MemoryContext(
            self.workspace_id, session_id, task_id=self.task.id, user_id=user, arm=self.arm
        )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One answer, judged."""

    answer: Json | None
    success: bool
    record: TaskRecord
    cost: Cost


def play(stage: Stage) -> TaskRun:
    """Plays a task from its first session to the verdict on it.

    Raises:
        ConfigError: the suite asks for something that can't be done.
        MemPluginError: the task could not be played to its end.
    """
    task = stage.task
    with stage.memory.task(task.id, workspace_id=stage.workspace_id, arm=stage.arm) as block:
        with tokens_spent() as remembering:
            ids = _told(stage) if stage.remembers else {}
        stage.clock.set(task.asks_at)
        first = _attempt(stage, block, 1, task.request.text)
        record = _probed(stage, block, first.record)
        if stage.remembers:
            block.verdict = judge(stage.memory.store, record, _need(stage, ids))
        corrections, cost = _corrected(stage, block, first)
    return TaskRun(
        task_id=task.id,
        arm=stage.arm,
        tags=task.tags,
        success=first.success,
        answer=first.answer,
        corrections=corrections,
        cost=replace(cost, tokens_remembering=remembering.total),
        record=record,
        verdict=block.verdict,
    )


def _told(stage: Stage) -> dict[str, str]:
    """Writes the records and remembers the sessions; returns the records by their keys."""
    task, memory = stage.task, stage.memory
    context = stage.context(RECORDS_SESSION)
    stage.clock.set(task.begins - DAY)
    ids = {**stage.ids, **write_records(memory, task.records, context)}
    for session_id, session in task.named_sessions:
        said_in = stage.context(session_id, session.user)
        remember_session(memory, session, said_in, stage.models.extractor, stage.clock)
    for record in task.records:
        if record.forgotten and record.key:
            memory.forget(ids[record.key], context=context, reason="as the suite says")
    return ids


def _probed(stage: Stage, block: Block, record: TaskRecord) -> TaskRecord:
    if stage.probe is None:
        return record
    stage.probe(stage.memory, record)
    return block.record()


def _need(stage: Stage, ids: Mapping[str, str]) -> Need:
    task, said = stage.task, stage.task.need.said
    turn = None
    if said:
        session = dict(task.named_sessions)[said.session]
        turn = turn_id(session, said.turn, stage.context(said.session, session.user))
    return task.need.to_need(ids, turn, should_use=task.should_use)


def _attempt(stage: Stage, block: Block, number: int, question: str) -> _Attempt:
    task, memory = stage.task, stage.memory
    context = replace(
        stage.context(REQUEST_SESSION, task.request.user), scope=task.request.scope, attempt=number
    )
    shape = answer_model(task.answer)
    asked = Asked(memory, context, task.request, question, shape, stage.models.decider)
    begun = stage.timer()
    with tokens_spent() as spent:
        answer = stage.agent(asked)
    took = (stage.timer() - begun) * 1_000
    success = is_right(task, answer, stage.models.judge)
    action = json.dumps(answer, ensure_ascii=False) if answer is not None else None
    memory.report(context=context, succeeded=success, action=action)
    record = block.record()
    cost = cost_of(memory.store, record, spent, took, question, answer or {})
    return _Attempt(answer, success, record, cost)


def _corrected(stage: Stage, block: Block, first: _Attempt) -> tuple[int, Cost]:
    """A user corrects the answer until it is right, or gives up."""
    attempt, cost, question = first, first.cost, stage.task.request.text
    for number in range(1, stage.corrections + 1):
        if attempt.success:
            return number - 1, cost
        question = f"{question}\n\nThat was wrong. {_correction(stage.task)}"
        attempt = _attempt(stage, block, number + 1, question)
        cost = added(cost, attempt.cost)
    return stage.corrections, cost


def _correction(task: Task) -> str:
    right = task.success.exact or task.success.regex or task.success.judge
    return task.correction or task.need.text or f"Right would be: {right}"
