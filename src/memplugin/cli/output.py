"""The two ways out: a result goes to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_WIDTH = 120
"""Columns of a result that goes to a file or a pipe."""


def print_json(value: Mapping[str, Any] | Sequence[Any] | None) -> None:
    """Writes a result as one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def show(*parts: RenderableType) -> None:
    """Writes a result for people."""
    console = _console(stderr=False)
    for part in parts:
        console.print(part)


def say(message: str) -> None:
    """Writes a remark."""
    _console(stderr=True).print(Text(message), soft_wrap=True)


def warn(message: str) -> None:
    """Writes a warning or an error, on one line whatever a driver put into it."""
    one_line = " ".join(f"memplugin: {message}".split())
    _console(stderr=True).print(Text(one_line, style="yellow"), soft_wrap=True)


@contextmanager
def progress(what: str) -> Generator[Progress]:
    """A bar on stderr while a block lasts; nothing where nobody watches."""
    # Only the long commands show one.
    from rich.progress import (  # noqa: PLC0415 -- see above
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = _console(stderr=True)
    bar = Progress(
        TextColumn(what, markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        yield bar


def _console(*, stderr: bool) -> Console:
    # Made anew each time: tests and callers may have replaced the streams. What is shown
    # are users' texts: nothing in them is markup, and nothing in them is coloured.
    console = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PLAIN_WIDTH
    return console
