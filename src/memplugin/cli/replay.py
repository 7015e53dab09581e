"""``memplugin replay`` and ``counterfactual``: stored decisions that are run again."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memplugin.cli import models, output
from memplugin.cli.options import (
    AnyWorkspace,
    AsJson,
    NothingFound,
    answer,
    only_workspace,
    place_of,
)
from memplugin.cli.output import facts, heading, item, line, remark, text, word
from memplugin.cli.tasks import all_tasks, named_tasks
from memplugin.config import MemoryContext
from memplugin.diagnosis.counterfactual import CitationAgreement, citation_agreement
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.records import Counterfactual, Decision, Runs

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from memplugin.diagnosis.replay import Changes, Replay, Run
    from memplugin.memory.client import Memory
    from memplugin.records import Json
    from memplugin.storage.sql.ledger import SqlLedger


_CHANGED = "yellow"
_SAME_ANSWER = {True: "the same", False: "not the same", None: "can't be compared"}


def _replay_view(done: Replay) -> Iterator[RenderableType]:
    """What was changed, the messages, and both replies."""
    yield heading(f"Replay of decision {done.decision_id}")
    yield facts(
        ("task", text(done.task_id)),
        ("workspace", text(done.workspace_id)),
        ("changed", text(_changes(done.changes, exact=done.exact))),
        ("answers", text(_SAME_ANSWER[done.same_answer], "" if done.same_answer else _CHANGED)),
        *(("note", line(note)) for note in done.notes),
    )
    yield from _messages(done)
    yield heading("Replies")
    yield _replies(done)


def _changes(changes: Changes, *, exact: bool) -> str:
    made = [
        *(f"without {record_id}" for record_id in changes.without),
        *([f"k={changes.k}"] if changes.k is not None else []),
        *([f"policy {changes.policy}"] if changes.policy else []),
        *(
            [f"reasoning of {changes.max_reasoning_chars} characters at most"]
            if changes.max_reasoning_chars
            else []
        ),
        *(["citations of what is shown only"] if changes.cite_by_enum else []),
    ]
    if exact:
        made.append("messages and schema are byte for byte those that were sent")
    return "; ".join(made) or "nothing"


# ---------------------------------------------------------------- messages


def _messages(done: Replay) -> Iterator[RenderableType]:
    for one, other in zip(done.original.messages, done.replayed.messages, strict=True):
        then, now = _said(one), _said(other)
        yield heading(f"{_role(one)} message" + ("" if then == now else ", then and now"))
        if then == now:
            yield Padding(text(then, "dim"), (0, 0, 0, 2))
        else:
            yield _beside(then, now)


def _role(message: Json) -> str:
    kind = str(message["type"])
    return {"human": "User", "ai": "Assistant"}.get(kind, kind.capitalize())


def _said(message: Json) -> str:
    content: Any = message["data"]["content"]
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def _beside(then: str, now: str) -> Table:
    """Two texts line by line; what is in one of them only is marked."""
    left, right = then.splitlines(), now.splitlines()
    grid = _two_columns()
    for tag, i, end_i, j, end_j in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        changed = tag != "equal"
        grid.add_row(
            "",
            _block(left[i:end_i], "- ", "red", changed=changed),
            _block(right[j:end_j], "+ ", "green", changed=changed),
        )
    return grid


def _block(lines: list[str], mark: str, style: str, *, changed: bool) -> Text:
    shown = (f"{mark if changed else '  '}{one}" for one in lines)
    return text("\n".join(shown), style if changed else "dim")


# ---------------------------------------------------------------- replies


def _replies(done: Replay) -> Table:
    grid = _two_columns("then", "now")
    for name, then, now in _rows(done.original, done.replayed):
        style = "" if then == now else _CHANGED
        grid.add_row(text(name), text(then, style), text(now, style))
    return grid


def _rows(original: Run, replayed: Run) -> Iterator[tuple[str, str | None, str | None]]:
    for name in ("model", "status", "detail", "reasoning", "considered"):
        one, other = getattr(original, name), getattr(replayed, name)
        if one is not None or other is not None:
            yield name, one, other
    yield "cited", _cited(original), _cited(replayed)
    then, now = original.answer or {}, replayed.answer or {}
    for name in dict.fromkeys([*then, *now]):
        yield name, _value(original.answer, name), _value(replayed.answer, name)


def _cited(run: Run) -> str | None:
    return ", ".join(run.cited_record_ids) or None


def _value(answer: Json | None, name: str) -> str | None:
    if answer is None:
        return None
    return json.dumps(answer.get(name), ensure_ascii=False)


def _two_columns(then: str = "", now: str = "") -> Table:
    grid = Table(
        "", then, now, box=box.SIMPLE_HEAD, show_edge=False, show_header=bool(then), expand=True
    )
    grid.columns[0].style = "dim"
    grid.columns[0].no_wrap = True
    for column in grid.columns[1:]:
        column.ratio, column.overflow = 1, "fold"
    return grid


def replay(
    context: typer.Context,
    decision_id: Annotated[
        str, typer.Argument(metavar="DECISION", help="The decision's id (`task` shows it).")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            help="Who decides this time: PROVIDER:NAME, local or scripted; left out, the model "
            "that decided originally."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A record that is not shown; repeatable."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Cut the original candidates with another k.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="Run the original query again under another policy, over the records of that time."
        ),
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option(
            "--workspace",
            "-w",
            help="The workspace; may be left out when only one has the decision.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What would the model have decided? Runs a decision again and shows both runs.

    With nothing changed the model gets the stored messages and schema byte for byte.
    Nothing is stored. Exit code 1: there is no such decision, or none came of it this time.
    """
    # Imports LangChain, as no command does that only reads the ledger.
    from memplugin.diagnosis.replay import Changes  # noqa: PLC0415 -- see above

    changes = Changes(tuple(without or ()), k, policy)
    with place_of(context).opened() as memory:
        decision = _decision(memory.backend.ledger, decision_id, workspace)
        done = _replayed(memory, decision, model, changes)
    output.print_result(done.to_json(), _replay_view(done), as_json=as_json)
    answer(yes=done.replayed.status == "decided")


def _replayed(
    memory: Memory, decision: Decision[Any], model: str | None, changes: Changes
) -> Replay:
    name = model or models.name_of_recorded(decision.model)
    if name == models.LOCAL and not _bounded(decision):
        longest = models.LOCAL_MAX_REASONING
        changes = replace(changes, max_reasoning_chars=longest, cite_by_enum=True)
    where = MemoryContext(decision.workspace_id, decision.session_id)
    with models.chat_model(name) as chat:
        return memory.replay(
            decision.id,
            context=where,
            model=chat,
            without=changes.without,
            k=changes.k,
            policy=changes.policy,
            max_reasoning_chars=changes.max_reasoning_chars,
            cite_by_enum=changes.cite_by_enum,
        )


def _bounded(decision: Decision[Any]) -> bool:
    """Whether the decision was requested within the limits that a small model needs."""
    return "maxLength" in decision.answer_schema["properties"].get("memory_reasoning", {})


def _decision(ledger: SqlLedger, decision_id: str, workspace: str | None) -> Decision[Any]:
    there = [] if workspace else ledger.history.workspaces_of_decision(decision_id)
    chosen = only_workspace(f"decision {decision_id!r}", there, workspace)
    decision = ledger.decisions.get(chosen, decision_id) if chosen else None
    if decision is None:
        place = f"workspace {workspace!r}" if workspace else "any workspace"
        raise NothingFound(
            f"there is no decision {decision_id!r} in {place}: check the id and the store "
            "(memplugin task TASK shows a task's decision); old ones may have been pruned."
        )
    return decision


# ---------------------------------------------------------------- counterfactual


def _counterfactuals_view(found: Sequence[Counterfactual]) -> Iterator[RenderableType]:
    """Each record that was left out, then how far citations agree with that."""
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
            "decided originally."
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
    with place_of(context).opened() as memory:
        records = _chosen(memory.backend.ledger, task_ids, workspace, sample, seed)
        found = list(_tried(memory, records, model, runs, record))
    agreed = citation_agreement(found)
    result = {
        "counterfactuals": [one.to_json() for one in found],
        "citations": {**agreed.to_json(), "agreement": agreed.agreement},
    }
    output.print_result(result, _counterfactuals_view(found), as_json=as_json)
    answer(yes=bool(found))


def _chosen(
    ledger: SqlLedger, task_ids: Sequence[str] | None, workspace: str | None, sample: int, seed: int
) -> list[TaskRecord]:
    if task_ids:
        return named_tasks(ledger, task_ids, workspace)
    read = all_tasks(ledger, workspace, "--sample N for some")
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
    memory: Memory,
    records: Sequence[TaskRecord],
    model: str | None,
    runs: int | None,
    record_ids: Sequence[str] | None,
) -> Iterator[Counterfactual]:
    with ExitStack() as opened, output.progress("running decisions") as bar:
        chats: dict[str, BaseChatModel] = {}
        for record in records:
            if record.use.decision_id is None:
                raise NothingFound(f"task {record.task_id!r} has no decision to run again.")
            where = MemoryContext(record.workspace_id, record.task_id)
            decision = memory.decision(record.use.decision_id, context=where)
            name = model or models.name_of_recorded(decision.model)
            if name not in chats:
                chats[name] = opened.enter_context(models.chat_model(name))
            small = name == models.LOCAL
            progress = bar.add_task(record.task_id)
            yield from memory.counterfactual(
                decision.id,
                context=MemoryContext(decision.workspace_id, decision.session_id),
                model=chats[name],
                record_ids=record_ids,
                runs=runs,
                max_reasoning_chars=models.LOCAL_MAX_REASONING if small else None,
                cite_by_enum=small,
                on_run=lambda done, most, task=progress: bar.update(
                    task, completed=done, total=most
                ),
            )
