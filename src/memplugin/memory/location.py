"""Where a store is. Light: nothing here imports an index or an embedding model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from memplugin.errors import ConfigError

LEDGER_FILE = "ledger.db"
"""Name of the ledger in a store's folder."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a store is: a folder, or a ledger and an index by URL."""

    ledger_url: str
    index: Path | str
    cache: Path | None

    @classmethod
    def of(cls, path: str | Path | None, ledger_url: str | None, index_url: str | None) -> Location:
        """Reads what the caller gave.

        Raises:
            ConfigError: neither or only half of a place was given.
        """
        if path is None and not (ledger_url and index_url):
            raise ConfigError("give a folder, or both ledger_url= and index_url=.")
        if path is None:
            return cls(ledger_url or "", index_url or "", None)
        folder = Path(path).expanduser()
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is a file: give a folder for the store.")
        folder.mkdir(parents=True, exist_ok=True)
        return cls(
            ledger_url or f"sqlite:///{folder / LEDGER_FILE}",
            index_url or folder / "chroma",
            folder / "models",
        )

    @property
    def server(self) -> tuple[str, int] | None:
        """Host and port of the index server, else of the ledger's; None when embedded."""
        for url in (str(self.index), self.ledger_url):
            parts = urlsplit(url)
            if parts.scheme in ("http", "https"):
                return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            if parts.scheme.startswith("postgresql"):
                return parts.hostname or "localhost", parts.port or 5432
        return None
