"""Commands about a whole store: what is in it, whether it is well, and how it is changed."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from memplugin.cli import output
from memplugin.cli.options import AsJson, Workspace, Yes, age, answer, place_of
from memplugin.cli.output import facts, heading, item, line, more, remark, table, text, when, word
from memplugin.config import MemoryContext
from memplugin.diagnosis.evidence_search import Mentions, find_mentions
from memplugin.errors import ConfigError, EmbedderUnavailable
from memplugin.records import MemoryRecord, StoredProposal, Turn

if TYPE_CHECKING:
    from memplugin.memory.health import Health


# ---------------------------------------------------------------- check


def _mentions_view(found: Mentions, limit: int) -> Iterator[RenderableType]:
    """Records, proposals and turns, each section always, and what that means."""
    yield heading(f"Records: {len(found.records)}")
    yield from _records(found.records[:limit])
    yield from more(len(found.records), limit)
    yield heading(f"Proposals that made no record: {len(found.proposals)}")
    yield from _proposals(found.proposals[:limit])
    yield from more(len(found.proposals), limit)
    yield heading(f"Turns that mention it: {len(found.turns)}")
    yield from _turns(found.turns[:limit])
    yield from more(len(found.turns), limit)
    if not found.turns_kept:
        yield remark("this workspace keeps no text of turns")
    yield text(f"\n{_meaning(found)}")


def _records(records: Sequence[MemoryRecord]) -> Iterator[RenderableType]:
    for r in records:
        facts = (
            text(r.kind),
            word(r.status),
            text(f"confidence {r.confidence:.2f}"),
            when(r.occurred_at),
            line(f"session {r.source_session}"),
        )
        yield from item(r.id, facts, line(r.content))


def _proposals(proposals: Sequence[StoredProposal]) -> Iterator[RenderableType]:
    for p in proposals:
        to = f" to {p.record_id}" if p.record_id else ""
        facts = (
            Text.assemble(word(p.ruling), to),
            line(p.reason),
            when(p.created_at),
            line(f"session {p.session_id}"),
        )
        yield from item(p.id, facts, line(p.content or "(nothing was extracted)"))


def _turns(turns: Sequence[Turn]) -> Iterator[RenderableType]:
    for t in turns:
        facts = (text(t.role), when(t.said_at), line(f"session {t.session_id}"))
        yield from item(t.id, facts, line(t.text))


def _meaning(found: Mentions) -> str:
    if any(record.status == "active" for record in found.records):
        return (
            "It is in memory. If an answer missed it, look at retrieval and use: "
            "memplugin diagnose TASK --need RECORD"
        )
    if found.records:
        return "It was in memory and no longer counts: see the records' status."
    if found.proposals:
        return "It was proposed and made no record: see the reasons."
    if found.turns:
        return "It was said and never proposed: the extractor passed over it."
    if found.turns_kept:
        return f"Nothing in workspace {found.workspace_id} mentions it."
    return (
        f"Nothing in workspace {found.workspace_id} mentions it, and it has no turns to look "
        "through: check the workspace's name (memplugin doctor lists them)."
    )


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
        found = find_mentions(ledger, workspace, text)
    output.print_result(found.to_json(), _mentions_view(found, limit), as_json=as_json)
    answer(yes=found.found)


# ---------------------------------------------------------------- doctor

_MODEL = {
    True: "found here, with the same weights",
    False: "found here with other weights",
    None: "not found here: the application may bring it, or it is fetched when it is needed",
}


def _health_view(health: Health, spans: str | None) -> Iterator[RenderableType]:
    """Facts about the store, its workspaces, the packages, and the problems."""
    yield heading("Store")
    yield facts(
        ("ledger", line(health.ledger)),
        ("index", line(health.index)),
        ("tables", text(f"revision {health.revision}, this release has {health.needed_revision}")),
        ("embedder", line(health.embedder)),
        *([("", text(_MODEL[health.model_here]))] if health.embedder else []),
        ("spans go to", text(spans or "nowhere (OTEL_EXPORTER_OTLP_ENDPOINT is not set)")),
    )
    if health.statistics:
        yield from _holdings(health)
    yield heading("Packages")
    yield text(
        "  " + ", ".join(f"{name} {v or 'not installed'}" for name, v in health.packages.items())
    )
    yield heading(f"Problems: {len(health.problems)}")
    for problem in health.problems:
        yield text(f"  {problem}", "red")
    if not health.problems:
        yield remark("none")


def _holdings(health: Health) -> Iterator[RenderableType]:
    rows = health.statistics["rows"]
    yield heading("Rows")
    yield text("  " + ", ".join(f"{name} {n}" for name, n in rows.items()))
    yield text(f"  waiting for the vector index: {health.statistics['outbox']}")
    yield heading("Workspaces, the largest first")
    if not health.workspaces:
        yield remark("none")
        return
    yield table(
        ("workspace", "records", "active", "waiting", "index"),
        (
            (
                line(w.workspace_id),
                text(w.records),
                text(w.active),
                text(w.waiting),
                text("its own" if w.workspace_id in health.promoted else "shared, exact"),
            )
            for w in health.workspaces
        ),
    )


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Is the store well? Shows what it holds, what waits, and problems with what to do.

    Exit code 1: there is a problem.
    """
    # Imports the index.
    from memplugin.memory.client import Memory  # noqa: PLC0415 -- see above

    place = place_of(context)
    health = Memory.health(**place.address)
    output.print_result(
        {**health.to_json(), "spans": place.spans.target},
        _health_view(health, place.spans.target),
        as_json=as_json,
    )
    answer(yes=not health.problems)


# ---------------------------------------------------------------- db, reindex, prune, forget


def _pruned(found: Mapping[str, int], before: datetime, workspace: str | None) -> str:
    """How many rows of what would go."""
    rows = ", ".join(f"{n} {table}" for table, n in found.items())
    where = f"workspace {workspace}" if workspace else "all workspaces"
    return f"Older than {before:%Y-%m-%d %H:%M} UTC in {where}: {rows}. Records stay."


def _forgotten(record: MemoryRecord) -> str:
    """The record that would go."""
    return (
        f"{record.id} ({record.kind}, {record.status}, session {record.source_session}): "
        f"{line(record.content)}"
    )


database = typer.Typer(help="The ledger's tables.", no_args_is_help=True)


@database.command()
def upgrade(context: typer.Context, as_json: AsJson = False) -> None:
    """Brings the tables to this release's revision, in one transaction. Make a backup first.

    An empty PostgreSQL database gets its tables.
    """
    # Imports the database's packages.
    from memplugin.storage.sql.ledger import SqlLedger  # noqa: PLC0415 -- see above

    place = place_of(context)
    with place.survey() as store:
        before = store.revision()
    after = SqlLedger.upgrade(place.ledger_url)
    if before == after:
        done = f"The tables are of revision {after} already."
    else:
        done = f"The tables went from revision {before or 'none'} to {after}."
    output.print_result({"from": before, "to": after}, [text(done)], as_json=as_json)


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
    from memplugin.memory.client import Memory  # noqa: PLC0415 -- see above

    address = place_of(context).address
    with output.progress("indexing") as bar, _other_model_possible(embeddings):
        task = bar.add_task("indexing", total=None)
        done = Memory.reindex(
            **address,
            embeddings=embeddings,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    output.print_result(
        {"indexed": done.indexed, "embedder": done.embedder},
        [text(f"{done.indexed} records indexed with {done.embedder}.")],
        as_json=as_json,
    )


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
    with place.survey() as store:
        found = store.prunable(before, workspace)
    if any(found.values()):
        output.say(_pruned(found, before, workspace))
        _confirm("Drop them?", yes=yes)
        with place.ledger() as ledger:
            found = ledger.maintenance.prune(before, workspace)
    output.print_result(
        {"before": before.isoformat(), "dropped": found},
        [text(f"{sum(found.values())} rows dropped.")],
        as_json=as_json,
    )


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
    with place_of(context).opened() as memory:
        record = memory.get(record_id, context=MemoryContext(workspace, "memplugin-forget"))
        if record.status != "forgotten":
            output.say(_forgotten(record))
            _confirm("Erase it?", yes=yes)
        # Under the task that wrote it: its trace shows what became of the record.
        hop = MemoryContext(workspace, record.source_session, record.task_id)
        gone = memory.forget(record_id, context=hop, reason=reason)
    output.print_result(gone.to_json(), [text(f"{record_id} is forgotten.")], as_json=as_json)


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not _watched():
        raise ConfigError(f"nobody is there to answer {question!r}: give --yes.")
    if not typer.confirm(question, err=True):
        answer(yes=False)


def _watched() -> bool:
    return sys.stdin.isatty()
