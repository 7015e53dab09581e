"""How ``memplugin eval write`` and ``memplugin eval retrieval`` look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from memplugin.cli.views.estimates import number, percent, share
from memplugin.cli.views.parts import facts, heading, line, more, remark, table, text
from memplugin.evaluation.annotators import AnnotatorAgreement
from memplugin.evaluation.retrieval_suite import RetrievalReport, RetrievalScore
from memplugin.evaluation.write_suite import Missed, Score, WriteReport

_LISTED = 20


def write_view(report: WriteReport) -> Iterator[RenderableType]:
    """Precision and recall, by kind and phrasing; growth; what was missed and what was extra."""
    yield heading(f"Suite {report.suite}: {report.growth.sessions} sessions")
    yield table(_SCORED, (_score("all", report.overall),))
    yield heading("By kind")
    yield table(_SCORED, (_score(name, score) for name, score in report.by_kind.items()))
    yield heading("By phrasing")
    yield table(_SCORED, (_score(name, score) for name, score in report.by_phrasing.items()))
    yield from _growth(report)
    yield from _facts("Missed", report.missed)
    yield from _facts("Extra", report.extra)
    yield from _unreadable(report.unreadable)
    for agreement in report.annotators:
        yield from _annotators(agreement)


_SCORED = ("", "precision", "recall", "right / written", "found / gold")


def _score(name: str, score: Score) -> tuple[Text, ...]:
    return (
        text(name),
        share(score.precision),
        share(score.recall),
        text(f"{score.right} / {score.written}"),
        text(f"{score.found} / {score.gold}"),
    )


def _growth(report: WriteReport) -> Iterator[RenderableType]:
    growth = report.growth
    yield heading("Growth: each record more competes for a place in every later top k")
    yield facts(
        ("new records", text(f"{growth.records}, where {growth.gold} facts are gold")),
        ("extra", text(growth.extra)),
        ("needed and still found", share(growth.still_found)),
        ("matched by", text(", ".join(f"{by} {n}" for by, n in report.matched_by.items()))),
    )


def _facts(title: str, missed: Sequence[Missed]) -> Iterator[RenderableType]:
    yield heading(f"{title}: {len(missed)}")
    for one in missed[:_LISTED]:
        where = text(f"{one.task_id}, {one.kind}, {one.phrasing}: ", "dim")
        yield Padding(Text.assemble(where, line(one.content)), (0, 0, 0, 2))
    if len(missed) > _LISTED:
        yield remark(f"and {len(missed) - _LISTED} more: --json has all")


def _unreadable(failed: Mapping[str, str]) -> Iterator[RenderableType]:
    if not failed:
        return
    yield heading(f"Extraction failed: {len(failed)}")
    yield facts(*((where, line(why)) for where, why in failed.items()))


def _annotators(agreement: AnnotatorAgreement) -> Iterator[RenderableType]:
    one, other = agreement.annotators
    yield heading(f"Annotators {one} and {other}")
    kappa = "-" if agreement.kappa is None else f"{agreement.kappa:.2f}"
    yield facts(
        ("agreement (F1)", percent(agreement.agreement)),
        ("facts of both", share(agreement.shared)),
        ("only one has", text(f"{agreement.only_one[0]} and {agreement.only_one[1]}")),
        ("kappa, by message", text(f"{kappa} over {agreement.messages} messages")),
    )


# ---------------------------------------------------------------- retrieval


def retrieval_view(report: RetrievalReport) -> Iterator[RenderableType]:
    """Recall, hits and ranks of what requests need, by kind."""
    yield heading(f"Suite {report.suite}, policy {report.policy}")
    cuts = list(report.overall.recall)
    columns = (
        "",
        "tasks",
        *(f"R@{cut}" for cut in cuts),
        *(f"hit@{c}" for c in cuts),
        "MRR",
        "shown",
    )
    scores = {
        "all": report.overall,
        "standing": report.standing,
        "others": report.others,
        **report.by_kind,
    }
    yield table(columns, (_retrieved(name, score, cuts) for name, score in scores.items()))
    yield from _known_to(report.overall, cuts)
    yield remark(
        "R@k is by rank; shown counts what stands beside the rank too: preferences and "
        "instructions need not look like the request"
    )
    if report.left_out:
        yield remark(f"{len(report.left_out)} tasks need nothing that is stored")
    missed = [one for one in report.found if one.shown < len(one.ranks)]
    yield heading(f"Not all shown: {len(missed)}")
    for one in missed[:_LISTED]:
        ranks = ", ".join("filtered out" if r is None else f"rank {r}" for r in one.ranks)
        yield Padding(text(f"{one.task_id}: {ranks}, k={one.k}"), (0, 0, 0, 2))
    yield from more(len(missed), min(len(missed), _LISTED)) if len(missed) > _LISTED else ()


def _retrieved(name: str, score: RetrievalScore, cuts: Sequence[int]) -> tuple[Text, ...]:
    def two(value: float | None) -> Text:
        return text("-", "dim") if value is None else text(f"{value:.2f}")

    return (
        text(name),
        text(score.tasks),
        *(two(score.recall[cut].value) for cut in cuts),
        *(two(score.hit[cut].value) for cut in cuts),
        two(score.mrr.value),
        two(score.shown.value),
    )


def _known_to(score: RetrievalScore, cuts: Sequence[int]) -> Iterator[RenderableType]:
    yield facts(
        *((f"R@{cut}, all", number(score.recall[cut])) for cut in cuts),
        ("MRR, all", number(score.mrr)),
        ("shown, all", share(score.shown)),
    )
