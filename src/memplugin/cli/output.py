"""How results are printed, as text or as JSON, and what the texts are made of."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What could move the cursor, colour the rest of a terminal or turn a line round."""

_STYLES = {
    "active": "green",
    "accepted": "green",
    "passed": "green",
    "rejected": "red",
    "failed": "red",
    "write": "bold red",
    "retrieval": "bold yellow",
    "use": "bold magenta",
}


def text(value: object, style: str = "") -> Text:
    """A value as it may be shown: a user's text does nothing to the terminal."""
    return Text(_CONTROL.sub("\ufffd", "-" if value is None else str(value)), style=style)


def word(value: str | None) -> Text:
    """One of our own words, in its colour."""
    return text(value, _STYLES.get(value or "", ""))


def line(value: str | None) -> Text:
    """A text on one line."""
    return text(" ".join(value.split()) if value is not None else None)


def when(value: datetime | None) -> Text:
    """A time, to the minute, in UTC."""
    return text(value.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if value else None)


def heading(title: str) -> Text:
    """A section's title."""
    return text(f"\n{title}", "bold")


def remark(sentence: str) -> Text:
    """What is said instead of an empty list."""
    return text(f"  {sentence}", "dim")


def item(name: str | None, facts: Sequence[Text], content: Text) -> Iterator[RenderableType]:
    """One thing of a list.

    Args:
        name: Its id.
        facts: Shown beside the id, with commas between them.
        content: What it says, shown under them.

    Returns:
        The two lines.
    """
    head = Text.assemble(text(name, "cyan"), "  ", Text(", ").join(facts))
    yield Padding(head, (0, 0, 0, 2))
    yield Padding(content, (0, 0, 0, 6))


def more(total: int, shown: int) -> Iterator[Text]:
    """Says what a list leaves out."""
    if total > shown:
        yield remark(f"and {total - shown} more: --limit {total} shows all")


def numbers(
    columns: Sequence[str], rows: Iterable[tuple[Sequence[str], Text]]
) -> Iterator[RenderableType]:
    """A table of short things, each row with a text of any length under it."""
    rows = list(rows)
    lines = [columns, *(cells for cells, _ in rows)]
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]

    def aligned(cells: Sequence[str]) -> str:
        return "  " + "  ".join(c.rjust(w) for c, w in zip(cells, widths, strict=True))

    yield text(aligned(columns), "dim")
    for cells, under in rows:
        yield text(aligned(cells))
        yield Padding(under, (0, 0, 0, widths[0] + 4))


def table(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> Table:
    """A table of short things."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, header_style="dim")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def facts(*named: tuple[str, Text]) -> Table:
    """Names and values, one on each line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in named:
        grid.add_row(f"  {name}", value)
    return grid


PLAIN_WIDTH = 120
"""Columns of a result that goes to a file or a pipe."""


def print_json(value: Mapping[str, Any] | Sequence[Any] | None) -> None:
    """Writes a result as one JSON document."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def print_result(
    value: Mapping[str, Any] | Sequence[Any] | None,
    view: Iterable[RenderableType],
    *,
    as_json: bool,
) -> None:
    """Writes a command's result.

    Args:
        value: The result as JSON.
        view: The same for people, part by part; not read where JSON is wanted.
        as_json: What ``--json`` says.
    """
    if as_json:
        print_json(value)
    else:
        show(*view)


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
    """A bar on stderr while a block lasts; nothing where stderr is no terminal."""
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
