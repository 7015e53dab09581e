"""What the commands of ``memplugin eval`` do: suite, models and stores are put together."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.trace import TracerProvider

from memplugin.cli import output
from memplugin.cli.eval_options import RunOptions
from memplugin.cli.eval_parts import embedder_called, judge_called, lab_for, suite_called
from memplugin.cli.group import NothingFound
from memplugin.config import MemoryConfig
from memplugin.errors import ConfigError
from memplugin.evaluation.adapters import (
    locomo,
    locomo_truth,
    memorybench1,
    memorybench1_truth,
)
from memplugin.evaluation.adapters.places import DataAbsent, DataSet
from memplugin.evaluation.harness import run_suite
from memplugin.evaluation.matching import Matcher
from memplugin.evaluation.reading import Reader
from memplugin.evaluation.results import Header, Results
from memplugin.evaluation.retrieval_suite import RetrievalReport, run_retrieval_suite
from memplugin.evaluation.run_report import RunReport, report_of
from memplugin.evaluation.stores import InMemory
from memplugin.evaluation.write_suite import WriteReport, run_write_suite
from memplugin.records import Json

REPORT_FILE = "report.json"
STORES_FOLDER = "stores"

Truth = locomo_truth.LocomoReport | memorybench1_truth.TracesReport


def run(options: RunOptions, tracer_provider: TracerProvider | None) -> RunReport:
    """Runs a suite in its arms and sums it up.

    Raises:
        ConfigError: an option can't work.
    """
    if options.out is None and (options.resume or options.keep_stores):
        raise ConfigError("--resume and --keep-stores need a folder: give --out DIR.")
    suite = suite_called(options.suite, options.only)
    embedder = embedder_called(options.embeddings, options.model)
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
        lab_for(options, suite, embedder, stores, tracer_provider) as lab,
        _bar("running tasks", len(suite.tasks) * len(options.arms)) as step,
    ):
        runs = run_suite(suite, lab, results, arms=options.arms, done=step)
    report = report_of(header, runs)
    keep(options.out / REPORT_FILE if options.out else None, report.to_json())
    return report


def write(options: RunOptions, close: float, tracer_provider: TracerProvider | None) -> WriteReport:
    """Runs the write suite.

    Raises:
        ConfigError: an option can't work.
    """
    suite = suite_called(options.suite)
    embedder = embedder_called(options.embeddings, options.model)
    with (
        lab_for(options, suite, embedder, None, tracer_provider) as lab,
        judge_called(options.judge) as judge,
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

    Raises:
        ConfigError: an option can't work.
    """
    suite = suite_called(options.suite)
    embedder = embedder_called(options.embeddings, options.model)
    config = MemoryConfig.from_env()
    config = replace(config, policy=policy) if policy else config
    with InMemory(embedder, tracer_provider) as stores, _bar("asking", len(suite.tasks)) as step:
        report = run_retrieval_suite(suite, stores, config=config, done=step)
    keep(options.out / REPORT_FILE if options.out else None, report.to_json())
    return report


def truth(data: str, cuts: tuple[int, ...], limit: int | None, embeddings: str | None) -> Truth:
    """Holds verdicts against what others know of the same tasks.

    Raises:
        NothingFound: the data are not here.
        ConfigError: there is no such data set, or its file is another one.
    """
    if data == "locomo":
        conversations = locomo.load(_there(locomo.LOCOMO))
        asked = [q for c in conversations for q in c.questions[:limit] if q.evidence]
        with (
            InMemory(embedder_called(embeddings, "none")) as stores,
            _bar("asking", len(asked) * len(cuts)) as step,
        ):
            return locomo_truth.verify(conversations, stores, cuts=cuts, limit=limit, done=step)
    if data == "memorybench1":
        traces = memorybench1.load(_there(memorybench1.MEMORYBENCH1))
        return memorybench1_truth.compare(*traces, embedder_called(embeddings, "none"))
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
