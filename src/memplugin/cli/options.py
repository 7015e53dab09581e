"""What every command shares: its options, its exit codes, and which store it is about."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypedDict, cast

import typer

from memplugin.cli.otlp import Spans
from memplugin.errors import ConfigError, MemPluginError, StoreError

if TYPE_CHECKING:
    from memplugin.memory.client import Memory
    from memplugin.storage.sql.ledger import SqlLedger
    from memplugin.storage.sql.maintenance import Survey

Workspace = Annotated[
    str, typer.Option("--workspace", "-w", help="The workspace; nothing is looked for in others.")
]
AnyWorkspace = Annotated[
    str | None,
    typer.Option(
        "--workspace", "-w", help="The workspace; may be left out when only one has the task."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do it without asking.")]


# ---------------------------------------------------------------- exit codes

NO = 1
"""The answer is no: nothing was found."""

WRONG_USE = 2
"""The command can't work with these arguments."""

INTERRUPTED = 130
"""The exit code that shells give to a command that was interrupted."""


class NothingFound(MemPluginError):
    """What a command was asked about is not there."""


def answer(*, yes: bool) -> NoReturn:
    """Ends the command with 0 or 1."""
    raise typer.Exit(0 if yes else NO)


def only_workspace(what: str, workspaces: Sequence[str], given: str | None) -> str | None:
    """The workspace of something that a user named by its id.

    Args:
        what: For the message, such as ``task 't_0417'``.
        workspaces: The workspaces that have it.
        given: The workspace that the user named; None for none.

    Returns:
        ``given``, or else the only workspace that has it; None when no workspace has it.

    Raises:
        ConfigError: several workspaces have it, and the user named none.
    """
    if given is None and len(workspaces) > 1:
        raise ConfigError(
            f"{what} is in several workspaces ({', '.join(workspaces)}): "
            "say which with --workspace."
        )
    return given or next(iter(workspaces), None)


def no_task(task_id: str, workspace: str | None) -> NothingFound:
    """The error for a task that is not there."""
    place = f"workspace {workspace!r}" if workspace else "any workspace"
    return NothingFound(
        f"there is no task {task_id!r} in {place}: check the id, the workspace and the store "
        "(memplugin doctor lists workspaces)."
    )


# ---------------------------------------------------------------- ages and times

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def age(given: str, option: str) -> timedelta:
    """Reads ``12h``, ``90d`` or ``8w``.

    Raises:
        ConfigError: it is none of these.
    """
    found = re.fullmatch(r"(\d{1,5})([hdw])", given.strip())
    if not found:
        raise ConfigError(
            f"{option} is {given!r}: give a number of hours, days or weeks, such as 12h, 90d or 8w."
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment(given: str, option: str) -> datetime:
    """Reads an age before now, or a date or time in ISO 8601 (UTC where it says no zone).

    Raises:
        ConfigError: it is neither.
    """
    try:
        time = datetime.fromisoformat(given.strip())
    except ValueError:
        pass
    else:
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    try:
        return datetime.now(UTC) - age(given, option)
    except ConfigError:
        raise ConfigError(
            f"{option} is {given!r}: give an age (12h, 90d, 8w) or a date (2026-03-02, "
            "2026-03-02T09:14:11+01:00)."
        ) from None


# ---------------------------------------------------------------- the store

# The database's and LangChain's packages are imported where a store is opened: help and
# version don't wait for them.
# ruff: noqa: PLC0415

HOW_TO_NAME = (
    "give --store FOLDER before the command (memplugin --store ./memory check …), "
    "or set MEMPLUGIN_STORE"
)


class Address(TypedDict, total=False):
    """Where a store is, as the arguments of ``Memory.open_existing``."""

    path: str | None
    ledger_url: str | None
    index_url: str | None


@dataclass(frozen=True, slots=True)
class Place:
    """What the options before a command say."""

    store: str | None
    index: str | None
    spans: Spans = field(default_factory=lambda: Spans(None))

    @property
    def ledger_url(self) -> str:
        """URL of a ledger that is there.

        Raises:
            ConfigError: no store is named, or the path is a file.
            StoreError: there is none in the folder.
        """
        if not self.store:
            raise ConfigError(f"no store is named: {HOW_TO_NAME}.")
        if "://" in self.store:
            return self.store
        from memplugin.memory.open import LEDGER_FILE

        folder = Path(self.store).expanduser()
        if folder.is_file():
            raise ConfigError(f"{folder} is a file: name the folder that holds {LEDGER_FILE}.")
        ledger = folder / LEDGER_FILE
        if not ledger.exists():
            raise StoreError(
                f"there is no store in {folder} (no {LEDGER_FILE}): check --store or "
                f'MEMPLUGIN_STORE; an application makes one with Memory.open("{folder}").'
            )
        return f"sqlite:///{ledger}"

    @property
    def address(self) -> Address:
        """The store as ``Memory`` takes it.

        Raises:
            ConfigError: no store is named, or its index is not.
            StoreError: there is none in the folder.
        """
        if self.ledger_url != self.store:
            return {"path": self.store, "index_url": self.index}
        if not self.index:
            raise ConfigError(
                "the ledger is named by URL and the index is not: give --index URL too "
                "(http://chroma:8000), or set MEMPLUGIN_INDEX."
            )
        return {"ledger_url": self.store, "index_url": self.index}

    @contextmanager
    def ledger(self) -> Generator[SqlLedger]:
        """The ledger alone, which opens at once: no index, no model."""
        from memplugin.storage.sql.ledger import SqlLedger

        ledger = SqlLedger.open(self.ledger_url, create=False)
        try:
            yield ledger
        finally:
            ledger.close()

    def survey(self) -> AbstractContextManager[Survey]:
        """The ledger, read without being upgraded or changed."""
        from memplugin.storage.sql.maintenance import survey

        return survey(self.ledger_url)

    @contextmanager
    def opened(self) -> Generator[Memory]:
        """The store, its index and model only when they are used."""
        from memplugin.memory.client import Memory

        with Memory.open_existing(**self.address, tracer_provider=self.spans.provider()) as memory:
            yield memory


def place_of(context: typer.Context) -> Place:
    """What the options before this command said."""
    return cast(Place, context.find_root().obj)
