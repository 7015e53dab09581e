"""``memplugin doctor``: is the store well?"""

from __future__ import annotations

import typer

from memplugin.cli import output
from memplugin.cli.group import answer
from memplugin.cli.options import AsJson
from memplugin.cli.place import place_of
from memplugin.cli.views.health import health_view


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Is the store well? Shows what it holds, what waits, and problems with what to do.

    Exit code 1: there is a problem.
    """
    # Imports the index.
    from memplugin.memory.health import examine  # noqa: PLC0415 -- see above

    place = place_of(context)
    health = examine(place.location)
    if as_json:
        output.print_json({**health.to_json(), "spans": place.spans.target})
    else:
        output.show(*health_view(health, place.spans.target))
    answer(yes=not health.problems)
