"""How ``memplugin task`` looks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from memplugin.cli.views.parts import facts, heading, item, line, numbers, remark, text, when, word
from memplugin.diagnosis.task_record import (
    CandidateEntry,
    RetrievalEntry,
    TaskRecord,
    UseEntry,
    WriteEntry,
)
from memplugin.records import Override

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
    yield from _writes(record)
    yield heading(f"Retrievals: {len(record.retrievals)}")
    yield from _retrieval(record)
    yield heading("Decision")
    yield from _use(record.use)


def _writes(record: TaskRecord) -> Iterator[RenderableType]:
    shown = {c.record_id for r in record.retrievals for c in r.candidates if c.injected}
    near = [w for w in record.writes if w.task_id == record.task_id or w.record_id in shown]
    for w in near:
        yield from item(w.record_id or w.proposal_id, _about(w), line(w.content))
    if others := len(record.writes) - len(near):
        yield remark(f"{others} more made candidates that were not shown: --json has them")


def _about(w: WriteEntry) -> list[Text]:
    return [
        Text.assemble(word(w.gate), " an older one" if w.gate == "superseded" else ""),
        text(w.kind),
        when(w.written_at),
        line(f"session {w.session}"),
        *([_now(w)] if w.status else []),
        *([line(w.reason)] if w.reason else []),
    ]


def _now(entry: WriteEntry) -> Text:
    by = f" by {entry.replaced_by}" if entry.replaced_by else ""
    return Text.assemble("now ", word(entry.status), by)


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
    yield from _candidates(entry)


def _candidates(entry: RetrievalEntry) -> Iterator[RenderableType]:
    # One column for each score part, so that what decided the ranks can be read off.
    parts = list(dict.fromkeys(name for c in entry.candidates for name in c.parts))
    yield from numbers(
        ("rank", "score", *parts, "shown"),
        ((_numbers(c, parts), _memory(c)) for c in entry.candidates),
    )


def _numbers(candidate: CandidateEntry, parts: Sequence[str]) -> list[str]:
    scores = [f"{candidate.parts[p]:.3f}" if p in candidate.parts else "-" for p in parts]
    shown = "yes" if candidate.injected else f"no: {candidate.cut}"
    return [str(candidate.rank), f"{candidate.score:.3f}", *scores, shown]


def _memory(candidate: CandidateEntry) -> Text:
    sources = f"  ({', '.join(candidate.sources)})  " if candidate.sources else "  "
    return Text.assemble(text(candidate.record_id, "cyan"), sources, line(candidate.content))


def _use(use: UseEntry) -> Iterator[RenderableType]:
    if use.decision_id is None:
        yield remark("none recorded")
        return
    support = use.chosen_support
    shown = "shown" if support and support.shown else "not shown"
    yield facts(
        ("decision", text(use.decision_id)),
        ("status", Text.assemble(text(use.status), " at ", when(use.at))),
        ("answer", line(json.dumps(use.answer, ensure_ascii=False) if use.answer else None)),
        ("cited", line(", ".join(use.cited_record_ids) or None)),
        ("flags", text(", ".join(use.flags) or "none", "yellow" if use.flags else "")),
        *(("against", _override(override)) for override in use.overrides),
        (
            "support",
            text(f"{support.id}, rank {support.rank}, {shown}" if support else None),
        ),
        ("reasoning first", text({True: "yes", False: "no", None: "unknown"}[use.order_preserved])),
        ("without memory", text(_flip(use))),
    )


def _override(override: Override) -> Text:
    sure = "pinned" if override.pinned else f"confidence {override.confidence:.2f}"
    shown = "shown" if override.shown else "not shown"
    rank = f", rank {override.rank}" if override.rank else ""
    said, claimed = (json.dumps(v, ensure_ascii=False) for v in (override.answer, override.claimed))
    then = f"; {claimed} was put in its place" if override.enforced else ""
    return line(
        f"{override.field}: the model said {said}, {override.record_id} ({sure}{rank}, {shown}) "
        f"claims {claimed}{then}"
    )


def _flip(use: UseEntry) -> str:
    if use.counterfactual_flip is None:
        return "not tried"
    if not use.counterfactual_flip:
        return "the same answer"
    bearing = [one.record_id for one in use.counterfactuals if one.verdict == "load_bearing"]
    return f"another answer without {', '.join(bearing)}" if bearing else "another answer"
