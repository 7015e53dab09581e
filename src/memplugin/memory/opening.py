"""Opening a store: the one place where ledger, index and embedder come together."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata

from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig
from memplugin.errors import ConfigError, EmbedderMismatch
from memplugin.memory.location import Location
from memplugin.memory.recorded import EMBEDDER_FACT
from memplugin.memory.store import Store
from memplugin.ports import Clock, Embedder, IdFactory, Ledger, VectorIndex
from memplugin.retrieval.policies import BUILT_IN
from memplugin.retrieval.rank import Policy
from memplugin.storage.chroma import ChromaIndex
from memplugin.storage.embedder import EmbedderSpec, make_embedder
from memplugin.storage.ledger import SqlLedger
from memplugin.storage.search import VectorSearch
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.metrics import Metrics
from memplugin.telemetry.spans import Tracing
from memplugin.write.gate import BUILT_IN_CHECKS, Check

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


def open_store(location: Location, parts: Parts, *, rebuilding: bool = False) -> Store:
    """Opens ledger, index and embedder.

    Args:
        location: Where it is.
        parts: What the caller brings along.
        rebuilding: The store must be there, and the embedder may be another one than it
            was filled with (``reindex``, which records it when the old vectors are gone).

    Raises:
        EmbedderMismatch: the store was filled with another embedding model.
        StoreError: the ledger or the index could not be opened.
        EmbedderError: the embedding model could not be loaded.
    """
    ledger = SqlLedger.open(location.ledger_url, create=not rebuilding)
    try:
        embedder = make_embedder(parts.embeddings, cache_dir=location.cache, onnx=parts.onnx)
        if not rebuilding:
            mine = described(embedder)
            check_embedder(ledger.setdefault(EMBEDDER_FACT, mine), mine)
        index = ChromaIndex.open(
            location.index, dimension=embedder.dimension, store_id=store_id(ledger)
        )
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
    content = ContentPolicy(
        config.content_on_spans, _hash_key(ledger, config), config.truncate_chars
    )
    version, id_ = metadata.version("memplugin"), store_id(ledger)
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
            content,
            version=version,
            store_id=id_,
            server=server,
        ),
        metrics=Metrics(
            parts.meter_provider,
            version=version,
            store_id=id_,
            backlog=ledger.backlog,
        ),
        clock=parts.clock or SystemClock(),
        new_id=parts.ids or random_id,
        checks=parts.checks,
        policies=policies,
    )


def store_id(ledger: Ledger) -> str:
    """The store's own id, made when it is first asked for."""
    return ledger.setdefault(STORE_ID_FACT, random_id("st"))


def _hash_key(ledger: Ledger, config: MemoryConfig) -> bytes:
    return config.hash_key or bytes.fromhex(ledger.setdefault(HASH_KEY_FACT, secrets.token_hex(32)))


def described(embedder: Embedder) -> str:
    """What a store remembers of its embedder: name, dimension and fingerprint."""
    return f"{embedder.name} {embedder.dimension} {embedder.fingerprint}"


def check_embedder(stored: str, mine: str) -> None:
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
