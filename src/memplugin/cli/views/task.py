"""How ``memplugin task`` looks."""

from __future__ import annotations

import json
from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from memplugin.cli.views.parts import facts, heading, line, number, remark, table, text, when, word
from memplugin.diagnosis.task_record import (
    CandidateEntry,
    RetrievalEntry,
    TaskRecord,
    UseEntry,
    WriteEntry,
)

_OUTCOMES = {True: "passed", False: "failed", None: "not reported"}


def task_view(record: TaskRecord) -> Iterator[RenderableType]:
    """Sessions, writes, the retrieval that fed the decision, the decision, the outcome."""
    yield heading(f"Task {record.task_id}")
    yield facts(
        ("workspace", text(record.workspace_id)),
        ("sessions", line(", ".join(record.sessions))),
        ("arm", text(record.arm)),
        ("outcome", word(_OUTCOMES[record.success])),
    )
    yield heading(f"Writes: {len(record.writes)}")
    yield _writes(record.writes) if record.writes else remark("none")
    yield heading(f"Retrievals: {len(record.retrievals)}")
    yield from _retrieval(record)
    yield heading("Decision")
    yield from _use(record.use)


def _writes(writes: tuple[WriteEntry, ...]) -> Table:
    return table(
        ("session", "record", "kind", "ruling", "status", "when", "reason", "content"),
        (
            (
                line(w.session),
                text(w.record_id),
                text(w.kind),
                word(w.gate),
                word(w.status),
                when(w.written_at),
                line(w.reason),
                line(w.content),
            )
            for w in writes
        ),
    )


def _retrieval(record: TaskRecord) -> Iterator[RenderableType]:
    entry = record.retrieval
    if entry is None:
        yield remark("none: nothing was recalled in this task")
        return
    if len(record.retrievals) > 1:
        yield remark("the one that fed the decision, or the last; --json has all")
    yield facts(
        ("query", line(entry.query)),
        ("filters", line(json.dumps(entry.filters, ensure_ascii=False))),
        ("asked", Text.assemble(when(entry.at), f", k={entry.k}, policy {entry.policy}")),
        (
            "records",
            text(f"{entry.total} in scope, {entry.shown} shown, {entry.pending_index} not indexed"),
        ),
    )
    yield _candidates(entry) if entry.candidates else remark("no candidates")


def _candidates(entry: RetrievalEntry) -> Table:
    # One column for each score part, so that the ranks can be read off.
    parts = list(dict.fromkeys(name for c in entry.candidates for name in c.parts))
    return table(
        ("rank", "score", *parts, "shown", "source", "record", "content"),
        (
            (
                text(c.rank),
                number(c.score),
                *(number(c.parts[name]) if name in c.parts else text(None) for name in parts),
                _shown(c),
                text(" ".join(c.sources)),
                text(c.record_id),
                line(c.content),
            )
            for c in entry.candidates
        ),
    )


def _shown(candidate: CandidateEntry) -> Text:
    return text("yes", "green") if candidate.injected else text(candidate.cut, "yellow")


def _use(use: UseEntry) -> Iterator[RenderableType]:
    if use.decision_id is None:
        yield remark("none recorded")
        return
    support = use.chosen_support
    shown = "shown" if support and support.shown else "not shown"
    yield facts(
        ("status", Text.assemble(text(use.status), " at ", when(use.at))),
        ("answer", line(json.dumps(use.answer, ensure_ascii=False) if use.answer else None)),
        ("cited", line(", ".join(use.cited_record_ids) or None)),
        ("flags", text(", ".join(use.flags) or "none", "yellow" if use.flags else "")),
        (
            "support",
            text(f"{support.id}, rank {support.rank}, {shown}" if support else None),
        ),
        ("reasoning first", text({True: "yes", False: "no", None: "unknown"}[use.order_preserved])),
        ("without memory", text(_flip(use))),
    )


def _flip(use: UseEntry) -> str:
    if use.counterfactual_flip is None:
        return "not tried"
    return "another answer" if use.counterfactual_flip else "the same answer"
