"""An embedder that computes each text once: a run asks for the same ones again and again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memplugin.ports import Embedder, Vectors


class Remembering:
    """``Embedder`` that keeps every vector as long as it lives."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._vectors: dict[str, NDArray[np.float32]] = {}

    @property
    def name(self) -> str:
        """As the model says."""
        return self._inner.name

    @property
    def dimension(self) -> int:
        """As the model says."""
        return self._inner.dimension

    @property
    def fingerprint(self) -> str:
        """As the model says."""
        return self._inner.fingerprint

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row for each text."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            self._vectors.update(zip(new, self._inner.embed(new), strict=True))
        if not texts:
            return self._inner.embed(texts)
        return np.stack([self._vectors[text] for text in texts])

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """As the model says."""
        return self._inner.truncates(texts)
