"""Opening a store: the one place where ledger, index and embedder come together."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig
from memplugin.errors import ConfigError, EmbedderMismatch
from memplugin.memory.store import Store
from memplugin.ports import Clock, Embedder, IdFactory, Ledger, VectorIndex
from memplugin.retrieval.policies import BUILT_IN
from memplugin.retrieval.rank import Policy
from memplugin.storage.chroma import ChromaIndex
from memplugin.storage.embedder import EmbedderSpec, make_embedder
from memplugin.storage.ledger import SqlLedger
from memplugin.storage.search import VectorSearch
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.spans import Tracing
from memplugin.write.gate import BUILT_IN_CHECKS, Check

EMBEDDER_FACT = "embedder"
HASH_KEY_FACT = "content_hash_key"
STORE_ID_FACT = "store_id"


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        """The present."""
        return datetime.now(UTC)


def random_id(prefix: str) -> str:
    """A new id that nothing else has."""
    return f"{prefix}_{uuid.uuid4().hex}"


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
            ledger_url or f"sqlite:///{folder / 'ledger.db'}",
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


@dataclass(frozen=True, slots=True)
class Parts:
    """What a caller may bring along instead of the usual parts."""

    embeddings: EmbedderSpec = None
    onnx: bool = False
    config: MemoryConfig | None = None
    tracer_provider: TracerProvider | None = None
    clock: Clock | None = None
    ids: IdFactory | None = None
    checks: Sequence[Check] = BUILT_IN_CHECKS
    policies: Sequence[Policy] = ()


def open_store(location: Location, parts: Parts, *, other_embedder: bool = False) -> Store:
    """Opens ledger, index and embedder.

    Args:
        other_embedder: Take the given embedder although the store was filled with
            another one (``reindex``).

    Raises:
        EmbedderMismatch: the store was filled with another embedding model.
        StoreError: the ledger or the index could not be opened.
        EmbedderError: the embedding model could not be loaded.
    """
    ledger = SqlLedger.open(location.ledger_url)
    try:
        embedder = make_embedder(parts.embeddings, cache_dir=location.cache, onnx=parts.onnx)
        _check_embedder(ledger, embedder, replace=other_embedder)
        index = ChromaIndex.open(location.index, dimension=embedder.dimension)
    except BaseException:
        ledger.close()
        raise
    return assemble(ledger, index, embedder, parts, server=location.server)


def assemble(
    ledger: Ledger,
    index: VectorIndex,
    embedder: Embedder,
    parts: Parts,
    *,
    server: tuple[str, int] | None = None,
) -> Store:
    """Puts a store together from its parts."""
    config = parts.config or MemoryConfig.from_env()
    policies: Mapping[str, Policy] = {**BUILT_IN, **{p.name: p for p in parts.policies}}
    if config.policy not in policies:
        raise ConfigError(f"policy is {config.policy!r}: use one of {', '.join(sorted(policies))}.")
    return Store(
        config=config,
        ledger=ledger,
        index=index,
        search=VectorSearch(
            ledger, index, exact_limit=config.exact_limit, cache_bytes=config.cache_bytes
        ),
        embedder=embedder,
        tracing=Tracing(
            parts.tracer_provider,
            ContentPolicy(
                config.content_on_spans, _hash_key(ledger, config), config.truncate_chars
            ),
            version=metadata.version("memplugin"),
            store_id=ledger.setdefault(STORE_ID_FACT, random_id("st")),
            server=server,
        ),
        clock=parts.clock or SystemClock(),
        new_id=parts.ids or random_id,
        checks=parts.checks,
        policies=policies,
    )


def _hash_key(ledger: Ledger, config: MemoryConfig) -> bytes:
    return config.hash_key or bytes.fromhex(ledger.setdefault(HASH_KEY_FACT, secrets.token_hex(32)))


def _check_embedder(ledger: Ledger, embedder: Embedder, *, replace: bool) -> None:
    mine = f"{embedder.name} {embedder.dimension} {embedder.fingerprint}"
    if replace:
        ledger.replace(EMBEDDER_FACT, mine)
        return
    stored = ledger.setdefault(EMBEDDER_FACT, mine)
    # The name is for people: the same weights may be known under two.
    if stored.split(" ")[-2:] != mine.split(" ")[-2:]:
        raise EmbedderMismatch(
            f"the store was filled with the embedding model {stored!r}, and this is {mine!r}: "
            "open it with that model, or run `memplugin reindex --embeddings MODEL` once."
        )
