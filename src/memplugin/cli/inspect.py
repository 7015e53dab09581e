"""``memplugin check`` and ``doctor``: what is in a store, and whether the store is well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from memplugin.cli import output
from memplugin.cli.options import AsJson, Workspace, answer, place_of
from memplugin.cli.output import facts, heading, item, line, more, remark, table, text, when, word
from memplugin.diagnosis.evidence_search import Mentions, mentions
from memplugin.records import MemoryRecord, StoredProposal, Turn

if TYPE_CHECKING:
    from memplugin.memory.health import Health


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
        found = mentions(ledger, workspace, text)
    output.print_result(found.to_json(), _mentions_view(found, limit), as_json=as_json)
    answer(yes=found.found)


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
    from memplugin.memory.health import examine  # noqa: PLC0415 -- see above

    place = place_of(context)
    health = examine(place.location)
    output.print_result(
        {**health.to_json(), "spans": place.spans.target},
        _health_view(health, place.spans.target),
        as_json=as_json,
    )
    answer(yes=not health.problems)
