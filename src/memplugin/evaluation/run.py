"""Runs a suite: each task's sessions are remembered, its request is answered and graded."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError, MemPluginError
from memplugin.evaluation.agents import AGENTS, Agent, AgentRequest, Models
from memplugin.evaluation.grading import is_right
from memplugin.evaluation.results import (
    MEMORY_OFF,
    MEMORY_ON,
    Cost,
    Results,
    TaskRun,
    cost_of,
    in_suite_order,
    tokens_spent,
    with_tokens_of,
)
from memplugin.evaluation.setup import (
    StoreRequest,
    Stores,
    remember_session,
    task_ids,
    turn_id,
    with_parts,
    write_records,
)
from memplugin.evaluation.suite import DEFAULT_DATE, Suite, Task, answer_model, configured
from memplugin.memory.client import Memory
from memplugin.memory.diagnose import Task as TaskBlock
from memplugin.memory.diagnose import judge
from memplugin.records import Json, Need
from memplugin.testing.fakes import FixedClock

ARMS = (MEMORY_ON, MEMORY_OFF)

_RECORDS_SESSION = "s_records"
_REQUEST_SESSION = "s_request"
_DAY = timedelta(days=1)
_TICK = timedelta(seconds=1)
"""How far the clock of a task moves each time it is read."""

Probe = Callable[[Memory, TaskRecord], None]
"""Called after the first answer to a task; what it stores is part of the task's record."""


def _unchanged(task: Task, memory: Memory) -> Memory:
    del task
    return memory


@dataclass(frozen=True, slots=True)
class Lab:
    """What a run works with.

    Attributes:
        stores: Opens a store for each task.
        models: The models for a task. Real models are the same for all tasks.
        expect: Which verdict a task should get; for scripted models.
        config: Settings where neither task nor suite say otherwise.
        agent: Answers every request; None for the path that the task names.
        corrections: How often the user corrects a wrong answer before giving up.
        prepare: Changes the store of a task before it is run: for planted faults.
        probe: Called with each task that has memory after its first answer.
        timer: Returns seconds, of which differences are taken.
    """

    stores: Stores
    models: Callable[[Task], Models]
    expect: Callable[[Task], tuple[str, str] | None] = lambda _: None
    config: MemoryConfig = field(default_factory=MemoryConfig)
    agent: Agent | None = None
    corrections: int = 0
    prepare: Callable[[Task, Memory], Memory] = _unchanged
    probe: Probe | None = None
    timer: Callable[[], float] = time.perf_counter


def run_suite(
    suite: Suite,
    lab: Lab,
    results: Results,
    *,
    arms: tuple[str, ...] = (MEMORY_ON,),
    done: Callable[[TaskRun], None] = lambda _: None,
) -> list[TaskRun]:
    """Runs every task that has no result yet.

    Args:
        suite: The tasks.
        lab: What they are run with.
        results: Where the result of each task is stored; tasks with a result are not run.
        arms: ``memory_on``, ``memory_off`` or both.
        done: Called with each result, those that were there before too.

    Returns:
        All results, in the order of the suite.

    Raises:
        ConfigError: the suite or the lab asks for something that can't be done.
    """
    if unknown := set(arms) - set(ARMS):
        raise ConfigError(f"there is no arm {sorted(unknown)[0]!r}: use {' or '.join(ARMS)}.")
    finished = {(run.task_id, run.arm): run for run in results.runs}
    with ExitStack() as open_corpora:
        runner = _Runner(suite, lab, open_corpora)
        for task in suite.tasks:
            for arm in arms:
                run = finished.get((task.id, arm))
                if run is None:
                    run = runner.run(task, arm)
                    results.append(run)
                done(run)
    return in_suite_order(results.runs, [task.id for task in suite.tasks])


class _Runner:
    """Runs single tasks; the stores of corpora stay open between them."""

    def __init__(self, suite: Suite, lab: Lab, open_corpora: ExitStack) -> None:
        self._suite = suite
        self._lab = lab
        self._open = open_corpora
        self._corpora: dict[str, tuple[Memory, dict[str, str]]] = {}

    def run(self, task: Task, arm: str) -> TaskRun:
        try:
            with ExitStack() as closing:
                setting = self._setting(task, arm, closing)
                run = _run_task(setting)
                return replace(run, expected=self._lab.expect(task)) if setting.on else run
        except ConfigError:
            raise
        except MemPluginError as error:
            message = f"{type(error).__name__}: {error}"
            return TaskRun(task_id=task.id, arm=arm, tags=task.tags, error=message)

    def _setting(self, task: Task, arm: str, closing: ExitStack) -> _Setting:
        lab, ids = self._lab, task_ids(task.id)
        clock = FixedClock(task.starts_at, step=_TICK)
        config = self._suite.config(task, lab.config)
        if task.corpus and arm == MEMORY_ON:
            shared, keys = self._corpus(task.corpus)
            memory = with_parts(shared, config, clock, ids)
        else:
            wanted = StoreRequest(arm, task.id, config, clock, ids)
            memory, keys = closing.enter_context(lab.stores.opened(wanted)), dict[str, str]()
        return _Setting(
            task=task,
            arm=arm,
            memory=lab.prepare(task, memory) if arm == MEMORY_ON else memory,
            clock=clock,
            models=lab.models(task),
            lab=lab,
            keys=keys,
        )

    def _corpus(self, name: str) -> tuple[Memory, dict[str, str]]:
        if name not in self._corpora:
            clock = FixedClock(DEFAULT_DATE - _DAY, step=_TICK)
            config = configured(self._lab.config, self._suite.settings)
            wanted = StoreRequest(MEMORY_ON, name, config, clock, task_ids(name))
            memory = self._open.enter_context(self._lab.stores.opened(wanted))
            context = MemoryContext(name, _RECORDS_SESSION)
            keys = write_records(memory, self._suite.corpora[name], context)
            self._corpora[name] = memory, keys
        return self._corpora[name]


# ---------------------------------------------------------------- one task


@dataclass(frozen=True, slots=True)
class _Setting:
    """One task in one arm, with its store and models.

    Attributes:
        keys: The ids of the records of its corpus, by their keys.
    """

    task: Task
    arm: str
    memory: Memory
    clock: FixedClock
    models: Models
    lab: Lab
    keys: Mapping[str, str]

    @property
    def on(self) -> bool:
        """False in the arm without memory: nothing is written there."""
        return self.arm == MEMORY_ON

    @property
    def workspace_id(self) -> str:
        return self.task.corpus or self.task.id

    def context(self, session_id: str, user: str | None = None) -> MemoryContext:
        """The context of one session of the task."""
        return MemoryContext(
            self.workspace_id, session_id, task_id=self.task.id, user_id=user, arm=self.arm
        )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One answer and its grade."""

    answer: Json | None
    success: bool
    record: TaskRecord
    cost: Cost


def _run_task(setting: _Setting) -> TaskRun:
    """Runs a task from its first session to the verdict on it."""
    task, memory = setting.task, setting.memory
    with memory.task(task.id, workspace_id=setting.workspace_id, arm=setting.arm) as block:
        with tokens_spent() as remembering:
            ids = _remember(setting) if setting.on else {}
        setting.clock.set(task.request_at)
        first = _attempt(setting, block, 1, task.request.text)
        record = first.record
        if setting.on and setting.lab.probe:
            setting.lab.probe(memory, record)
            record = block.record()
        if setting.on:
            block.verdict = judge(memory.backend, record, _need(setting, ids))
        corrections, cost = _corrected(setting, block, first)
    return TaskRun(
        task_id=task.id,
        arm=setting.arm,
        tags=task.tags,
        success=first.success,
        answer=first.answer,
        corrections=corrections,
        cost=replace(cost, tokens_remembering=remembering.total),
        record=record,
        verdict=block.verdict,
    )


def _remember(setting: _Setting) -> dict[str, str]:
    """Writes the records and has the sessions remembered; returns the records by their keys."""
    task, memory = setting.task, setting.memory
    context = setting.context(_RECORDS_SESSION)
    setting.clock.set(task.starts_at - _DAY)
    ids = {**setting.keys, **write_records(memory, task.records, context)}
    for session_id, session in task.named_sessions:
        of_session = setting.context(session_id, session.user)
        remember_session(memory, session, of_session, setting.models.extractor, setting.clock)
    for record in task.records:
        if record.forgotten and record.key:
            memory.forget(ids[record.key], context=context, reason="as the suite says")
    return ids


def _need(setting: _Setting, ids: Mapping[str, str]) -> Need:
    task, message = setting.task, setting.task.need.said
    turn = None
    if message:
        session = dict(task.named_sessions)[message.session]
        turn = turn_id(session, message.turn, setting.context(message.session, session.user))
    return task.need.to_need(ids, turn, should_use=task.should_use)


def _attempt(setting: _Setting, block: TaskBlock, number: int, question: str) -> _Attempt:
    task, memory, lab = setting.task, setting.memory, setting.lab
    context = replace(
        setting.context(_REQUEST_SESSION, task.request.user),
        scope=task.request.scope,
        attempt=number,
    )
    form = answer_model(task.answer)
    request = AgentRequest(memory, context, task.request, question, form, setting.models.decider)
    agent = lab.agent or AGENTS[task.request.path]
    begun = lab.timer()
    with tokens_spent() as spent:
        answer = agent(request)
    took = (lab.timer() - begun) * 1_000
    success = is_right(task, answer, setting.models.judge)
    action = json.dumps(answer, ensure_ascii=False) if answer is not None else None
    memory.report(context=context, succeeded=success, action=action)
    record = block.record()
    cost = cost_of(memory.backend, record, spent, took, question, answer or {})
    return _Attempt(answer, success, record, cost)


def _corrected(setting: _Setting, block: TaskBlock, first: _Attempt) -> tuple[int, Cost]:
    """A user corrects the answer until it is right, or gives up: how often, and the cost."""
    attempt, cost, question = first, first.cost, setting.task.request.text
    for number in range(1, setting.lab.corrections + 1):
        if attempt.success:
            return number - 1, cost
        question = f"{question}\n\nThat was wrong. {_correction(setting.task)}"
        attempt = _attempt(setting, block, number + 1, question)
        cost = with_tokens_of(cost, attempt.cost)
    return setting.lab.corrections, cost


def _correction(task: Task) -> str:
    right = task.success.exact or task.success.regex or task.success.judge
    return task.correction or task.need.text or f"Right would be: {right}"
