"""How ``memplugin eval`` runs: a suite, its models, embedder and stores from the options."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from langchain_core.language_models import BaseChatModel
from opentelemetry.trace import TracerProvider

from memplugin.cli import output
from memplugin.cli.eval import RunOptions
from memplugin.cli.models import LOCAL, LOCAL_MAX_REASONING, SCRIPTED, chat_model
from memplugin.cli.options import NothingFound
from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.evaluation import agents
from memplugin.evaluation.adapters import locomo, locomo_truth, memorybench1, memsyco
from memplugin.evaluation.adapters.files import DataAbsent, DataSet
from memplugin.evaluation.agents import Models
from memplugin.evaluation.grading import named_function
from memplugin.evaluation.load import STARTER, load_suite, starter_suite
from memplugin.evaluation.matching import Matcher
from memplugin.evaluation.reports import RunReport, report_of
from memplugin.evaluation.results import Header, Results
from memplugin.evaluation.retrieval_suite import RetrievalReport, run_retrieval_suite
from memplugin.evaluation.run import Lab, Probe, run_suite
from memplugin.evaluation.setup import CachingEmbedder, InMemory, OnDisk
from memplugin.evaluation.suite import Suite, Task
from memplugin.evaluation.write_suite import Reader, WriteReport, run_write_suite
from memplugin.memory.client import Memory
from memplugin.records import Json
from memplugin.storage.embedding.embedder import make_embedder
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


def _suite(name: str, only: Sequence[str] = ()) -> Suite:
    """The suite in a file, or one that comes with the package or with public data."""
    path = Path(name)
    suite = load_suite(path) if path.exists() or name not in _NAMED else _NAMED[name]()
    if not only:
        return suite
    if unknown := set(only) - {task.id for task in suite.tasks}:
        raise ConfigError(f"suite {suite.name!r} has no task {sorted(unknown)[0]!r}: check --task.")
    return suite.model_copy(update={"tasks": tuple(t for t in suite.tasks if t.id in only)})


def _embedder(name: str | None, model: str) -> CachingEmbedder:
    """The embedder of a run: a fake one where the models are scripted, unless one is named."""
    if name == HASHING or (name is None and model == SCRIPTED):
        return CachingEmbedder(HashingEmbedder(DIMENSION))
    return CachingEmbedder(make_embedder(name))


@contextmanager
def _judge(name: str | None) -> Generator[BaseChatModel | None]:
    """The judging model; None without a name."""
    if name is None:
        yield None
        return
    if name == SCRIPTED:
        raise ConfigError("--judge can't be scripted: give PROVIDER:NAME.")
    with chat_model(name) as judge:
        yield judge


@contextmanager
def _lab(
    options: RunOptions,
    suite: Suite,
    embedder: CachingEmbedder,
    stores: Path | None,
    tracer_provider: TracerProvider | None,
) -> Generator[Lab]:
    """Everything a run works with, for as long as a block lasts."""
    with ExitStack() as open_:
        judge = open_.enter_context(_judge(options.judge))
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
            lab = replace(
                lab,
                expect=agents.expected_verdict,
                prepare=agents.with_planted_index,
                timer=lambda: 0.0,
            )
        if options.sample is not None:
            lab = replace(lab, probe=_counterfactuals(options.model, options.sample, lab, suite))
        yield lab


def _models(
    name: str, suite: Suite, judge: BaseChatModel | None, open_: ExitStack
) -> Callable[[Task], Models]:
    if name == SCRIPTED:
        agents.check_scripted(suite)
        return lambda task: replace(agents.scripted_models(task), judge=judge)
    model = open_.enter_context(chat_model(name))
    if name == LOCAL:  # too small to extract with: the script does that
        return lambda task: Models(agents.scripted_extractor(task), model, judge)
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


REPORT_FILE = "report.json"
STORES_FOLDER = "stores"

Truth = locomo_truth.LocomoReport | memorybench1.TracesReport


def run(options: RunOptions, tracer_provider: TracerProvider | None) -> RunReport:
    """Runs a suite in its arms and sums it up.

    Raises:
        ConfigError: an option can't work.
    """
    if options.out is None and (options.resume or options.keep_stores):
        raise ConfigError("--resume and --keep-stores need a folder: give --out DIR.")
    suite = _suite(options.suite, options.only)
    embedder = _embedder(options.embeddings, options.model)
    header = Header(
        suite=suite.name,
        digest=suite.digest,
        arms=options.arms,
        model=options.model,
        embedder=embedder.name,
        corrections=options.corrections,
        settings={"judge": options.judge, "agent": options.agent, "sample": options.sample},
    )
    stores = options.out / STORES_FOLDER if options.out and options.keep_stores else None
    with (
        _folder(options.out) as folder,
        Results.begin(folder, header, resume=options.resume) as results,
        _lab(options, suite, embedder, stores, tracer_provider) as lab,
        _bar("running tasks", len(suite.tasks) * len(options.arms)) as step,
    ):
        runs = run_suite(suite, lab, results, arms=options.arms, done=step)
    report = report_of(header, runs)
    keep(options.out / REPORT_FILE if options.out else None, report.to_json())
    return report


def write(options: RunOptions, close: float, tracer_provider: TracerProvider | None) -> WriteReport:
    """Runs the write suite.

    Args:
        options: As they were given.
        close: The cosine from which two sentences say the same.
        tracer_provider: Where spans go; None for the global one.

    Returns:
        Precision, recall and growth.

    Raises:
        ConfigError: an option can't work.
    """
    suite = _suite(options.suite)
    embedder = _embedder(options.embeddings, options.model)
    with (
        _lab(options, suite, embedder, None, tracer_provider) as lab,
        _judge(options.judge) as judge,
        _bar("reading sessions", len(suite.tasks)) as step,
    ):
        reader = Reader(lab.stores, lambda task: lab.models(task).extractor)
        matcher = Matcher(embedder, close, judge)
        report = run_write_suite(suite, reader, matcher, config=lab.config, done=step)
    keep(options.out / REPORT_FILE if options.out else None, report.to_json())
    return report


def retrieval(
    options: RunOptions, policy: str | None, tracer_provider: TracerProvider | None
) -> RetrievalReport:
    """Runs the retrieval suite.

    Args:
        options: As they were given.
        policy: The ranking policy; None for the configured one.
        tracer_provider: Where spans go; None for the global one.

    Returns:
        Recall, hits and ranks.

    Raises:
        ConfigError: an option can't work.
    """
    suite = _suite(options.suite)
    embedder = _embedder(options.embeddings, options.model)
    config = MemoryConfig.from_env()
    config = replace(config, policy=policy) if policy else config
    with InMemory(embedder, tracer_provider) as stores, _bar("asking", len(suite.tasks)) as step:
        report = run_retrieval_suite(suite, stores, config=config, done=step)
    keep(options.out / REPORT_FILE if options.out else None, report.to_json())
    return report


def truth(data: str, cuts: tuple[int, ...], limit: int | None, embeddings: str | None) -> Truth:
    """Compares verdicts with what others know of the same tasks.

    Args:
        data: ``locomo`` or ``memorybench1``.
        cuts: How many are shown, for locomo.
        limit: Most questions of each conversation, for locomo; None for all.
        embeddings: Name or folder of the embedding model; None for the default.

    Returns:
        The report of the data set.

    Raises:
        NothingFound: the data are not here.
        ConfigError: there is no such data set, or its file is another one.
    """
    if data == "locomo":
        conversations = locomo.load(_there(locomo.LOCOMO))
        asked = [q for c in conversations for q in c.questions[:limit] if q.evidence]
        with (
            InMemory(_embedder(embeddings, "none")) as stores,
            _bar("asking", len(asked) * len(cuts)) as step,
        ):
            return locomo_truth.verify(conversations, stores, cuts=cuts, limit=limit, done=step)
    if data == "memorybench1":
        traces = memorybench1.load(_there(memorybench1.MEMORYBENCH1))
        return memorybench1.compare(*traces, _embedder(embeddings, "none"))
    raise ConfigError(f"there is no data set {data!r}: use locomo or memorybench1.")


def keep(file: Path | None, report: Json) -> None:
    """Writes a report as JSON; nowhere without a file."""
    if file is None:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _there(data: DataSet) -> Path:
    try:
        return data.path()
    except DataAbsent as error:
        raise NothingFound(str(error)) from error


@contextmanager
def _folder(out: Path | None) -> Generator[Path]:
    """The folder of a run; one that goes away where none is named."""
    if out is not None:
        yield out
        return
    with TemporaryDirectory(prefix="memplugin-eval-") as folder:
        yield Path(folder)


@contextmanager
def _bar(what: str, total: int) -> Generator[Callable[[Any], None]]:
    """A progress bar; its step is called with whatever is done."""
    with output.progress(what) as bar:
        task = bar.add_task(what, total=total)
        yield lambda _: bar.advance(task)
