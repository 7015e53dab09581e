"""Options that several commands share."""

from __future__ import annotations

import logging
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from memplugin.cli.output import warn
from memplugin.errors import MemPluginError, RecordNotFound

Workspace = Annotated[
    str, typer.Option("--workspace", "-w", help="The workspace; nothing is looked for in others.")
]
AnyWorkspace = Annotated[
    str | None,
    typer.Option(
        "--workspace", "-w", help="The workspace; may be left out when only one has the task."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


NO = 1
"""The answer is no: nothing was found."""

WRONG_USE = 2
"""The command can't work as it was given."""


INTERRUPTED = 130
"""As shells say it."""


def answer(*, yes: bool) -> NoReturn:
    """Ends the command with 0 or 1."""
    raise typer.Exit(0 if yes else NO)


class NothingFound(MemPluginError):
    """What a command was asked about is not there."""


class Commands(TyperGroup):
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
