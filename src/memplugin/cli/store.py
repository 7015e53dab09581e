"""Which store a command is about, and where its spans go: the options before the command."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from memplugin.cli.otlp import Spans
from memplugin.errors import ConfigError, StoreError
from memplugin.memory.open import LEDGER_FILE, Location
from memplugin.storage.sql.ledger import SqlLedger

if TYPE_CHECKING:
    from memplugin.memory.backend import Backend

HOW_TO_NAME = (
    "give --store FOLDER before the command (memplugin --store ./memory check …), "
    "or set MEMPLUGIN_STORE"
)


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
    def location(self) -> Location:
        """Where ledger and index are.

        Raises:
            ConfigError: no store is named, or its index is not.
            StoreError: there is none in the folder.
        """
        url = self.ledger_url
        if url != self.store:
            return Location.of(self.store, None, self.index)
        if not self.index:
            raise ConfigError(
                "the ledger is named by URL and the index is not: give --index URL too "
                "(http://chroma:8000), or set MEMPLUGIN_INDEX."
            )
        return Location.of(None, url, self.index)

    @contextmanager
    def ledger(self) -> Generator[SqlLedger]:
        """The ledger alone, which opens at once: no index, no model."""
        ledger = SqlLedger.open(self.ledger_url, create=False)
        try:
            yield ledger
        finally:
            ledger.close()

    @contextmanager
    def opened(self) -> Generator[Backend]:
        """The store, its index and model only when they are used."""
        # Imports what the ledger alone does not need.
        from memplugin.memory.open import Parts, open_existing  # noqa: PLC0415 -- see above

        location = self.location
        store = open_existing(location, Parts(tracer_provider=self.spans.provider()))
        try:
            yield store
        finally:
            store.close()


def place_of(context: typer.Context) -> Place:
    """What the options before this command said."""
    return cast(Place, context.find_root().obj)
