"""What an evaluation works with: the suite, the models, the embedder, the stores."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from opentelemetry.trace import TracerProvider

from memplugin.cli.eval_options import RunOptions
from memplugin.cli.models import LOCAL, LOCAL_MAX_REASONING, SCRIPTED, chat_model
from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.evaluation import scripted
from memplugin.evaluation.adapters import locomo, memsyco
from memplugin.evaluation.embedding import Remembering
from memplugin.evaluation.grading import named_function
from memplugin.evaluation.harness import Lab
from memplugin.evaluation.loading import STARTER, load_suite, starter_suite
from memplugin.evaluation.playing import Models, Probe
from memplugin.evaluation.stores import InMemory, OnDisk
from memplugin.evaluation.suite import Suite, Task
from memplugin.memory.front import Memory
from memplugin.storage.embedder import make_embedder
from memplugin.testing.fakes import HashingEmbedder
from memplugin.text import digest

HASHING = "hashing"
DIMENSION = 1_024
"""Of the hashing embedder: so wide that two words hardly ever share a place."""

_NAMED: dict[str, Callable[[], Suite]] = {
    STARTER: starter_suite,
    "locomo": lambda: locomo.suite_of(locomo.LOCOMO.path()),
    "memsyco": lambda: memsyco.suite_of(memsyco.MEMSYCO.path()),
}


def suite_called(name: str, only: Sequence[str] = ()) -> Suite:
    """The suite in a file, or one that comes with the package or with public data.

    Args:
        name: A path, or ``starter``, ``locomo``, ``memsyco``.
        only: Ids of the tasks to keep; empty for all.

    Raises:
        ConfigError: there is none, it can't be read, or it has no such task.
    """
    path = Path(name)
    suite = load_suite(path) if path.exists() or name not in _NAMED else _NAMED[name]()
    if not only:
        return suite
    if unknown := set(only) - {task.id for task in suite.tasks}:
        raise ConfigError(f"suite {suite.name!r} has no task {sorted(unknown)[0]!r}: check --task.")
    return suite.model_copy(update={"tasks": tuple(t for t in suite.tasks if t.id in only)})


def embedder_called(name: str | None, model: str) -> Remembering:
    """The embedder of a run: a fake one where the models are scripted, unless one is named."""
    if name == HASHING or (name is None and model == SCRIPTED):
        return Remembering(HashingEmbedder(DIMENSION))
    return Remembering(make_embedder(name))


@contextmanager
def judge_called(name: str | None) -> Generator[BaseChatModel | None]:
    """The judging model; None without a name.

    Raises:
        ConfigError: it can't be made.
    """
    if name is None:
        yield None
        return
    if name == SCRIPTED:
        raise ConfigError("--judge can't be scripted: give PROVIDER:NAME.")
    with chat_model(name) as judge:
        yield judge


@contextmanager
def lab_for(
    options: RunOptions,
    suite: Suite,
    embedder: Remembering,
    stores: Path | None,
    tracer_provider: TracerProvider | None,
) -> Generator[Lab]:
    """Everything a run works with, for as long as a block lasts.

    Args:
        options: As they were given.
        suite: What is run.
        embedder: Of all stores.
        stores: The folder in which the tasks' stores are kept; None for nowhere.
        tracer_provider: Where spans go.

    Raises:
        ConfigError: a model can't be made, or can't be scripted for this suite.
    """
    with ExitStack() as open_:
        judge = open_.enter_context(judge_called(options.judge))
        lab = Lab(
            stores=OnDisk(stores, embedder, tracer_provider)
            if stores
            else open_.enter_context(InMemory(embedder, tracer_provider)),
            models=_models(options.model, suite, judge, open_),
            config=_config(options.model),
            agent=named_function(options.agent) if options.agent else None,
            corrections=options.corrections,
        )
        if options.model == SCRIPTED:
            # What scripted models take is no latency; without it, a run is the same each time.
            lab = replace(lab, expect=scripted.expected, rig=scripted.rig, timer=lambda: 0.0)
        if options.sample is not None:
            lab = replace(lab, probe=_counterfactuals(options.model, options.sample, lab, suite))
        yield lab


def _models(
    name: str, suite: Suite, judge: BaseChatModel | None, open_: ExitStack
) -> Callable[[Task], Models]:
    if name == SCRIPTED:
        scripted.check(suite)
        return lambda task: replace(scripted.models(task), judge=judge)
    model = open_.enter_context(chat_model(name))
    if name == LOCAL:  # too small to extract with: the script does that
        return lambda task: Models(scripted.extractor(task), model, judge)
    return lambda _: Models(model, model, judge)


def _config(model: str) -> MemoryConfig:
    config = MemoryConfig.from_env()
    if model != LOCAL:
        return config
    small = replace(config, max_reasoning_chars=LOCAL_MAX_REASONING, cite_by_enum=True)
    return replace(small, decide_retries=0)


def _counterfactuals(model: str, sample: float, lab: Lab, suite: Suite) -> Probe:
    """Leaves out each record that was shown, where a task failed or is in the sample."""
    tasks = {task.id: task for task in suite.tasks}

    def probe(memory: Memory, record: TaskRecord) -> None:
        shown = record.retrieval is not None and record.retrieval.shown > 0
        if record.use.status != "decided" or not shown:
            return
        if record.success and _place(record.task_id) >= sample:
            return
        memory.counterfactual(
            context=MemoryContext(record.workspace_id, record.sessions[-1], record.task_id),
            model=lab.models(tasks[record.task_id]).decider,
            deterministic=True if model == SCRIPTED else None,
        )

    return probe


def _place(task_id: str) -> float:
    """A number from 0 to 1 that is always the task's: who is in a sample does not change."""
    return int(digest(task_id, length=8), 16) / 0x1_0000_0000
