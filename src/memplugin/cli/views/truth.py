"""How ``memplugin eval truth`` looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from memplugin.cli.views.estimates import share
from memplugin.cli.views.parts import facts, heading, line, remark, table, text, word
from memplugin.evaluation.adapters.locomo_truth import ORDER, LocomoReport, Reached, Split
from memplugin.evaluation.adapters.memorybench1_truth import Compared, TracesReport

_LISTED = 20


def truth_view(report: LocomoReport | TracesReport) -> Iterator[RenderableType]:
    """The verdicts beside what others know."""
    if isinstance(report, LocomoReport):
        yield from _locomo(report)
    else:
        yield from _traces(report)


def _locomo(report: LocomoReport) -> Iterator[RenderableType]:
    yield heading(f"LoCoMo: {report.questions} questions over {report.facts} facts, no chat model")
    yield remark("known: no fact cites the turn (write); none of those that do is in the first k")
    yield remark("(retrieval); else the evidence is in the prompt. Verdicts are in brackets.")
    yield heading("All of a question's evidence is needed")
    yield table(_COLUMNS, (_row(s, s.known, s.verdicts) for s in report.splits))
    yield heading("Any of it will do")
    yield table(_COLUMNS, (_row(s, s.known_any, s.verdicts_any) for s in report.splits))
    yield heading("Causes, where all of it is needed")
    yield facts(
        *(
            (f"k={s.k}", text(", ".join(f"{cause} {n}" for cause, n in s.causes.items())))
            for s in report.splits
        )
    )
    if report.left_out:
        yield remark(f"{len(report.left_out)} questions name no evidence: {report.left_out[0]} …")
    yield heading(f"Disagreements: {len(report.disagreements)}")
    for one in report.disagreements[:_LISTED]:
        said = f"{one.question} at k={one.k}: known {one.known}, verdict {one.verdict.stage}"
        yield Padding(text(f"{said}/{one.verdict.cause}"), (0, 0, 0, 2))


_COLUMNS = ("k", "questions", *ORDER, "verdicts that agree")


def _row(
    split: Split, known: Mapping[Reached, int], verdicts: Mapping[Reached, int]
) -> tuple[Text, ...]:
    return (
        text(split.k),
        text(split.questions),
        *(text(f"{known[stage]} ({verdicts[stage]})") for stage in ORDER),
        text(f"{split.agreeing} of {split.questions}"),
    )


def _traces(report: TracesReport) -> Iterator[RenderableType]:
    yield heading(f"{report.system}: {report.tests} tests, {report.passed} passed by their judge")
    yield facts(
        ("verdict explains a label", share(report.agreement)),
        ("passed, need not retrieved", text(f"{report.passing_unshown} of {report.passed}")),
        ("retrieved in store order", text(f"{report.first_shown} of {report.tests}")),
    )
    yield heading("Their labels, our verdicts")
    yield table(
        ("label", "stage and cause", "tests"),
        (
            (text(label), text(cause), text(n))
            for label, causes in report.table.items()
            for cause, n in causes.items()
        ),
    )
    yield heading(f"Disagreements: {len(report.disagreements)}")
    for one in report.disagreements:
        yield from _disagreement(one)


def _disagreement(one: Compared) -> Iterator[RenderableType]:
    yield Padding(
        Text.assemble(
            text(f"{one.task_id} ", "cyan"),
            text(f"({one.category}) theirs: {', '.join(one.labels)}; ours: "),
            word(one.verdict.stage),
            text(f", {one.verdict.cause}"),
        ),
        (0, 0, 0, 2),
    )
    yield facts(
        ("  asked", line(one.query)),
        ("  we saw", line("; ".join(one.verdict.evidence))),
        ("  they say", line(one.explanation)),
    )
