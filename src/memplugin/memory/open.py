"""Opening a store: where it is, what a caller may bring along, and the one way to a ``Backend``."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig
from memplugin.errors import ConfigError, EmbedderMismatch
from memplugin.memory.backend import Backend
from memplugin.ports import Clock, Embedder, IdFactory, VectorIndex
from memplugin.retrieval.rank import BUILT_IN, Policy
from memplugin.storage.embedding.embedder import EmbedderSpec, make_embedder
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.sql.maintenance import SPAN_HASH_KEY, survey
from memplugin.storage.vector.chroma import ChromaIndex
from memplugin.storage.vector.search import WorkspaceSearch
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.metrics import Metrics
from memplugin.telemetry.spans import Tracing
from memplugin.write.gate import BUILT_IN_CHECKS, Check

LEDGER_FILE = "ledger.db"
"""Name of the ledger in a store's folder."""

EMBEDDER_FACT = "embedder"
HASH_KEY_FACT = "content_hash_key"
STORE_ID_FACT = "store_id"


@dataclass(frozen=True, slots=True)
class Location:
    """Where a store is: a folder, or a ledger and an index by URL."""

    ledger_url: str
    index: Path | str
    cache: Path | None

    @classmethod
    def of(cls, path: str | Path | None, ledger_url: str | None, index_url: str | None) -> Location:
        """Reads what the caller gave.

        Args:
            path: A folder for ledger and index; made when it is not there.
            ledger_url: Of a ledger that is not in the folder.
            index_url: Of an index that is not in the folder.

        Returns:
            Where both are.

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


@dataclass(frozen=True, slots=True)
class RecordedEmbedder:
    """What a store remembers of its embedder."""

    name: str
    dimension: int
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.name} {self.dimension} {self.fingerprint}"


def recorded_embedder(ledger_url: str) -> RecordedEmbedder | None:
    """Reads it; None from a store that has never been opened with one.

    Raises:
        StoreError: there is no such store, or it can't be read.
    """
    with survey(ledger_url) as store:
        stored = store.fact(EMBEDDER_FACT)
    if stored is None:
        return None
    name, dimension, fingerprint = stored.rsplit(" ", 2)  # a folder's name may have blanks
    return RecordedEmbedder(name, int(dimension), fingerprint)


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        """The time now."""
        return datetime.now(UTC)


def _random_id(prefix: str) -> str:
    """A new id that nothing else has."""
    return f"{prefix}_{uuid.uuid4().hex}"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a caller may bring along instead of the usual parts."""

    embeddings: EmbedderSpec = None
    onnx: bool = False
    config: MemoryConfig | None = None
    tracer_provider: TracerProvider | None = None
    meter_provider: MeterProvider | None = None
    clock: Clock | None = None
    ids: IdFactory | None = None
    checks: Sequence[Check] = BUILT_IN_CHECKS
    policies: Sequence[Policy] = ()


def open_backend(
    location: Location, parts: Parts, *, must_exist: bool = False, rebuilding: bool = False
) -> Backend:
    """Opens ledger, index and embedder; makes the store when it is not there.

    Args:
        location: Where it is.
        parts: What the caller brings along.
        must_exist: The store must be there. Its index and embedder are opened when they are
            first used; the embedder is the one that the store names, unless ``parts`` has
            another. One that can't be loaded, or does not fit, is an error of the call that
            needs it.
        rebuilding: The store must be there, and the embedder may be another one than it was
            filled with (``reindex``, which records it when the old vectors are gone).

    Returns:
        The open store.

    Raises:
        EmbedderMismatch: the store was filled with another embedding model.
        StoreError: the ledger or the index could not be opened.
        EmbedderError: the embedding model could not be loaded.
    """
    ledger = SqlLedger.open(location.ledger_url, create=not (must_exist or rebuilding))
    try:
        if must_exist:
            index, embedder = _opened_when_used(location, ledger, parts)
        else:
            embedder = make_embedder(parts.embeddings, cache_dir=location.cache, onnx=parts.onnx)
            if not rebuilding:
                mine = described(embedder)
                _check_embedder(ledger.facts.setdefault(EMBEDDER_FACT, mine), mine)
            index = _open_index(location, ledger, embedder.dimension)
        return assemble(ledger, index, embedder, parts, server=location.server)
    except BaseException:
        ledger.close()
        raise


def assemble(
    ledger: SqlLedger,
    index: VectorIndex,
    embedder: Embedder,
    parts: Parts,
    *,
    server: tuple[str, int] | None = None,
) -> Backend:
    """Puts a store together from its parts.

    Args:
        ledger: Open.
        index: Open.
        embedder: Of the index's dimension.
        parts: What the caller brings along.
        server: Host and port for the spans; None for a store in this process.

    Returns:
        The open store.

    Raises:
        ConfigError: the configured policy is unknown.
    """
    config = parts.config or MemoryConfig.from_env()
    policies: Mapping[str, Policy] = {**BUILT_IN, **{p.name: p for p in parts.policies}}
    if config.policy not in policies:
        raise ConfigError(f"policy is {config.policy!r}: use one of {', '.join(sorted(policies))}.")
    content = ContentPolicy(
        config.content_on_spans,
        config.hash_key or ledger.facts.secret(SPAN_HASH_KEY),
        config.truncate_chars,
    )
    version, id_ = metadata.version("memplugin"), store_id(ledger)
    return Backend(
        config=config,
        ledger=ledger,
        index=index,
        search=WorkspaceSearch(
            ledger, index, exact_limit=config.exact_limit, cache_bytes=config.cache_bytes
        ),
        embedder=embedder,
        tracing=Tracing(
            parts.tracer_provider,
            content,
            version=version,
            store_id=id_,
            server=server,
        ),
        metrics=Metrics(
            parts.meter_provider,
            version=version,
            store_id=id_,
            backlog=ledger.records.backlog,
        ),
        clock=parts.clock or SystemClock(),
        new_id=parts.ids or _random_id,
        checks=parts.checks,
        policies=policies,
    )


def store_id(ledger: SqlLedger) -> str:
    """The store's own id, made when it is first asked for."""
    return ledger.facts.setdefault(STORE_ID_FACT, _random_id("st"))


def described(embedder: Embedder) -> str:
    """What a store remembers of its embedder: name, dimension and fingerprint."""
    return f"{embedder.name} {embedder.dimension} {embedder.fingerprint}"


def _check_embedder(stored: str, mine: str) -> None:
    """Compares two embedders by their descriptions.

    Raises:
        EmbedderMismatch: their vectors can't be compared.
    """
    # The name is for people: the same weights may be known under two.
    if stored.split(" ")[-2:] != mine.split(" ")[-2:]:
        raise EmbedderMismatch(
            f"the store was filled with the embedding model {stored!r}, and this is {mine!r}: "
            "open it with that model, or run `memplugin reindex --embeddings MODEL` once."
        )


def _open_index(location: Location, ledger: SqlLedger, dimension: int) -> ChromaIndex:
    return ChromaIndex.open(location.index, dimension=dimension, store_id=store_id(ledger))


def _opened_when_used(
    location: Location, ledger: SqlLedger, parts: Parts
) -> tuple[VectorIndex, Embedder]:
    recorded = recorded_embedder(location.ledger_url)
    model = parts.embeddings
    if model is None and recorded:
        model = recorded.name

    def load() -> Embedder:
        loaded = make_embedder(model, cache_dir=location.cache, onnx=parts.onnx)
        if recorded:
            _check_embedder(str(recorded), described(loaded))
        return loaded

    embedder = cast(Embedder, _Late(load))
    # Deleting a vector needs the dimension only, and no model for it.
    index = _Late(
        lambda: _open_index(
            location, ledger, recorded.dimension if recorded else embedder.dimension
        )
    )
    return cast(VectorIndex, index), embedder


class _Late:
    """A port that is made when it is first used."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> Any:
        return self._make()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def close(self) -> None:
        """Closes what was made; what never was is not made for that."""
        if "_made" in self.__dict__:
            self._made.close()
