"""Runs the tasks of a suite, in each arm, and keeps a structured record of each.

The harness issues every request of a task, so that it alone knows that sessions weeks
apart belong together: they carry one task id. A task has a workspace and a store of its
own, unless it shares a corpus with others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.errors import ConfigError, MemPluginError
from memplugin.evaluation.agents import AGENTS, Agent
from memplugin.evaluation.playing import (
    DAY,
    RECORDS_SESSION,
    Models,
    Probe,
    Stage,
    play,
)
from memplugin.evaluation.results import MEMORY_OFF, MEMORY_ON, Results, TaskRun, in_order
from memplugin.evaluation.stores import Ask, Stores, task_ids, with_parts
from memplugin.evaluation.suite import DEFAULT_DATE, Suite, Task, configured
from memplugin.evaluation.telling import write_records
from memplugin.memory.front import Memory
from memplugin.testing.fakes import FixedClock

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
