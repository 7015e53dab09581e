"""One task, played: what was said is remembered, the request is answered, and judged."""

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
from memplugin.evaluation.agents import AGENTS, Agent, Asked, Models
from memplugin.evaluation.conversation import remember_session, turn_id, write_records
from memplugin.evaluation.grading import is_right
from memplugin.evaluation.results import (
    MEMORY_OFF,
    MEMORY_ON,
    Cost,
    Results,
    TaskRun,
    added,
    cost_of,
    in_order,
    tokens_spent,
)
from memplugin.evaluation.setup import Ask, Stores, task_ids, with_parts
from memplugin.evaluation.suite import DEFAULT_DATE, Suite, Task, configured
from memplugin.evaluation.suite_parts import answer_model
from memplugin.memory.client import Memory
from memplugin.memory.diagnose import Task as Block
from memplugin.memory.diagnose import judge
from memplugin.records import Json, Need
from memplugin.testing.fakes import FixedClock

RECORDS_SESSION = "s_records"
REQUEST_SESSION = "s_request"
DAY = timedelta(days=1)


Probe = Callable[[Memory, TaskRecord], None]


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
            block.verdict = judge(stage.memory.backend, record, _need(stage, ids))
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
    cost = cost_of(memory.backend, record, spent, took, question, answer or {})
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


ARMS = (MEMORY_ON, MEMORY_OFF)


def _unchanged(task: Task, memory: Memory) -> Memory:
    del task
    return memory


@dataclass(frozen=True, slots=True)
class Lab:
    """What a run works with.

    Attributes:
        stores: Opens a store for each task.
        models: The models for a task. Real ones are the same for all.
        expect: Which verdict a task should get; for scripted models.
        config: Settings where neither task nor suite say otherwise.
        agent: Answers every request; None for the path that the task names.
        corrections: How often a user corrects a wrong answer before giving up.
        rig: Changes a task's store before it begins: for planted faults.
        probe: Looks at each task with memory after its first answer; see ``Stage``.
        timer: Seconds, to take differences of.
    """

    stores: Stores
    models: Callable[[Task], Models]
    expect: Callable[[Task], tuple[str, str] | None] = lambda _: None
    config: MemoryConfig = field(default_factory=MemoryConfig)
    agent: Agent | None = None
    corrections: int = 0
    rig: Callable[[Task, Memory], Memory] = _unchanged
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
    """Runs every task that has no result yet, and returns all results in the suite's order.

    Args:
        suite: The tasks.
        lab: What they are run with.
        results: Where each is kept when it has ended; what is there already is not run.
        arms: ``memory_on``, ``memory_off`` or both.
        done: Called with each result, those that were there too.

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
    return in_order(results.runs, [task.id for task in suite.tasks])


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
                return self._run(task, arm, closing)
        except ConfigError:
            raise
        except MemPluginError as error:
            said = f"{type(error).__name__}: {error}"
            return TaskRun(task_id=task.id, arm=arm, tags=task.tags, error=said)

    def _run(self, task: Task, arm: str, closing: ExitStack) -> TaskRun:
        lab, ids = self._lab, task_ids(task.id)
        clock = FixedClock(task.begins, step=_TICK)
        config = self._suite.config(task, lab.config)
        if task.corpus and arm == MEMORY_ON:
            shared, keys = self._corpus(task.corpus)
            memory = with_parts(shared, config, clock, ids)
        else:
            ask = Ask(arm, task.id, config, clock, ids)
            memory, keys = closing.enter_context(lab.stores.opened(ask)), dict[str, str]()
        stage = Stage(
            task=task,
            arm=arm,
            workspace_id=task.corpus or task.id,
            memory=lab.rig(task, memory) if arm == MEMORY_ON else memory,
            clock=clock,
            models=lab.models(task),
            agent=lab.agent or AGENTS[task.request.path],
            timer=lab.timer,
            probe=lab.probe if arm == MEMORY_ON else None,
            remembers=arm == MEMORY_ON,
            corrections=lab.corrections,
            ids=keys,
        )
        run = play(stage)
        return replace(run, expected=lab.expect(task)) if stage.remembers else run

    def _corpus(self, name: str) -> tuple[Memory, dict[str, str]]:
        if name not in self._corpora:
            clock = FixedClock(DEFAULT_DATE - DAY, step=_TICK)
            config = configured(self._lab.config, self._suite.settings)
            ask = Ask(MEMORY_ON, name, config, clock, task_ids(name))
            memory = self._open.enter_context(self._lab.stores.opened(ask))
            context = MemoryContext(name, RECORDS_SESSION)
            keys = write_records(memory, self._suite.corpora[name], context)
            self._corpora[name] = memory, keys
        return self._corpora[name]


_TICK = DAY / 86_400
"""How far a task's clock goes on each time it is read: a second."""
