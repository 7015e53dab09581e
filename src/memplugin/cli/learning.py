"""``memplugin learn``, ``audit``, ``evict`` and ``calibrate``: who gets the credit."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from memplugin.cli import output
from memplugin.cli.group import answer
from memplugin.cli.options import AsJson, Workspace
from memplugin.cli.place import place_of
from memplugin.cli.views.learning import audit_view, calibration_view, evicted_view, learnt_view
from memplugin.cli.views.parts import text
from memplugin.config import MemoryContext
from memplugin.diagnosis.calibration import SignAgreement
from memplugin.errors import ConfigError
from memplugin.records import Json

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def learn(
    context: typer.Context,
    model: Annotated[
        str | None,
        typer.Option(
            help="Who judges: PROVIDER:NAME (any chat model of LangChain), or local. Left out, "
            "the cosine of memory and action has to do."
        ),
    ] = None,
    workspace: Annotated[
        str | None,
        typer.Option("--workspace", "-w", help="Only this workspace; left out, all of them."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Most rows of this run.")
    ] = None,
    concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most calls of the judge at a time.")
    ] = 8,
    as_json: AsJson = False,
) -> None:
    """Was what was shown followed? Scores each shown memory against what was then done.

    "Followed" is a heuristic, and no cause: `memplugin calibrate` compares it with
    counterfactual runs. May be stopped anywhere; the next run goes on, and tries again what
    failed. Exit code 1: the judge could not be reached.
    """
    # Imports what the ledger alone does not need.
    from memplugin.memory import learning  # noqa: PLC0415 -- see above

    with (
        place_of(context).opened() as store,
        _judge(model) as judge,
        output.progress("scoring") as bar,
    ):
        task = bar.add_task("scoring", total=None)
        wanted = learning.Wanted(
            model=judge,
            workspace_id=workspace,
            limit=limit,
            concurrency=concurrency,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )
        report = learning.learn(store, wanted)
    if as_json:
        output.print_json(report.to_json())
    else:
        output.show(*learnt_view(report))
    if report.stopped:
        kept = "what it said before is kept" if report.judged else "every score is left empty"
        output.warn(
            f"the judge can't be reached ({report.stopped}): {kept}. Check the model and its key, "
            "then run the command again: it goes on from there."
        )
    answer(yes=report.stopped is None)


def audit(
    context: typer.Context,
    workspace: Workspace,
    limit: Annotated[
        int, typer.Option(min=1, help="Most rows shown of each kind; --json has all.")
    ] = 10,
    as_json: AsJson = False,
) -> None:
    """What in this memory wants a person's eye? Misleading records first.

    Then: rows on which judge and cosine are far apart, duplicates, contradictions with
    overlapping scopes, and records that were never shown.
    """
    # Imports the index.
    from memplugin.memory import auditing  # noqa: PLC0415 -- see above

    with place_of(context).opened() as store:
        found = auditing.audit(store, workspace)
    if as_json:
        output.print_json(found.to_json())
    else:
        output.show(*audit_view(found, limit))


def evict(
    context: typer.Context,
    workspace: Workspace,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say which records, and why.")
    ] = False,
    undo: Annotated[
        str | None, typer.Option(metavar="RECORD", help="Take the eviction of this record back.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Retires records whose use did harm, or whose successes did without them.

    Never one that is pinned, and no preference or instruction. Retired records are kept, are
    never retrieved, and can be taken back with --undo. Exit code 1: there is no such record.
    """
    # Imports what the ledger alone does not need.
    from memplugin.memory import retiring  # noqa: PLC0415 -- see above

    if undo and dry_run:
        raise ConfigError("--undo changes one record and --dry-run none: give one of them.")
    with place_of(context).opened() as store:
        if undo:
            record = retiring.restore(store, undo, MemoryContext(workspace, "memplugin-evict"))
            if as_json:
                output.print_json(record.to_json())
            else:
                output.show(text(f"{record.id} is active again."))
            return
        evictions = retiring.evict(store, workspace, dry_run=dry_run)
    if as_json:
        output.print_json([eviction.to_json() for eviction in evictions])
    else:
        output.show(*evicted_view(evictions, dry_run=dry_run))


def calibrate(
    context: typer.Context,
    sample: Annotated[int, typer.Argument(metavar="N", min=1, help="How many shown records.")],
    workspace: Workspace,
    model: Annotated[
        str,
        typer.Option(help="Who decides, not who judges: PROVIDER:NAME, local or scripted."),
    ],
    runs: Annotated[
        int | None, typer.Option(min=1, help="Runs with, and runs without, each; left out, 8.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Does "followed" tell a cause? Compares judge and cosine with counterfactual runs.

    Decisions are run again with and without each record of the sample; what comes of it is
    kept.
    """
    from memplugin.cli import models  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory import calibrating  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.steps import run  # noqa: PLC0415 -- imports LangChain
    from memplugin.memory.trying import Trial  # noqa: PLC0415 -- imports LangChain

    small = model == models.LOCAL
    with (
        place_of(context).opened() as store,
        models.chat_model(model) as decider,
        output.progress("running decisions") as bar,
    ):
        task = bar.add_task("running decisions", total=None)
        trial = Trial(
            runs=runs,
            max_reasoning_chars=models.LOCAL_MAX_REASONING if small else None,
            cite_by_enum=small,
            on_run=lambda done, most: bar.update(task, completed=done, total=most),
        )
        steps = calibrating.calibrate(store, workspace, decider, sample, trial, seed=seed)
        found = run(steps)
    if as_json:
        output.print_json({**found.to_json(), **_shares(found.judge), **_shares(found.cosine)})
    else:
        output.show(*calibration_view(found))


def _shares(sign: SignAgreement) -> Json:
    shares = {"agreement": sign.agreement, "kappa": sign.kappa}
    return {sign.sign: {**sign.to_json(), **shares}}


@contextmanager
def _judge(name: str | None) -> Generator[BaseChatModel | None]:
    if name is None:
        yield None
        return
    from memplugin.cli import models  # noqa: PLC0415 -- imports LangChain

    if name == models.SCRIPTED:
        raise ConfigError("the scripted model is no judge: give --model PROVIDER:NAME, or local.")
    with models.chat_model(name) as model:
        yield model
