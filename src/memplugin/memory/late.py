"""Opening a store that is there, for tools that may never need its index or its model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

from memplugin.memory.location import Location
from memplugin.memory.opening import Parts, assemble, check_embedder, described, store_id
from memplugin.memory.recorded import RecordedEmbedder, recorded_embedder
from memplugin.memory.store import Store
from memplugin.ports import Embedder, VectorIndex
from memplugin.storage.chroma import ChromaIndex
from memplugin.storage.embedder import make_embedder
from memplugin.storage.ledger import SqlLedger


def open_existing(location: Location, parts: Parts | None = None) -> Store:
    """Opens a store that is there; its index and embedder when they are first used.

    The embedder is the one the store names, unless ``parts`` brings another. One that
    can't be loaded, or does not fit, is an error of the call that needs it.

    Raises:
        StoreError: there is no store, or it can't be opened.
    """
    ledger = SqlLedger.open(location.ledger_url, create=False)
    try:
        recorded = recorded_embedder(location.ledger_url)
        given = parts or Parts()
        if given.embeddings is None and recorded:
            given = replace(given, embeddings=recorded.name)
        embedder = cast(Embedder, _Late(lambda: _embedder(location, given, recorded)))
        index = cast(VectorIndex, _Late(lambda: _index(location, ledger, recorded, embedder)))
        return assemble(ledger, index, embedder, given, server=location.server)
    except BaseException:
        ledger.close()
        raise


def _embedder(location: Location, parts: Parts, recorded: RecordedEmbedder | None) -> Embedder:
    embedder = make_embedder(parts.embeddings, cache_dir=location.cache, onnx=parts.onnx)
    if recorded:
        check_embedder(str(recorded), described(embedder))
    return embedder


def _index(
    location: Location,
    ledger: SqlLedger,
    recorded: RecordedEmbedder | None,
    embedder: Embedder,
) -> VectorIndex:
    # Deleting a vector needs the dimension only, and no model for it.
    dimension = recorded.dimension if recorded else embedder.dimension
    return ChromaIndex.open(location.index, dimension=dimension, store_id=store_id(ledger))


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
