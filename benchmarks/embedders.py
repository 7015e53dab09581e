"""Embedders for measuring: the fastest real one, one that remembers, and one without a model."""

from __future__ import annotations

import importlib.util
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

from memplugin.ports import Embedder, Vectors
from memplugin.storage.embedding.embedder import make_embedder


def onnx_installed() -> bool:
    """Whether the extra ``onnx`` is there."""
    return all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime", "tokenizers"))


def fastest(cache: Path) -> Embedder:
    """The default model, through ONNX Runtime where that is installed: the same vectors."""
    return make_embedder(None, cache_dir=cache, onnx=onnx_installed())


class CachingEmbedder:
    """An embedder that computes each text once, so that a recall can be timed without it."""

    def __init__(self, inner: Embedder, vectors: Mapping[str, Vectors] | None = None) -> None:
        self._inner = inner
        self._vectors = dict(vectors or {})
        self.name = inner.name
        self.dimension = inner.dimension
        self.fingerprint = inner.fingerprint

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row for each text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if new:
            self._vectors.update(zip(new, self._inner.embed(new), strict=True))
        return np.stack([self._vectors[text] for text in texts])

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """As the model says."""
        return self._inner.truncates(texts)


class MadeUp:
    """Vectors that a text's hash decides: no model, and thousands in a second.

    They lie in a subspace of ``inner`` dimensions: sentences embedded by a model do not
    fill their space either. TwoNN (Facco and others, 2017) finds 23 dimensions in LoCoMo's
    turns embedded by all-MiniLM-L6-v2, and 25 in these. Vectors without such an order are
    all about equally far from each other, and what is nearest means nothing.
    """

    name = "made-up"

    def __init__(self, dimension: int = 384, inner: int = 24) -> None:
        self.dimension = dimension
        self.fingerprint = f"{dimension:04x}{inner:04x}"
        self._directions = np.random.default_rng(0).standard_normal((inner, dimension), np.float32)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """A row of length 1 for each text."""
        places = [
            np.random.default_rng(zlib.crc32(text.encode())).standard_normal(
                len(self._directions), np.float32
            )
            for text in texts
        ]
        rows = np.asarray(places).reshape(len(texts), -1) @ self._directions
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """Never."""
        return [False] * len(texts)


class AsLangChain(Embeddings):
    """An embedder as other libraries take it."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return self._inner.embed(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        """The vector of one text."""
        return self.embed_documents([text])[0]
