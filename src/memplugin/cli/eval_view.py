"""How ``memplugin eval`` shows its figures: never without the interval they are known to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from memplugin.cli.output import facts, heading, line, more, remark, table, text, word
from memplugin.diagnosis.counterfactual import CitationAgreement
from memplugin.diagnosis.statistics import Estimate
from memplugin.evaluation.adapters.locomo_truth import ORDER, LocomoReport, Reached, Split
from memplugin.evaluation.adapters.memorybench1 import ComparedVerdict, TracesReport
from memplugin.evaluation.agreement import AnnotatorAgreement
from memplugin.evaluation.arms import ArmsReport, Compared, Waste
from memplugin.evaluation.reports import Planted, Row, RunReport
from memplugin.evaluation.retrieval_suite import RetrievalReport, RetrievalScore
from memplugin.evaluation.write_suite import Missed, Score, WriteReport


def _share(estimate: Estimate) -> Text:
    """A share as percent: ``83 % [70, 91] of 47``."""
    if estimate.value is None:
        return text("-", "dim")
    known = ""
    if estimate.low is not None and estimate.high is not None:
        known = f" [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"
    return text(f"{100 * estimate.value:.0f} %{known} of {estimate.n}")


def _number(estimate: Estimate | None, digits: int = 2) -> Text:
    """A mean: ``1.40 [1.12, 1.71]``."""
    if estimate is None or estimate.value is None:
        return text("-", "dim")
    known = ""
    if estimate.low is not None and estimate.high is not None:
        known = f" [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
    return text(f"{estimate.value:.{digits}f}{known}")


def _percent(value: float | None) -> Text:
    """A ratio that has no interval."""
    return text("-", "dim") if value is None else text(f"{100 * value:.0f} %")


_TASKS_SHOWN = 4
_FINDINGS = {"helps": "green", "hurts": "bold red", "no difference shown": "yellow"}


def run_view(report: RunReport) -> Iterator[RenderableType]:
    """Success, the attribution table, waste, and the planted faults."""
    yield heading(f"Suite {report.suite}")
    yield facts(
        ("models", text(report.model)),
        ("embedder", text(report.embedder)),
        *((f"success, {arm}", _share(estimate)) for arm, estimate in report.success.items()),
    )
    yield from _errors(report)
    yield from _attribution(report)
    yield from _by_tag(report)
    yield from _waste(report.waste, report.citations)
    if report.planted:
        yield from _planted(report.planted)


def arms_view(report: RunReport) -> Iterator[RenderableType]:
    """What memory is worth: both arms, the differences, and what their interval says."""
    yield heading(f"Suite {report.suite}")
    yield facts(("models", text(report.model)), ("embedder", text(report.embedder)))
    yield from _errors(report)
    if report.arms is None:
        yield remark("no task ended in both arms")
        return
    yield from _arms(report.arms)
    yield from _attribution(report)


def _errors(report: RunReport) -> Iterator[RenderableType]:
    if not report.errors:
        return
    yield heading(f"Not run: {len(report.errors)}")
    for task_id, error in report.errors.items():
        yield Padding(Text.assemble(text(task_id, "cyan"), "  ", line(error)), (0, 0, 0, 2))


def _attribution(report: RunReport) -> Iterator[RenderableType]:
    rows = report.attribution
    failed = sum(row.tasks for row in rows)
    yield heading(f"Where it failed: {failed} tasks, each at the earliest stage")
    if not rows:
        yield remark("no task with memory failed")
        return
    yield table(
        ("stage", "cause", "tasks", "of the failed", "which"),
        (
            (word(r.stage), text(r.cause), text(r.tasks), _share(r.share), text(_named(r)))
            for r in rows
        ),
    )
    yield heading("What to do")
    for row in rows:
        step = Text.assemble(word(row.stage), f", {row.cause}: ", line(row.next_step))
        yield Padding(step, (0, 0, 0, 2))


def _named(row: Row) -> str:
    shown = ", ".join(row.task_ids[:_TASKS_SHOWN])
    more = len(row.task_ids) - _TASKS_SHOWN
    return f"{shown}, and {more} more" if more > 0 else shown


def _by_tag(report: RunReport) -> Iterator[RenderableType]:
    for name, values in report.by_tag.items():
        if len(values) > 1 and name != "fault":
            yield heading(f"Success by {name}")
            yield facts(*((value, _share(estimate)) for value, estimate in values.items()))


def _waste(waste: Waste, citations: CitationAgreement | None) -> Iterator[RenderableType]:
    yield heading(f"Waste, on the {waste.tasks} passing tasks that asked memory")
    bearing = waste.load_bearing
    tried = f"  over {bearing.n} tasks" if bearing else "not tried: --counterfactuals"
    yield facts(
        ("records shown", _number(waste.shown)),
        ("cited", _number(waste.cited)),
        ("load-bearing", Text.assemble(_number(bearing), tried) if bearing else text(tried, "dim")),
        ("tokens shown", _number(waste.tokens_shown, 0)),
        ("of these not cited", _percent(waste.uncited_tokens)),
        ("of these idle", _percent(waste.idle_tokens)),
    )
    if citations:
        low, high = citations.interval
        yield remark(
            f"citations agree with counterfactuals on {_percent(citations.agreement)} "
            f"[{100 * low:.0f}, {100 * high:.0f}] of {citations.compared} records: "
            f"{citations.cited_not} cited and idle, {citations.uncited_load_bearing} load-bearing "
            f"and not cited; {citations.uncertain} uncertain"
        )


def _planted(planted: Planted) -> Iterator[RenderableType]:
    wrong = len(planted.misjudged)
    yield heading("Against the planted faults")
    right = text(f"{planted.tasks - wrong} of {planted.tasks} verdicts are right")
    blamed = text(f"{len(planted.blamed)} passing tasks are blamed")
    yield Padding(Text.assemble(right, ", ", blamed), (0, 0, 0, 2))
    for one in planted.misjudged:
        was, should = "/".join(one.verdict), "/".join(one.expected)
        yield Padding(text(f"{one.task_id}: {was}, planted was {should}", "red"), (0, 0, 0, 2))


def _arms(arms: ArmsReport) -> Iterator[RenderableType]:
    yield heading(f"With memory against without: {len(arms.pairs)} tasks in both arms")
    yield table(
        ("metric", "with", "without", "difference, 95 %", "up / same / down", "finding"),
        (_metric(compared) for compared in arms.metrics),
    )
    yield facts(
        ("only with memory", text(", ".join(arms.helped) or "none")),
        ("only without", text(", ".join(arms.hurt) or "none")),
    )
    success = next(c for c in arms.metrics if c.metric == "success")
    yield Padding(_said(success), (0, 0, 0, 2))


def _metric(compared: Compared) -> tuple[Text, ...]:
    digits = 2 if compared.metric in ("success", "corrections") else 0
    return (
        text(compared.metric),
        text(f"{compared.on:.{digits}f}"),
        text(f"{compared.off:.{digits}f}"),
        _number(compared.difference, digits),
        text(f"{compared.rose} / {compared.same} / {compared.fell}"),
        text(compared.finding, _FINDINGS[compared.finding]),
    )


def _said(success: Compared) -> Text:
    low, high = success.difference.low, success.difference.high
    if success.finding != "no difference shown" or low is None or high is None:
        return text(f"Memory {success.finding}." if low is not None else "Too few tasks to tell.")
    return text(
        f"No difference in success is shown. What could have been missed: between {low:+.2f} and "
        f"{high:+.2f}."
    )


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
        _share(score.precision),
        _share(score.recall),
        text(f"{score.right} / {score.written}"),
        text(f"{score.found} / {score.gold}"),
    )


def _growth(report: WriteReport) -> Iterator[RenderableType]:
    growth = report.growth
    yield heading("Growth: each record more competes for a place in every later top k")
    yield facts(
        ("new records", text(f"{growth.records}, where {growth.gold} facts are gold")),
        ("extra", text(growth.extra)),
        ("needed and still found", _share(growth.still_found)),
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
        ("agreement (F1)", _percent(agreement.agreement)),
        ("facts of both", _share(agreement.shared)),
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
    yield from more(len(missed), _LISTED)


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
        *((f"R@{cut}, all", _number(score.recall[cut])) for cut in cuts),
        ("MRR, all", _number(score.mrr)),
        ("shown, all", _share(score.shown)),
    )


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
        ("verdict explains a label", _share(report.agreement)),
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


def _disagreement(one: ComparedVerdict) -> Iterator[RenderableType]:
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
