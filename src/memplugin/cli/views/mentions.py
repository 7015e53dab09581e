"""How ``memplugin check`` looks."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType

from memplugin.cli.views.parts import heading, line, more, number, remark, table, text, when, word
from memplugin.diagnosis.mentions import Mentions


def mentions_view(found: Mentions, limit: int) -> Iterator[RenderableType]:
    """Records, proposals and turns, each section always, and what that means."""
    yield heading(f"Records: {len(found.records)}")
    yield from _records(found, limit)
    yield heading(f"Refused or attached proposals: {len(found.proposals)}")
    yield from _proposals(found, limit)
    yield heading(f"Turns that say it: {len(found.turns)}")
    yield from _turns(found, limit)
    yield text(f"\n{_meaning(found)}")


def _records(found: Mentions, limit: int) -> Iterator[RenderableType]:
    if not found.records:
        yield remark("none")
        return
    yield table(
        ("record", "kind", "status", "confidence", "when", "session", "content"),
        (
            (
                text(r.id),
                text(r.kind),
                word(r.status),
                number(r.confidence),
                when(r.occurred_at),
                line(r.source_session),
                line(r.content),
            )
            for r in found.records[:limit]
        ),
    )
    yield from more(len(found.records), limit)


def _proposals(found: Mentions, limit: int) -> Iterator[RenderableType]:
    if not found.proposals:
        yield remark("none")
        return
    yield table(
        ("proposal", "ruling", "reason", "when", "session", "content"),
        (
            (
                text(p.id),
                word(p.ruling),
                line(p.reason or (f"to {p.record_id}" if p.record_id else None)),
                when(p.created_at),
                line(p.session_id),
                line(p.content),
            )
            for p in found.proposals[:limit]
        ),
    )
    yield from more(len(found.proposals), limit)


def _turns(found: Mentions, limit: int) -> Iterator[RenderableType]:
    if not found.turns:
        yield remark("none" if found.turns_kept else "this workspace has no turns with their text")
        return
    yield table(
        ("turn", "role", "when", "session", "said"),
        (
            (text(t.id), text(t.role), when(t.said_at), line(t.session_id), line(t.text))
            for t in found.turns[:limit]
        ),
    )
    yield from more(len(found.turns), limit)


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
