"""Ages and times as people write them."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from memplugin.cli import output
from memplugin.cli.options import AsJson, Workspace, Yes, answer
from memplugin.cli.output import line, text
from memplugin.cli.store import place_of
from memplugin.config import MemoryContext
from memplugin.errors import ConfigError, EmbedderUnavailable, RecordNotFound
from memplugin.records import MemoryRecord
from memplugin.storage.sql.inspect import survey
from memplugin.storage.sql.ledger import SqlLedger

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def age(given: str, option: str) -> timedelta:
    """Reads ``12h``, ``90d`` or ``8w``.

    Raises:
        ConfigError: it is none.
    """
    found = re.fullmatch(r"(\d{1,5})([hdw])", given.strip())
    if not found:
        raise ConfigError(
            f"{option} is {given!r}: give a number of hours, days or weeks, such as 12h, 90d or 8w."
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment(given: str, option: str) -> datetime:
    """Reads an age before now, or a date or time in ISO 8601 (UTC where it says no zone).

    Raises:
        ConfigError: it is neither.
    """
    try:
        time = datetime.fromisoformat(given.strip())
    except ValueError:
        return datetime.now(UTC) - _age_or_date(given, option)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _age_or_date(given: str, option: str) -> timedelta:
    try:
        return age(given, option)
    except ConfigError:
        raise ConfigError(
            f"{option} is {given!r}: give an age (12h, 90d, 8w) or a date (2026-03-02, "
            "2026-03-02T09:14:11+01:00)."
        ) from None


def pruned_view(found: Mapping[str, int], before: datetime, workspace: str | None) -> str:
    """How many rows of what would go."""
    rows = ", ".join(f"{n} {table}" for table, n in found.items())
    where = f"workspace {workspace}" if workspace else "all workspaces"
    return f"Older than {before:%Y-%m-%d %H:%M} UTC in {where}: {rows}. Records stay."


def forgotten_view(record: MemoryRecord) -> str:
    """The record that would go."""
    return (
        f"{record.id} ({record.kind}, {record.status}, session {record.source_session}): "
        f"{line(record.content)}"
    )


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


def reindex(
    context: typer.Context,
    embeddings: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Another embedding model, by name or folder; the store takes it from then on.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Builds the vector index anew from the ledger, with another embedding model too.

    Stop the application first. It may be interrupted: what is left waits in the ledger,
    full-text search finds it, and the next opening or reindex takes it.
    """
    # Imports the index.
    from memplugin.memory.index import reindex as rebuild  # noqa: PLC0415 -- see above
    from memplugin.memory.open import Parts, recorded_embedder  # noqa: PLC0415 -- see above

    location = place_of(context).location
    recorded = recorded_embedder(location.ledger_url)
    model = embeddings or (recorded.name if recorded else None)
    with output.progress("indexing") as bar, _other_model_possible(embeddings):
        task = bar.add_task("indexing", total=None)
        done = rebuild(
            location,
            Parts(embeddings=model),
            lambda done, total: bar.update(task, completed=done, total=total),
        )
    now = recorded_embedder(location.ledger_url)
    if as_json:
        output.print_json({"indexed": done, "embedder": str(now) if now else None})
    else:
        output.show(text(f"{done} records indexed with {now}."))


@contextmanager
def _other_model_possible(given: str | None) -> Generator[None]:
    try:
        yield
    except EmbedderUnavailable as error:
        if given is not None:
            raise
        raise EmbedderUnavailable(
            f"{error} Or give --embeddings MODEL to change to another one. A model that the "
            "application brings can be used from there only: its next Memory.open indexes "
            "what waits."
        ) from error


def prune(
    context: typer.Context,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Hours, days or weeks: 12h, 90d, 8w.")
    ],
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", "-w", help="Only this workspace; without it, all of them."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Drops turns, retrievals and decisions older than an age. Records stay.

    What goes can't be diagnosed any more. Exit code 1: you said no.
    """
    place = place_of(context)
    before = datetime.now(UTC) - age(older_than, "--older-than")
    with survey(place.ledger_url) as store:
        found = store.prunable(before, workspace)
    if any(found.values()):
        output.say(pruned_view(found, before, workspace))
        _confirm("Drop them?", yes=yes)
        with place.ledger() as ledger:
            found = ledger.maintenance.prune(before, workspace)
    if as_json:
        output.print_json({"before": before.isoformat(), "dropped": found})
    else:
        output.show(text(f"{sum(found.values())} rows dropped."))


def forget(
    context: typer.Context,
    record_id: Annotated[str, typer.Argument(metavar="RECORD", help="The record's id.")],
    workspace: Workspace,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; kept with the tombstone.")],
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erases a record's content everywhere, and keeps it from being learnt again.

    The turns and proposals it came from, and what decisions quote of it, go too. This
    can't be undone. Exit code 1: there is no such record, or you said no.
    """
    # Imports what the ledger alone does not need.
    from memplugin.memory.outcome import forget as erase  # noqa: PLC0415 -- see above

    with place_of(context).opened() as store:
        record = store.ledger.records.get_many(workspace, [record_id]).get(record_id)
        if record is None:
            raise RecordNotFound(workspace, record_id)
        if record.status != "forgotten":
            output.say(forgotten_view(record))
            _confirm("Erase it?", yes=yes)
        # Under the task that wrote it: its trace shows what became of the record.
        hop = MemoryContext(workspace, record.source_session, record.task_id)
        gone = erase(store, hop, record_id, reason)
    if as_json:
        output.print_json(gone.to_json())
    else:
        output.show(text(f"{record_id} is forgotten."))


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not _watched():
        raise ConfigError(f"nobody is there to answer {question!r}: give --yes.")
    if not typer.confirm(question, err=True):
        answer(yes=False)


def _watched() -> bool:
    return sys.stdin.isatty()
