"""``memplugin``: the options before a command, and the list of commands."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from memplugin.cli import (
    check,
    counterfactual,
    demo,
    doctor,
    emit,
    eval,
    learn,
    operations,
    output,
    replay,
    report,
    review,
    tasks,
)
from memplugin.cli import operations as database
from memplugin.cli.options import Commands
from memplugin.cli.otlp import Spans
from memplugin.cli.store import Place

COMMANDS = (
    demo.demo,
    check.check,
    tasks.task,
    tasks.diagnose,
    replay.replay,
    counterfactual.counterfactual,
    learn.learn,
    learn.audit,
    learn.evict,
    learn.calibrate,
    report.report,
    emit.emit,
    doctor.doctor,
    operations.reindex,
    operations.prune,
    operations.forget,
)
"""In the order in which help lists them. Every command imports all of these modules:
what is heavy is imported inside the function that needs it."""

app = typer.Typer(
    name="memplugin",
    cls=Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(value: bool) -> None:  # noqa: FBT001 -- called by the option's parser
    if value:
        output.show(f"memplugin {metadata.version('memplugin')}")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    store: Annotated[
        str | None,
        typer.Option(
            envvar="MEMPLUGIN_STORE",
            help="The store: its folder, or its ledger's URL (postgresql+psycopg://…).",
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            envvar="MEMPLUGIN_INDEX",
            help="URL of the Chroma server, for a ledger named by URL (http://chroma:8000).",
        ),
    ] = None,
    otlp: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send this command's spans there: http://host:4318, or grpc://host:4317. "
            "OTEL_EXPORTER_OTLP_ENDPOINT works as well.",
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Says which stage failed when an agent's answer should have used a memory.

    Start with `check`: is it in memory at all? Then `diagnose`: write, retrieval or use?

    Exit codes: 0 done, 1 the answer is no, 2 wrong use.
    """
    del version  # its callback has answered
    spans = Spans(otlp)
    context.obj = Place(store, index, spans)
    context.call_on_close(spans.close)


for command in COMMANDS:
    app.command()(command)
app.add_typer(eval.app, name="eval")
app.add_typer(review.app, name="review")
app.add_typer(database.app, name="db")


def main() -> None:
    """The entry point."""
    app(prog_name="memplugin")
