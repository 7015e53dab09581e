"""``memplugin report`` and ``review``: a page for readers, and tasks that people judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType

from memplugin.cli import output
from memplugin.cli.options import AsJson, NothingFound, Place, place_of
from memplugin.cli.output import heading, remark, table, text, word
from memplugin.errors import ConfigError

if TYPE_CHECKING:
    from memplugin.diagnosis.statistics import Estimate
    from memplugin.evaluation.agreement import Agreement
    from memplugin.evaluation.cases import Case
    from memplugin.evaluation.review import ReviewReport


RunFolder = Annotated[
    Path | None,
    typer.Option(
        "--run", metavar="DIR", help="A run of a suite (`eval … --out DIR`); else the store."
    ),
]
OfWorkspace = Annotated[
    str | None,
    typer.Option("--workspace", "-w", help="Of the store, only this workspace; else all."),
]
_MOST_WORKSPACES = 100_000


def report(
    context: typer.Context,
    html: Annotated[Path, typer.Option("--html", metavar="FILE", help="Where to write the page.")],
    run: RunFolder = None,
    workspace: OfWorkspace = None,
    as_json: AsJson = False,
) -> None:
    """Which stage fails, in one page of HTML that needs no network.

    Plots, the table of stages and causes, and every task's record a click away. Failed
    tasks of a store count as undetermined until they are diagnosed: run `diagnose` first.
    Exit code 1: there are no tasks.
    """
    # Imports LangChain, as no command does that only reads the ledger.
    from memplugin.evaluation.reports import page_of, render  # noqa: PLC0415 -- see above

    about, cases = _chosen_cases(place_of(context), run, workspace)
    page = page_of(cases, title="Which stage failed", about=about, now=datetime.now(UTC))
    written = render(page)
    try:
        html.write_text(written, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{html} can't be written: {error}. Name another file.") from error
    groups = [
        {"stage": g.stage, "cause": g.cause, "tasks": len(g.cases), "by_machine": g.machine}
        for g in page.groups
    ]
    agreement = page.review.to_json() if page.review else None
    output.print_result(
        {"file": str(html), "groups": groups, "review": agreement},
        [text(f"{len(cases)} tasks are in {html}.")],
        as_json=as_json,
    )


def _chosen_cases(
    place: Place, run: Path | None, workspace: str | None
) -> tuple[list[tuple[str, str]], list[Case]]:
    """The tasks of a run or of a store, and what they are the tasks of."""
    from memplugin.evaluation.cases import run_cases, store_cases  # noqa: PLC0415 -- LangChain

    if run is not None:
        if workspace is not None:
            raise ConfigError("--run and --workspace exclude each other: a run has all its tasks.")
        header, cases = run_cases(run)
        about = [("suite", header.suite), ("model", header.model), ("embedder", header.embedder)]
    else:
        about = [("store", str(place.store)), *([("workspace", workspace)] if workspace else [])]
        with place.ledger() as ledger, output.progress("reading tasks") as bar:
            there = [workspace] if workspace else _workspaces(place)
            reading = bar.add_task(
                "tasks", total=sum(len(ledger.history.tasks(one)) for one in there)
            )
            cases = store_cases(ledger, there, lambda: bar.advance(reading))
    if not cases:
        raise NothingFound("there are no tasks to report on (memplugin doctor lists workspaces).")
    return about, cases


def _workspaces(place: Place) -> list[str]:
    with place.survey() as store:
        return sorted(one.workspace_id for one in store.workspaces(_MOST_WORKSPACES))


# ---------------------------------------------------------------- review


def _review_view(report: ReviewReport, kept: int, empty: int) -> Iterator[RenderableType]:
    """What was read, who agrees with whom, and how good the verdicts are."""
    yield heading("Review")
    yield text(
        f"  {kept} annotations kept, {empty} without a stage left out; "
        f"{report.reviewed} tasks reviewed, {report.disputed} disputed"
    )
    for pair in report.annotators:
        yield text(f"  {pair.first} and {pair.second} {_agree(pair.stages)}")
    yield heading("Verdicts against people, where they agree")
    if not report.machine.share.n:
        yield remark("nothing to compare: people agree on no task")
        return
    yield text(f"  they {_agree(report.machine)}")
    yield table(
        ("stage", "precision", "recall"),
        ((word(s.name), text(_share(s.precision)), text(_share(s.recall))) for s in report.stages),
    )
    differ = [row for row in report.table if row[0] != row[1]]
    for machine, people, times in differ:
        yield text(f"  {times} x the verdict is {machine} where people say {people}")


def _agree(found: Agreement) -> str:
    kappa = "not defined" if found.kappa is None else f"{found.kappa:.2f}"
    return f"agree on {found.agreed} of {found.share.n}: {_share(found.share)}, kappa {kappa}"


def _share(found: Estimate) -> str:
    if found.value is None or found.low is None or found.high is None:
        return "-"
    return f"{found.value:.2f} (95% interval {found.low:.2f} to {found.high:.2f})"


TASKS_FILE, CONFIG_FILE = "tasks.json", "labelling.xml"

review = typer.Typer(
    no_args_is_help=True, help="Have traces read by people: a sample for Label Studio, and back."
)


@review.command()
def export(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="A folder for the tasks and the labelling config.")
    ],
    run: RunFolder = None,
    workspace: OfWorkspace = None,
    sample: Annotated[int, typer.Option(min=1, help="How many tasks, some of every verdict.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the sample: the same gives the same.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Writes a sample of tasks, some of every verdict, for people to judge.

    The verdicts are not among what they see. Exit code 1: there is nothing to read.
    """
    # Imports LangChain, as no command does that only reads the ledger.
    from memplugin.evaluation.review import labelling_config, stratified, to_label_studio  # noqa: PLC0415 -- see above

    _, cases = _chosen_cases(place_of(context), run, workspace)
    tasks = to_label_studio(stratified(cases, sample, seed))
    if not tasks:
        raise NothingFound("no task has a verdict and a record to read.")
    try:
        out.mkdir(parents=True, exist_ok=True)
        said = json.dumps(tasks, ensure_ascii=False, indent=1)
        (out / TASKS_FILE).write_text(said, encoding="utf-8")
        (out / CONFIG_FILE).write_text(labelling_config(), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{out} can't be written: {error}. Name another folder.") from error
    files = {"tasks": str(out / TASKS_FILE), "config": str(out / CONFIG_FILE)}
    view = [
        text(f"{len(tasks)} tasks are in {out / TASKS_FILE}."),
        text(
            f"In Label Studio: a new project with {out / CONFIG_FILE} as its labelling setup "
            "(Code), then import the tasks. Two annotators can be compared with each other."
        ),
    ]
    output.print_result({**files, "count": len(tasks)}, view, as_json=as_json)


@review.command("import")
def import_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Label Studio's JSON export.")],
    run: RunFolder = None,
    as_json: AsJson = False,
) -> None:
    """Reads what the annotators said, and compares it with each other and the verdicts.

    It is kept beside the run, or in the store, and is part of the report from then on.
    Exit code 1: no annotation names a stage.
    """
    # Imports LangChain, as no command does that only reads the ledger.
    from memplugin.evaluation.cases import add_judgements  # noqa: PLC0415 -- see above
    from memplugin.evaluation.review import (  # noqa: PLC0415 -- too
        read_annotations,
        review_report,
        unknown_tasks,
    )

    found = read_annotations(file)
    place = place_of(context)
    if not found.judgements:
        raise NothingFound(f"{file} has {found.tasks} tasks, and no annotation names a stage.")
    _, cases = _chosen_cases(place, run, None)
    if unknown := unknown_tasks(cases, found.judgements):
        raise ConfigError(
            f"{file} has tasks that are not there ({', '.join(unknown[:3])}): name the run or the "
            "store that they were exported from."
        )
    if run is not None:
        add_judgements(run, found.judgements)
    else:
        with place.ledger() as ledger:
            ledger.judgements.save(found.judgements)
    _, cases = _chosen_cases(place, run, None)
    agreement = review_report(cases)
    kept = {"annotations": len(found.judgements), "without_stage": found.empty}
    output.print_result(
        {**kept, "review": agreement.to_json()},
        _review_view(agreement, len(found.judgements), found.empty),
        as_json=as_json,
    )
