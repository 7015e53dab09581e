"""What the views are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich import box
from rich.table import Table
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What could move the cursor, colour the rest of a terminal or turn a line round."""

STYLES = {
    "active": "green",
    "accepted": "green",
    "passed": "green",
    "rejected": "red",
    "failed": "red",
    "write": "red",
    "retrieval": "yellow",
    "use": "magenta",
    "undetermined": "dim",
}


def text(value: object, style: str = "") -> Text:
    """A value as it may be shown: a user's text does nothing to the terminal."""
    return Text(_CONTROL.sub("\ufffd", "-" if value is None else str(value)), style=style)


def word(value: str | None) -> Text:
    """One of our own words, in its colour."""
    return text(value, STYLES.get(value or "", ""))


def line(value: str | None) -> Text:
    """A text on one line."""
    return text(" ".join(value.split()) if value is not None else None)


def when(value: datetime | None) -> Text:
    """A time, to the minute, in UTC."""
    return text(value.astimezone(UTC).strftime("%Y-%m-%d %H:%M") if value else None)


def number(value: float) -> Text:
    """A score."""
    return text(f"{value:.3f}")


def heading(title: str) -> Text:
    """A section's title."""
    return text(f"\n{title}", "bold")


def remark(sentence: str) -> Text:
    """What is said instead of an empty table."""
    return text(f"  {sentence}", "dim")


def table(columns: Sequence[str], rows: Iterable[Sequence[Text]]) -> Table:
    """A table; ids and other short things stay on one line."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="dim")
    for column in columns:
        long = column in LONG
        made.add_column(column, no_wrap=not long, overflow="fold", ratio=None)
    for row in rows:
        made.add_row(*row)
    return made


LONG = ("content", "reason", "said", "evidence", "what to do", "value", "scope")
"""Columns that may be folded."""


def more(total: int, shown: int) -> list[Text]:
    """Says what a list leaves out."""
    return [remark(f"… and {total - shown} more (--limit {total})")] if total > shown else []


def facts(*named: tuple[str, Text]) -> Table:
    """Names and values, one on each line."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in named:
        grid.add_row(f"  {name}", value)
    return grid
