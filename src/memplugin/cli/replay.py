"""``memplugin replay``: a decision, run again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplugin.cli import output
from memplugin.cli.group import NothingFound, answer
from memplugin.cli.options import AsJson
from memplugin.cli.place import place_of
from memplugin.cli.views.replay import replay_view
from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.ports import Ledger
from memplugin.records import Decision

if TYPE_CHECKING:
    from memplugin.diagnosis.replay import Changes, Replay
    from memplugin.memory.store import Store


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


def _replayed(store: Store, decision: Decision[Any], model: str | None, changes: Changes) -> Replay:
    from memplugin.cli import models  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.replaying import replay  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.steps import run  # noqa: PLC0415 -- imports LangChain

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


def _decision(ledger: Ledger, decision_id: str, workspace: str | None) -> Decision[Any]:
    there = [workspace] if workspace else ledger.workspaces_of_decision(decision_id)
    if len(there) > 1:
        raise ConfigError(
            f"decision {decision_id!r} is in several workspaces ({', '.join(there)}): "
            "say which with --workspace."
        )
    found = ledger.decision(there[0], decision_id) if there else None
    if found is None:
        place = f"workspace {workspace!r}" if workspace else "any workspace"
        raise NothingFound(
            f"there is no decision {decision_id!r} in {place}: check the id and the store "
            "(memplugin task TASK shows a task's decision); old ones may have been pruned."
        )
    return found
