"""``memplugin check``: the ten-second check."""

from __future__ import annotations

from typing import Annotated

import typer

from memplugin.cli import output
from memplugin.cli.group import answer
from memplugin.cli.options import AsJson, Workspace
from memplugin.cli.place import place_of
from memplugin.cli.views.mentions import mentions_view
from memplugin.diagnosis.mentions import mentions


def check(
    context: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="What to look for: a word, or what a user says.")
    ],
    workspace: Workspace,
    limit: Annotated[
        int, typer.Option(min=1, help="Most rows shown of each kind; --json has all.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """Is it in memory? Shows the records, refused proposals and turns that mention a text.

    A record found: the write worked, look further with `diagnose`. No record but a turn:
    it was said and not stored. Exit code 1: nothing mentions it.
    """
    with place_of(context).ledger() as ledger:
        found = mentions(ledger, workspace, text)
    if as_json:
        output.print_json(found.to_json())
    else:
        output.show(*mentions_view(found, limit))
    answer(yes=found.found)
