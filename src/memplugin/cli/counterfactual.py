"""``memplugin counterfactual``: did a memory bear on the answer?"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from memplugin.cli import output
from memplugin.cli.group import NothingFound, answer
from memplugin.cli.options import AnyWorkspace, AsJson
from memplugin.cli.place import place_of
from memplugin.cli.tasks import named_tasks
from memplugin.cli.views.counterfactual import counterfactuals_view
from memplugin.config import MemoryContext
from memplugin.diagnosis.counterfactual import citation_agreement
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.ports import Ledger
from memplugin.records import Counterfactual

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from memplugin.memory.store import Store


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
    ledger: Ledger, task_ids: Sequence[str] | None, workspace: str | None, sample: int, seed: int
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
            for task_id in bar.track(ledger.tasks(workspace))
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
    store: Store,
    records: Sequence[TaskRecord],
    model: str | None,
    runs: int | None,
    record_ids: Sequence[str] | None,
) -> Iterator[Counterfactual]:
    from memplugin.cli import models  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.leaving_out import counterfactual as leave_out  # noqa: PLC0415 -- too
    from memplugin.memory.replaying import stored_decision  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.steps import run  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.trying import Trial  # noqa: PLC0415 -- imports LangChain

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
