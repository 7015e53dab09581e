"""``memplugin``: the options before a command, the list of commands, and how errors end one."""

from __future__ import annotations

import logging
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memplugin.cli import demo, eval, learn, replay, report, store, tasks, traces
from memplugin.cli.options import INTERRUPTED, NO, WRONG_USE, NothingFound, Place
from memplugin.cli.otlp import Spans
from memplugin.cli.output import show, warn
from memplugin.errors import MemPluginError, RecordNotFound

COMMANDS = (
    demo.demo,
    store.check,
    tasks.task,
    tasks.diagnose,
    replay.replay,
    replay.counterfactual,
    learn.learn,
    learn.audit,
    learn.evict,
    learn.calibrate,
    report.report,
    traces.emit,
    store.doctor,
    store.reindex,
    store.prune,
    store.forget,
)
"""In the order in which help lists them. Every command imports all of these modules:
what is heavy is imported inside the function that needs it."""


class _Commands(TyperGroup):
    """A group whose commands never show a traceback for what went wrong on purpose."""

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; its errors become a line on stderr and an exit code."""
        logging.getLogger("memplugin").addHandler(_log)
        try:
            return super().invoke(ctx)
        except (NothingFound, RecordNotFound) as error:
            warn(str(error))
            raise typer.Exit(NO) from None
        except MemPluginError as error:
            warn(str(error))
            raise typer.Exit(WRONG_USE) from None
        except KeyboardInterrupt:
            warn("interrupted.")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            logging.getLogger("memplugin").removeHandler(_log)


class _Lines(logging.Handler):
    """The library's warnings, one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


_log = _Lines(logging.WARNING)

app = typer.Typer(
    name="memplugin",
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


def _version(value: bool) -> None:  # noqa: FBT001 -- called by the option's parser
    if value:
        show(f"memplugin {metadata.version('memplugin')}")
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
app.add_typer(report.review, name="review")
app.add_typer(store.database, name="db")


def main() -> None:
    """The entry point."""
    app(prog_name="memplugin")
