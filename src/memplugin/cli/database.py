"""``memplugin db``: the ledger's tables."""

from __future__ import annotations

import typer

from memplugin.cli import output
from memplugin.cli.options import AsJson
from memplugin.cli.place import place_of
from memplugin.cli.views.parts import text
from memplugin.storage.ledger import SqlLedger
from memplugin.storage.survey import survey

app = typer.Typer(help="The ledger's tables.", no_args_is_help=True)


@app.command()
def upgrade(context: typer.Context, as_json: AsJson = False) -> None:
    """Brings the tables to this release's revision, in one transaction. Make a backup first.

    An empty PostgreSQL database gets its tables.
    """
    url = place_of(context).ledger_url
    with survey(url) as store:
        before = store.revision()
    after = SqlLedger.upgrade(url)
    if as_json:
        output.print_json({"from": before, "to": after})
    elif before == after:
        output.show(text(f"The tables are of revision {after} already."))
    else:
        output.show(text(f"The tables went from revision {before or 'none'} to {after}."))
