"""How ``memplugin check`` looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from memplugin.cli import output
from memplugin.cli.options import AsJson, Workspace, answer
from memplugin.cli.output import heading, item, line, more, remark, text, when, word
from memplugin.cli.store import place_of
from memplugin.diagnosis.evidence_search import Mentions, find_mentions
from memplugin.records import MemoryRecord, StoredProposal, Turn


def mentions_view(found: Mentions, limit: int) -> Iterator[RenderableType]:
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
    if as_json:
        output.print_json(found.to_json())
    else:
        output.show(*mentions_view(found, limit))
    answer(yes=found.found)
