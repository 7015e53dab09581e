"""Building the vector index anew from the ledger."""

from __future__ import annotations

from collections.abc import Callable

from memplugin.memory.indexing import drain
from memplugin.memory.location import Location
from memplugin.memory.opening import Parts, described, open_store
from memplugin.memory.recorded import EMBEDDER_FACT

Progress = Callable[[int, int], None]
"""Called with how many records are done, of how many."""


def reindex(location: Location, parts: Parts, progress: Progress) -> int:
    """Empties the index and fills it again; with another embedding model too.

    It may be interrupted at any point: first every record goes back to the outbox, then
    the vectors go, then the store names the new model. Whatever is left in the outbox is
    indexed at the next opening, by the model the store names then.

    Returns:
        How many records were indexed.

    Raises:
        StoreError: there is no store, or the ledger or the index could not be written.
        EmbedderError: the embedding model could not be loaded.
    """
    store = open_store(location, parts, rebuilding=True)
    try:
        store.ledger.unindex_all()
        store.index.clear()
        store.ledger.replace(EMBEDDER_FACT, described(store.embedder))
        total = int(store.ledger.statistics()["outbox"])
        progress(0, total)
        return drain(store, lambda done: progress(done, total))
    finally:
        store.index.close()
        store.ledger.close()
