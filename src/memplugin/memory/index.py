"""The way from the ledger's outbox into the vector index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from memplugin.memory.backend import Backend, log
from memplugin.memory.open import EMBEDDER_FACT, Location, Parts, described, open_backend
from memplugin.ports import AROUND, Vectors
from memplugin.records import MemoryRecord, Noun

Progress = Callable[[int, int], None]
"""Called with how much is done, and of how much."""

CHUNK = 256
"""Records embedded and indexed at a time: an outbox of any length needs this much memory."""


def embed(backend: Backend, texts: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
    """Embeds each distinct text once."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, backend.embedder.embed(distinct), strict=True))


def index_records(
    backend: Backend, records: Sequence[MemoryRecord], vectors: Mapping[str, NDArray[np.float32]]
) -> datetime | None:
    """Puts records of one workspace into the index, then says so in the ledger.

    Args:
        backend: Where they belong.
        records: Active, of one workspace.
        vectors: By text, for every content and surrounding text.

    Returns:
        When, by the store's clock; None for no records.
    """
    if not records:
        return None
    keys = [record.id for record in records]
    rows = [vectors[record.content] for record in records]
    for record in records:
        if record.around:
            keys.append(record.id + AROUND)
            rows.append(vectors[record.around])
    workspace_id = records[0].workspace_id
    backend.index.upsert(workspace_id, keys, np.asarray(rows, dtype=np.float32))
    too_long = backend.embedder.truncates([record.content for record in records])
    now = backend.clock.now()
    backend.ledger.records.mark_indexed(
        workspace_id,
        [record.id for record in records],
        now,
        [record.id for record, cut in zip(records, too_long, strict=True) if cut],
    )
    return now


def _texts_of(records: Sequence[MemoryRecord]) -> list[str]:
    """Every text of these records that is embedded."""
    return [r.content for r in records] + [r.around for r in records if r.around]


def drain(backend: Backend, progress: Callable[[int], None] | None = None) -> int:
    """Empties the outbox: indexes what is new, removes the vectors of what was forgotten.

    Args:
        backend: The store.
        progress: Called with the number of records dealt with so far.

    Returns:
        How many records were dealt with.
    """
    done = 0
    while batch := backend.ledger.records.outbox(CHUNK):
        by_workspace = groupby(
            sorted(batch, key=lambda r: r.workspace_id), key=lambda r: r.workspace_id
        )
        for workspace_id, group in by_workspace:
            _drain_workspace(backend, workspace_id, list(group))
        done += len(batch)
        if progress:
            progress(done)
    return done


def _drain_workspace(backend: Backend, workspace_id: str, records: Sequence[MemoryRecord]) -> None:
    gone = [record.id for record in records if record.status == "forgotten"]
    if gone:
        remove(backend, workspace_id, gone)
    new = [record for record in records if record.status != "forgotten"]
    index_records(backend, new, embed(backend, _texts_of(new)))


def remove(backend: Backend, workspace_id: str, record_ids: Sequence[str]) -> None:
    """Deletes vectors, then says so in the ledger.

    Args:
        backend: The store.
        workspace_id: The workspace.
        record_ids: Whose vectors go.
    """
    backend.index.delete(workspace_id, [k for i in record_ids for k in (i, i + AROUND)])
    backend.ledger.records.mark_unindexed(workspace_id, record_ids)


def try_drain(backend: Backend) -> bool:
    """Empties the outbox as far as it goes; what stays is logged and tried again later."""
    try:
        drain(backend)
    except Exception as error:  # noqa: BLE001 -- the ledger has everything; only the index waits
        log.warning(
            "records wait for the index (%s): full-text search finds them meanwhile; "
            "they are tried again at the next open, flush() or `memplugin reindex`",
            error,
        )
        return False
    return True


def rows(vectors: Mapping[str, NDArray[np.float32]], texts: Sequence[str]) -> Vectors:
    """The vectors of texts, in their order."""
    return np.asarray([vectors[text] for text in texts], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Reindexed(Noun):
    """What came of building the index anew.

    Attributes:
        indexed: How many records.
        embedder: The model, as the store names it from now on.
    """

    indexed: int
    embedder: str


def reindex(location: Location, parts: Parts, progress: Progress | None = None) -> int:
    """Empties the index and fills it again; with another embedding model too.

    It may be interrupted at any point: first every record goes back to the outbox, then
    the vectors go, then the store names the new model. Whatever is left in the outbox is
    indexed at the next opening, by the model the store names then.

    Args:
        location: Where the store is.
        parts: The embedding model, above all.
        progress: Called with how many records are done, and of how many.

    Returns:
        How many records were indexed.

    Raises:
        StoreError: there is no store, or the ledger or the index could not be written.
        EmbedderError: the embedding model could not be loaded.
    """
    backend = open_backend(location, parts, rebuilding=True)
    try:
        backend.ledger.records.unindex_all()
        backend.index.clear()
        backend.ledger.facts.replace(EMBEDDER_FACT, described(backend.embedder))
        total = int(backend.ledger.maintenance.statistics()["outbox"])
        if progress is None:
            return drain(backend)
        progress(0, total)
        return drain(backend, lambda done: progress(done, total))
    finally:
        backend.index.close()
        backend.ledger.close()
