"""How ``memplugin counterfactual`` looks."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from memplugin.cli import output
from memplugin.cli.options import AnyWorkspace, AsJson, NothingFound, answer
from memplugin.cli.output import heading, item, line, remark, text, word
from memplugin.cli.store import place_of
from memplugin.cli.tasks import named_tasks
from memplugin.config import MemoryContext
from memplugin.diagnosis.counterfactual import CitationAgreement, citation_agreement
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.records import Counterfactual, Runs
from memplugin.storage.sql.ledger import SqlLedger

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from memplugin.memory.backend import Backend


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


def counterfactual(
    context: typer.Context,
    task_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="TASK", help="Task ids; without one, the workspace's failed tasks."),
    ] = None,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="Runs with, and runs without, each record; left out, 8."),
    ] = None,
    sample: Annotated[
        int, typer.Option(min=0, help="Without task ids: so many tasks that passed, too.")
    ] = 0,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    model: Annotated[
        str | None,
        typer.Option(
            help="Who decides: PROVIDER:NAME, local or scripted; left out, the model that "
            "decided then."
        ),
    ] = None,
    record: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="A record to leave out; repeatable. Left out, each that was shown."
        ),
    ] = None,
    workspace: AnyWorkspace = None,
    as_json: AsJson = False,
) -> None:
    """Did a memory bear on the answer? Runs decisions with and without each shown record.

    Everything else stays byte for byte the same. What comes of it is kept, and stands in
    the task's record and verdict from then on. Exit code 1: there was nothing to try.
    """
    with place_of(context).opened() as store:
        records = _chosen(store.ledger, task_ids, workspace, sample, seed)
        found = list(_tried(store, records, model, runs, record))
    if as_json:
        agreed = citation_agreement(found)
        output.print_json(
            {
                "counterfactuals": [one.to_json() for one in found],
                "citations": {**agreed.to_json(), "agreement": agreed.agreement},
            }
        )
    else:
        output.show(*counterfactuals_view(found))
    answer(yes=bool(found))


def _chosen(
    ledger: SqlLedger, task_ids: Sequence[str] | None, workspace: str | None, sample: int, seed: int
) -> list[TaskRecord]:
    if task_ids:
        return named_tasks(ledger, task_ids, workspace)
    if workspace is None:
        raise ConfigError(
            "no task is named: give task ids, or --workspace for its failed tasks "
            "(and --sample N for some that passed)."
        )
    with output.progress("reading tasks") as bar:
        read = [
            TaskRecord.from_ledger(ledger, workspace, task_id)
            for task_id in bar.track(ledger.history.tasks(workspace))
        ]
    decided = [record for record in read if record.use.decision_id]
    passed = [record for record in decided if record.success]
    draw = random.Random(seed)  # noqa: S311 -- a sample, no secret
    records = [record for record in decided if record.success is False]
    records += draw.sample(passed, min(sample, len(passed)))
    if not records:
        raise NothingFound(
            f"no task of workspace {workspace!r} with a decision was reported as failed: name "
            "tasks, or give --sample N for tasks that passed."
        )
    return records


def _tried(
    store: Backend,
    records: Sequence[TaskRecord],
    model: str | None,
    runs: int | None,
    record_ids: Sequence[str] | None,
) -> Iterator[Counterfactual]:
    from memplugin.cli import models  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.counterfactual import Trial  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.counterfactual import counterfactual as leave_out  # noqa: PLC0415 -- too
    from memplugin.memory.model_call import run  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.replay import stored_decision  # noqa: PLC0415 -- imports LangChain

    with ExitStack() as opened, output.progress("running decisions") as bar:
        chats: dict[str, BaseChatModel] = {}
        for record in records:
            if record.use.decision_id is None:
                raise NothingFound(f"task {record.task_id!r} has no decision to run again.")
            decision = stored_decision(store, record.workspace_id, record.use.decision_id)
            name = model or models.like(decision.model)
            if name not in chats:
                chats[name] = opened.enter_context(models.chat_model(name))
            small = name == models.LOCAL
            progress = bar.add_task(record.task_id)
            trial = Trial(
                record_ids=record_ids,
                runs=runs,
                max_reasoning_chars=models.LOCAL_MAX_REASONING if small else None,
                cite_by_enum=small,
                on_run=lambda done, most, task=progress: bar.update(
                    task, completed=done, total=most
                ),
            )
            where = MemoryContext(decision.workspace_id, decision.session_id)
            yield from run(leave_out(store, decision.id, where, chats[name], trial))
