"""How ``memplugin counterfactual`` looks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from memplugin.cli.views.parts import facts, heading, line, remark, text, word
from memplugin.diagnosis.counterfactual import CitationAgreement, citation_agreement
from memplugin.records import Counterfactual, Runs


def counterfactuals_view(found: Sequence[Counterfactual]) -> Iterator[RenderableType]:
    """Each record that was left out, then how far citations tell the same."""
    if not found:
        yield remark("no memory was shown to these decisions: there is nothing to leave out")
        return
    for one in found:
        yield heading(f"Task {one.task_id}, without {one.record_id}: ")
        yield _facts(one)
    yield heading("Citations against counterfactuals")
    yield _agreement(citation_agreement(found))


def _facts(one: Counterfactual) -> RenderableType:
    return facts(
        ("verdict", word(one.verdict)),
        ("cited", text("yes" if one.cited else "no")),
        ("with it", line(_side(one.with_record))),
        ("without it", line(_side(one.without_record))),
        ("by chance", text(_chance(one))),
        ("detectable", text(_detectable(one))),
    )


def _side(runs: Runs) -> str:
    said = [f"{a.runs} x {json.dumps(a.answer, ensure_ascii=False)}" for a in runs.answers[:3]]
    more = f", {len(runs.answers) - 3} others" if len(runs.answers) > 3 else ""
    failed = f"; {runs.failed} calls failed" if runs.failed else ""
    return f"{', '.join(said)}{more}{failed} (varies by itself: {runs.variation:.0%})"


def _chance(one: Counterfactual) -> str:
    if one.deterministic:
        return "no test: the model is deterministic, every repeat agreed"
    return "too few runs to say" if one.p_value is None else f"p = {one.p_value:.4f}"


def _detectable(one: Counterfactual) -> str:
    if one.deterministic:
        return "any change"
    if one.detectable is None:
        return "nothing surely: the answers vary too much, or the runs are too few"
    return f"a change of {one.detectable:.0%} of the answers, with a probability of 80%"


def _agreement(agreed: CitationAgreement) -> Text:
    if agreed.agreement is None:
        return remark("nothing to compare: no verdict is certain")
    low, high = agreed.interval
    return text(
        f"  agree on {agreed.agreement:.0%} of {agreed.compared} records "
        f"(95% interval {low:.0%} to {high:.0%}); "
        f"cited and without effect: {agreed.cited_not}, "
        f"not cited and load-bearing: {agreed.uncited_load_bearing}, "
        f"uncertain: {agreed.uncertain}"
    )
