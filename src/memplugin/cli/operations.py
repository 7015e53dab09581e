"""``memplugin reindex``, ``prune`` and ``forget``: the commands that change a store."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated

import typer

from memplugin.cli import output
from memplugin.cli.group import answer
from memplugin.cli.options import AsJson, Workspace, Yes
from memplugin.cli.place import place_of
from memplugin.cli.times import age
from memplugin.cli.views.operations import forgotten_view, pruned_view
from memplugin.cli.views.parts import text
from memplugin.config import MemoryContext
from memplugin.errors import ConfigError, EmbedderUnavailable, RecordNotFound
from memplugin.storage.survey import survey


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
    from memplugin.memory.opening import Parts  # noqa: PLC0415 -- see above
    from memplugin.memory.recorded import recorded_embedder  # noqa: PLC0415 -- see above
    from memplugin.memory.reindexing import reindex as rebuild  # noqa: PLC0415 -- see above

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
            found = ledger.prune(before, workspace)
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
    from memplugin.memory.reporting import forget as erase  # noqa: PLC0415 -- see above

    with place_of(context).opened() as store:
        record = store.ledger.records(workspace, [record_id]).get(record_id)
        if record is None:
            raise RecordNotFound(
                f"there is no record {record_id!r} in workspace {workspace!r}: check both "
                "(memplugin check TEXT shows ids)."
            )
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
