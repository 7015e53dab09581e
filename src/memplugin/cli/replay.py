"""How ``memplugin replay`` looks: both runs beside each other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from memplugin.cli import output
from memplugin.cli.options import AsJson, NothingFound, answer
from memplugin.cli.output import facts, heading, line, text
from memplugin.cli.store import place_of
from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.records import Decision
from memplugin.storage.sql.ledger import SqlLedger

if TYPE_CHECKING:
    from memplugin.diagnosis.replay import Changes, Replay, Run
    from memplugin.records import Json
if TYPE_CHECKING:
    from memplugin.diagnosis.replay import Changes, Replay
    from memplugin.memory.backend import Backend


_CHANGED = "yellow"
_SAME_ANSWER = {True: "the same", False: "not the same", None: "can't be compared"}


def replay_view(done: Replay) -> Iterator[RenderableType]:
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
            "that decided then."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A record that is not shown; repeatable."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Cut the candidates of then with another k.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="Recall again, as of then, under another policy.")
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
    with place_of(context).opened() as store:
        decision = _decision(store.ledger, decision_id, workspace)
        done = _replayed(store, decision, model, changes)
    if as_json:
        output.print_json(done.to_json())
    else:
        output.show(*replay_view(done))
    answer(yes=done.replayed.status == "decided")


def _replayed(
    store: Backend, decision: Decision[Any], model: str | None, changes: Changes
) -> Replay:
    from memplugin.cli import models  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.model_call import run  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.replay import replay  # noqa: PLC0415 -- imports LangChain

    name = model or models.like(decision.model)
    if name == models.LOCAL and not _bounded(decision):
        longest = models.LOCAL_MAX_REASONING
        changes = replace(changes, max_reasoning_chars=longest, cite_by_enum=True)
    where = MemoryContext(decision.workspace_id, decision.session_id)
    with models.chat_model(name) as chat:
        return run(replay(store, decision.id, where, chat, changes, None))


def _bounded(decision: Decision[Any]) -> bool:
    """Whether it was asked for as a small model has to be asked."""
    return "maxLength" in decision.answer_schema["properties"].get("memory_reasoning", {})


def _decision(ledger: SqlLedger, decision_id: str, workspace: str | None) -> Decision[Any]:
    there = [workspace] if workspace else ledger.history.workspaces_of_decision(decision_id)
    if len(there) > 1:
        raise ConfigError(
            f"decision {decision_id!r} is in several workspaces ({', '.join(there)}): "
            "say which with --workspace."
        )
    found = ledger.decisions.get(there[0], decision_id) if there else None
    if found is None:
        place = f"workspace {workspace!r}" if workspace else "any workspace"
        raise NothingFound(
            f"there is no decision {decision_id!r} in {place}: check the id and the store "
            "(memplugin task TASK shows a task's decision); old ones may have been pruned."
        )
    return found
