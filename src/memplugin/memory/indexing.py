"""The way from the ledger's outbox into the vector index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from memplugin.memory.store import Store, log
from memplugin.ports import AROUND, Vectors
from memplugin.records import MemoryRecord

CHUNK = 256
"""Records embedded and indexed at a time: an outbox of any length needs this much memory."""


def embed(store: Store, texts: Sequence[str]) -> Mapping[str, NDArray[np.float32]]:
    """Embeds each distinct text once."""
    distinct = list(dict.fromkeys(texts))
    return dict(zip(distinct, store.embedder.embed(distinct), strict=True))


def index_records(
    store: Store, records: Sequence[MemoryRecord], vectors: Mapping[str, NDArray[np.float32]]
) -> datetime | None:
    """Puts records of one workspace into the index, then says so in the ledger.

    Args:
        store: Where they belong.
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
    store.index.upsert(workspace_id, keys, np.asarray(rows, dtype=np.float32))
    too_long = store.embedder.truncates([record.content for record in records])
    now = store.clock.now()
    store.ledger.indexed(
        workspace_id,
        [record.id for record in records],
        now,
        [record.id for record, cut in zip(records, too_long, strict=True) if cut],
    )
    return now


def texts_of(records: Sequence[MemoryRecord]) -> list[str]:
    """Every text of these records that is embedded."""
    return [r.content for r in records] + [r.around for r in records if r.around]


def drain(store: Store, progress: Callable[[int], None] | None = None) -> int:
    """Empties the outbox: indexes what is new, removes the vectors of what was forgotten.

    Args:
        store: The store.
        progress: Called with the number of records dealt with so far.

    Returns:
        How many records were dealt with.
    """
    done = 0
    while batch := store.ledger.outbox(CHUNK):
        by_workspace = groupby(
            sorted(batch, key=lambda r: r.workspace_id), key=lambda r: r.workspace_id
        )
        for workspace_id, group in by_workspace:
            _drain_workspace(store, workspace_id, list(group))
        done += len(batch)
        if progress:
            progress(done)
    return done


def _drain_workspace(store: Store, workspace_id: str, records: Sequence[MemoryRecord]) -> None:
    gone = [record.id for record in records if record.status == "forgotten"]
    if gone:
        remove(store, workspace_id, gone)
    new = [record for record in records if record.status != "forgotten"]
    index_records(store, new, embed(store, texts_of(new)))


def remove(store: Store, workspace_id: str, record_ids: Sequence[str]) -> None:
    """Deletes vectors, then says so in the ledger."""
    store.index.delete(workspace_id, [k for i in record_ids for k in (i, i + AROUND)])
    store.ledger.unindexed(workspace_id, record_ids)


def try_drain(store: Store) -> bool:
    """Empties the outbox as far as it goes; what stays is logged and tried again later."""
    try:
        drain(store)
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
