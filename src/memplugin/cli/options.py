"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

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
