"""How ``memplugin learn``, ``audit``, ``evict`` and ``calibrate`` look."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from memplugin.cli.views.parts import facts, heading, item, line, more, numbers, remark, text, when
from memplugin.crediting import Disagreement
from memplugin.diagnosis.audit import Audit, Contradiction, Duplicate, Misleading, NeverShown
from memplugin.diagnosis.calibration import Calibration, SignAgreement
from memplugin.records import Eviction, LearnReport

HEURISTIC = (
    '"followed" is what a judge or a cosine says: a sign, no cause. Only a counterfactual run '
    "can say what a memory did (memplugin calibrate, memplugin counterfactual)."
)


# ---------------------------------------------------------------- learn


def learnt_view(report: LearnReport) -> Iterator[RenderableType]:
    """What a run of ``learn`` did."""
    judge = (
        f"{report.judged} judged, {report.followed} of them followed (prompt {report.judge})"
        if report.judge
        else "no judge: --model gives one; the cosine alone hardly tells doing from not doing"
    )
    yield facts(
        ("to score", text(report.found)),
        ("judge", text(judge)),
        ("cosine", text(f"{report.compared} compared")),
        ("failed", text(f"{report.failed}{', tried again next time' if report.failed else ''}")),
        ("left", text(report.left)),
    )
    if report.without_action:
        yield remark(
            f"{report.without_action} rows can't be scored: their attempts were reported without "
            "an action (memory.report(action=…))"
        )
    if report.cut_short:
        yield remark(
            f"{report.cut_short} actions are longer than the embedding model reads: their cosine "
            "is that of the beginning"
        )


# ---------------------------------------------------------------- audit


def audit_view(audit: Audit, limit: int) -> Iterator[RenderableType]:
    """Each section, the misleading records first."""
    yield from _section(
        "Misleading: shown in successes, and rarely followed in them",
        audit.misleading,
        limit,
        _misleading,
    )
    if audit.misleading:
        yield remark(HEURISTIC)
    yield from _section("Judge and cosine far apart: who is right?", audit.far_apart, limit, _apart)
    yield from _section("Duplicates", audit.duplicates, limit, _duplicates)
    yield from _section(
        "Contradictions that one request could meet", audit.contradictions, limit, _contradictions
    )
    yield from _section("Never shown", audit.never_shown, limit, _hidden)
    for note in audit.notes:
        yield remark(note)


def _section(
    title: str, rows: Sequence[Any], limit: int, view: Callable[[Sequence[Any]], Iterator[Any]]
) -> Iterator[RenderableType]:
    yield heading(f"{title} ({len(rows)})")
    if not rows:
        yield remark("none")
        return
    yield from view(rows[:limit])
    yield from more(len(rows), limit)


def _misleading(rows: Sequence[Misleading]) -> Iterator[RenderableType]:
    columns = ("record", "shown in", "passed", "followed then", "outcome", "utility")
    yield from numbers(
        columns,
        (
            (
                (
                    row.record_id,
                    str(row.attempts),
                    str(row.successes),
                    f"{row.followed} of {row.known} ({row.sign})",
                    f"{row.outcome:.2f}",
                    f"{row.utility:+.2f}",
                ),
                line(row.content),
            )
            for row in rows
        ),
    )


def _apart(rows: Iterable[Disagreement]) -> Iterator[RenderableType]:
    for row in rows:
        said = "followed" if row.followed else "not followed"
        told = [text(f"the judge: {said}"), text(f"cosine {row.cosine:.2f}")]
        told.append(text(f"task {row.task_id}, attempt {row.attempt}"))
        yield from item(
            row.record_id, told, Text("\n").join([line(row.content), line(row.reasoning)])
        )


def _duplicates(rows: Iterable[Duplicate]) -> Iterator[RenderableType]:
    for row in rows:
        both = Text("\n").join(line(content) for content in row.contents)
        yield from item(" and ".join(row.record_ids), [text(f"cosine {row.cosine:.2f}")], both)


def _contradictions(rows: Iterable[Contradiction]) -> Iterator[RenderableType]:
    for row in rows:
        sides = [
            text(f"{record_id}: {row.field} = {_json(value)}, scope {_json(dict(scope))}")
            for record_id, value, scope in zip(row.record_ids, row.values, row.scopes, strict=True)
        ]
        yield from item(row.field, [], Text("\n").join(sides))


def _hidden(rows: Iterable[NeverShown]) -> Iterator[RenderableType]:
    for row in rows:
        yield from item(row.record_id, [text(row.kind), when(row.created_at)], line(row.content))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


# ---------------------------------------------------------------- evict


_REASONS = {
    "negative_utility": "following it did harm",
    "rarely_followed": "its successes did without it",
}


def evicted_view(evictions: Sequence[Eviction], *, dry_run: bool) -> Iterator[RenderableType]:
    """Who goes, and why."""
    if not evictions:
        yield text("Nothing to evict: no record is known to do harm or to be passed over.")
        return
    for eviction in evictions:
        known = eviction.totals
        told = [
            text(_REASONS[eviction.reason]),
            text(f"utility {eviction.utility:+.2f}"),
            text(f"shown in {known.attempts} attempts, {known.successes} passed"),
            text(f"followed in {known.followed} of {known.judged}"),
        ]
        yield from item(eviction.record_id, told, line(eviction.content))
    count = f"{len(evictions)} record{'s' if len(evictions) > 1 else ''}"
    if dry_run:
        yield text(f"{count} would be evicted.")
    else:
        yield text(f"{count} evicted; --undo RECORD takes one back, and pinning it keeps it.")


# ---------------------------------------------------------------- calibrate


def calibration_view(found: Calibration) -> Iterator[RenderableType]:
    """How far each sign agrees with counterfactuals."""
    yield heading(f"Followed against load-bearing: {found.sampled} of {found.of} shown records")
    yield facts(
        ("judge", _agreement(found.judge)),
        (f"cosine from {found.close_from:g}", _agreement(found.cosine)),
        ("uncertain", text(f"{found.uncertain}: their counterfactuals say nothing")),
    )
    yield remark(HEURISTIC)


def _agreement(sign: SignAgreement) -> Text:
    if sign.agreement is None:
        return text("nothing to compare")
    low, high = sign.interval
    kappa = "" if sign.kappa is None else f", kappa {sign.kappa:.2f}"
    return text(
        f"agrees on {sign.agreement:.0%} of {sign.compared} "
        f"(95% interval {low:.0%} to {high:.0%}{kappa}); "
        f"followed and without effect: {sign.followed_not}, "
        f"not followed and load-bearing: {sign.ignored_load_bearing}"
    )
