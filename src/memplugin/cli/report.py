"""``memplugin report``: one page that can be sent to somebody."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplugin.cli import output
from memplugin.cli.options import AsJson, NothingFound
from memplugin.cli.output import text
from memplugin.cli.store import Place, place_of
from memplugin.errors import ConfigError
from memplugin.storage.sql.inspect import survey

if TYPE_CHECKING:
    from memplugin.evaluation.cases import Case

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

    about, cases = chosen_cases(place_of(context), run, workspace)
    page = page_of(cases, title="Which stage failed", about=about, now=datetime.now(UTC))
    written = render(page)
    try:
        html.write_text(written, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{html} can't be written: {error}. Name another file.") from error
    if as_json:
        groups = [
            {"stage": g.stage, "cause": g.cause, "tasks": len(g.cases), "by_machine": g.machine}
            for g in page.groups
        ]
        review = page.review.to_json() if page.review else None
        output.print_json({"file": str(html), "groups": groups, "review": review})
    else:
        output.show(text(f"{len(cases)} tasks are in {html}."))


def chosen_cases(
    place: Place, run: Path | None, workspace: str | None
) -> tuple[list[tuple[str, str]], list[Case]]:
    """The tasks of a run or of a store, and what they are the tasks of.

    Raises:
        NothingFound: there are none.
        ConfigError: both a run and a workspace are named, or the run can't be read.
    """
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
    with survey(place.ledger_url) as store:
        return sorted(one.workspace_id for one in store.workspaces(_MOST_WORKSPACES))
