"""The embedding model that a store says it was filled with."""

from __future__ import annotations

from dataclasses import dataclass

from memplugin.storage.survey import survey

EMBEDDER_FACT = "embedder"


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
