"""The commands of ``memplugin eval`` and their options."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from memplugin.cli import output
from memplugin.cli.options import AsJson, answer, place_of
from memplugin.errors import ConfigError

SuiteName = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="A YAML or JSONL file; or starter, which comes with the package; or locomo or "
        "memsyco, where the data are here.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="Who extracts and decides: scripted (with the suite's planted faults, the same each "
        "time), local (a small real model decides), or PROVIDER:NAME."
    ),
]
Judge = Annotated[
    str | None,
    typer.Option(metavar="PROVIDER:NAME", help="The model that judges where a suite wants one."),
]
Agent = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Your own agent, which answers every request: a function of one argument, see "
        "memplugin.evaluation.agents.",
    ),
]
Embeddings = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The embedding model, by name or folder, or hashing, which is none. Left out: "
        "hashing with scripted models, all-MiniLM-L6-v2 with others.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep the results there, as they come.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the run in --out where it was stopped.")
]
Only = Annotated[
    list[str] | None, typer.Option("--task", metavar="ID", help="Only this task; repeatable.")
]
FailUnder = Annotated[
    float | None,
    typer.Option(min=0, max=1, metavar="SHARE", help="Exit with 1 where the share is lower."),
]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the options of ``eval run`` and ``eval arms`` say.

    Attributes:
        sample: The share of passing tasks that get counterfactuals, beside all that fail;
            None for no counterfactuals.
        keep_stores: Whether each task's store is kept in ``out``.
    """

    suite: str
    arms: tuple[str, ...]
    model: str = "scripted"
    judge: str | None = None
    agent: str | None = None
    embeddings: str | None = None
    out: Path | None = None
    resume: bool = False
    only: tuple[str, ...] = ()
    corrections: int = 0
    sample: float | None = None
    keep_stores: bool = False


app = typer.Typer(
    help="Suites of tasks: which stage fails, what is written and found, what memory is worth.",
    no_args_is_help=True,
)


@app.command("run")
def run_tasks(
    context: typer.Context,
    suite: SuiteName,
    model: Model = "scripted",
    judge: Judge = None,
    agent: Agent = None,
    embeddings: Embeddings = None,
    out: Out = None,
    resume: Resume = False,
    keep_stores: Annotated[
        bool,
        typer.Option(
            "--keep-stores",
            help="Keep each task's store in --out (memplugin --store DIR/stores/memory_on/TASK).",
        ),
    ] = False,
    only: Only = None,
    counterfactuals: Annotated[
        bool,
        typer.Option(
            "--counterfactuals",
            help="Decide again without each record that was shown: in all tasks that failed, and "
            "in a share of those that passed.",
        ),
    ] = False,
    sample: Annotated[
        float, typer.Option(min=0, max=1, metavar="SHARE", help="That share of passing tasks.")
    ] = 0.2,
    fail_under: FailUnder = None,
    as_json: AsJson = False,
) -> None:
    """Which stage fails, and how often? Runs every task; shows the attribution table.

    Exit code 1: a task could not be run, success is below --fail-under, or, with the
    scripted models, a verdict is not that of the planted fault.
    """
    _require_lab()
    from memplugin.cli import eval_run  # noqa: PLC0415 -- LangChain and SciPy, for eval alone
    from memplugin.cli.eval_view import run_view  # noqa: PLC0415 -- as above

    options = RunOptions(
        suite=suite,
        arms=("memory_on",),
        model=model,
        judge=judge,
        agent=agent,
        embeddings=embeddings,
        out=out,
        resume=resume,
        only=tuple(only or ()),
        sample=sample if counterfactuals else None,
        keep_stores=keep_stores,
    )
    report = eval_run.run(options, place_of(context).spans.provider())
    output.print_result(report.to_json(), run_view(report), as_json=as_json)
    success = report.success["memory_on"].value or 0.0
    planted = report.planted is None or report.planted.as_it_should_be
    answer(yes=not report.errors and success >= (fail_under or 0.0) and planted)


@app.command("arms")
def compare_arms(
    context: typer.Context,
    suite: SuiteName,
    model: Model = "scripted",
    judge: Judge = None,
    agent: Agent = None,
    embeddings: Embeddings = None,
    out: Out = None,
    resume: Resume = False,
    only: Only = None,
    corrections: Annotated[
        int, typer.Option(min=0, help="How often a user corrects a wrong answer before giving up.")
    ] = 2,
    as_json: AsJson = False,
) -> None:
    """Is memory worth having? Runs every task with it and without, and compares the pairs.

    Exit code 1: a task could not be run, or memory hurts: fewer tasks succeed with it.
    """
    _require_lab()
    from memplugin.cli import eval_run  # noqa: PLC0415 -- LangChain and SciPy, for eval alone
    from memplugin.cli.eval_view import arms_view  # noqa: PLC0415 -- as above

    options = RunOptions(
        suite=suite,
        arms=("memory_on", "memory_off"),
        model=model,
        judge=judge,
        agent=agent,
        embeddings=embeddings,
        out=out,
        resume=resume,
        only=tuple(only or ()),
        corrections=corrections,
    )
    report = eval_run.run(options, place_of(context).spans.provider())
    output.print_result(report.to_json(), arms_view(report), as_json=as_json)
    hurts = report.arms is not None and report.arms.finding == "hurts"
    answer(yes=not report.errors and not hurts)


@app.command("write")
def measure_writing(
    context: typer.Context,
    suite: SuiteName,
    model: Model = "scripted",
    judge: Judge = None,
    embeddings: Embeddings = None,
    close: Annotated[
        float, typer.Option(min=0, max=1, help="Cosine from which two sentences say the same.")
    ] = 0.75,
    out: Out = None,
    fail_under: FailUnder = None,
    as_json: AsJson = False,
) -> None:
    """What does the extractor write, and what does it miss? Precision, recall and growth.

    Exit code 1: recall is below --fail-under.
    """
    _require_lab()
    from memplugin.cli import eval_run  # noqa: PLC0415 -- LangChain and SciPy, for eval alone
    from memplugin.cli.eval_view import write_view  # noqa: PLC0415 -- as above

    options = RunOptions(
        suite=suite, arms=(), model=model, judge=judge, embeddings=embeddings, out=out
    )
    report = eval_run.write(options, close, place_of(context).spans.provider())
    output.print_result(report.to_json(), write_view(report), as_json=as_json)
    answer(yes=(report.overall.recall.value or 0.0) >= (fail_under or 0.0))


@app.command("retrieval")
def measure_retrieval(
    context: typer.Context,
    suite: SuiteName,
    embeddings: Embeddings = None,
    policy: Annotated[str | None, typer.Option(help="The ranking policy.")] = None,
    out: Out = None,
    fail_under: FailUnder = None,
    as_json: AsJson = False,
) -> None:
    """Is what a request needs found, given that it is stored? Recall, hits and ranks.

    No chat model is called. Exit code 1: the share of requests that are shown all they need
    is below --fail-under.
    """
    _require_lab()
    from memplugin.cli import eval_run  # noqa: PLC0415 -- LangChain and SciPy, for eval alone
    from memplugin.cli.eval_view import retrieval_view  # noqa: PLC0415 -- as above

    options = RunOptions(suite=suite, arms=(), model="none", embeddings=embeddings, out=out)
    report = eval_run.retrieval(options, policy, place_of(context).spans.provider())
    output.print_result(report.to_json(), retrieval_view(report), as_json=as_json)
    answer(yes=(report.overall.shown.value or 0.0) >= (fail_under or 0.0))


@app.command("truth")
def measure_truth(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="locomo: the stage is known for every question. memorybench1: another system's "
            "runs, with the labels of its own judge.",
        ),
    ],
    cuts: Annotated[
        list[int] | None,
        typer.Option("--k", min=1, help="How many are shown, for locomo; repeatable."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Questions of each conversation, for locomo.")
    ] = None,
    embeddings: Embeddings = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep the report there, as JSON.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Are the verdicts right? Holds them against what others know of the same tasks.

    Exit code 1: the data are not here, or (locomo) a verdict is not what is known.
    """
    _require_lab()
    from memplugin.cli import eval_run  # noqa: PLC0415 -- LangChain and SciPy, for eval alone
    from memplugin.cli.eval_view import truth_view  # noqa: PLC0415 -- as above

    report = eval_run.truth(data, tuple(cuts or (5, 10, 20)), limit, embeddings)
    eval_run.keep(out, report.to_json())
    output.print_result(report.to_json(), truth_view(report), as_json=as_json)
    answer(yes=report.holds)


def _require_lab() -> None:
    """Says which extra is missing, before anything is imported that needs it."""
    missing = [name for name in ("scipy", "yaml") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f'memplugin eval needs {" and ".join(missing)}: pip install "memplugin[lab]".'
        )
