"""How ``memplugin counterfactual`` looks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import RenderableType
from rich.text import Text

from memplugin.cli.views.parts import heading, item, line, remark, text, word
from memplugin.diagnosis.counterfactual import CitationAgreement, citation_agreement
from memplugin.records import Counterfactual, Runs


def counterfactuals_view(found: Sequence[Counterfactual]) -> Iterator[RenderableType]:
    """Each record that was left out, then how far citations tell the same."""
    if not found:
        yield remark("no memory was shown to these decisions: there is nothing to leave out")
        return
    for task_id, tried in groupby(found, key=lambda one: one.task_id):
        yield heading(f"Task {task_id}")
        for one in tried:
            yield from item(one.record_id, _about(one), line(_answers(one)))
    yield heading("Citations against counterfactuals")
    yield _agreement(citation_agreement(found))


def _about(one: Counterfactual) -> list[Text]:
    return [word(one.verdict), text("cited" if one.cited else "not cited"), text(_chance(one))]


def _answers(one: Counterfactual) -> str:
    kept, left_out = _side(one.with_record), _side(one.without_record)
    if kept == left_out:
        return f"with and without it: {kept}"
    return f"with it: {kept}; without it: {left_out}"


def _side(runs: Runs) -> str:
    said = [f"{a.runs} x {json.dumps(a.answer, ensure_ascii=False)}" for a in runs.answers[:3]]
    more = f", {len(runs.answers) - 3} others" if len(runs.answers) > 3 else ""
    varies = f" (varies by itself: {runs.variation:.0%})" if runs.variation else ""
    failed = f", {runs.failed} calls failed" if runs.failed else ""
    return ", ".join(said) + more + failed + varies


def _chance(one: Counterfactual) -> str:
    if one.deterministic:
        return "no test: every repeat of a deterministic model agreed"
    if one.p_value is None:
        return "too few runs to say"
    if one.detectable is None:
        return f"p = {one.p_value:.4f}, no change could surely be seen"
    return f"p = {one.p_value:.4f}, a change of {one.detectable:.0%} would be seen"


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
