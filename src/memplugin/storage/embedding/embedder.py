"""The embedder that a user's ``embeddings=`` stands for, and the one for LangChain's models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from memplugin.errors import ConfigError, EmbedderError
from memplugin.ports import Embedder
from memplugin.storage.embedding.model_files import DEFAULT_MODEL, short_hash
from memplugin.storage.embedding.onnx import OnnxEmbedder
from memplugin.storage.embedding.sentence import PROBE, SentenceTransformerEmbedder, normalised

__all__ = [
    "DEFAULT_MODEL",
    "EmbedderSpec",
    "LangChainEmbedder",
    "OnnxEmbedder",
    "SentenceTransformerEmbedder",
    "make_embedder",
]

EmbedderSpec = str | Path | Embeddings | Embedder | None
"""What a user may name an embedding model by."""


def make_embedder(
    spec: EmbedderSpec = None, *, cache_dir: Path | None = None, onnx: bool = False
) -> Embedder:
    """Makes the embedder that a user asked for; loads nothing yet.

    Args:
        spec: A model's name or folder, a langchain-core ``Embeddings``, an embedder, which
            is returned as it is, or None for the default model.
        cache_dir: Folder for ONNX exports, beside the store.
        onnx: Run a named model through ONNX Runtime.

    Raises:
        ConfigError: ``onnx`` without a ``cache_dir``, or a spec of another kind.
    """
    if isinstance(spec, Embeddings):
        return LangChainEmbedder(spec)
    if spec is None or isinstance(spec, str | Path):
        return _named(DEFAULT_MODEL if spec is None else spec, cache_dir, onnx=onnx)
    if not all(hasattr(spec, name) for name in ("embed", "truncates", "fingerprint")):
        raise ConfigError(
            f"{type(spec).__name__} is no embedding model. Pass embeddings= a model's name, "
            "a folder, or a langchain-core Embeddings."
        )
    return spec


def _named(model: str | Path, cache_dir: Path | None, *, onnx: bool) -> Embedder:
    if not onnx:
        return SentenceTransformerEmbedder(model)
    if cache_dir is None:
        raise ConfigError("onnx=True needs a folder for the exported model: pass cache_dir=.")
    return OnnxEmbedder(model, cache_dir=cache_dir)


_MODEL_ATTRIBUTES = ("model", "model_name", "model_id")


class LangChainEmbedder:
    """Wraps an ``Embeddings``; texts and queries alike go through ``embed_documents``.

    Args:
        embeddings: Any implementation.

    Raises:
        EmbedderError: from any use, when the wrapped model fails or returns what are not
            vectors of one length, one for each text.
    """

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings

    @property
    def name(self) -> str:
        """The wrapped model's own name where it tells one, else its class."""
        for attribute in _MODEL_ATTRIBUTES:
            value = getattr(self._embeddings, attribute, None)
            if isinstance(value, str) and value:
                return value
        return type(self._embeddings).__name__

    @property
    def dimension(self) -> int:
        """Length of a vector, found with one short text."""
        return self._dimension

    @property
    def fingerprint(self) -> str:
        """Hex of the class, model name and dimension.

        Not of a vector: hosted models answer the same text with vectors that differ in
        the fourth decimal, so no hash of one would be there again tomorrow. What a service
        changes behind an unchanged name can't be seen here.
        """
        kind = type(self._embeddings)
        return short_hash(f"{kind.__module__}.{kind.__qualname__}:{self.name}:{self.dimension}")

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one row of length 1 for each text, shape (n, dimension)."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        vectors = self._vectors(texts)
        if vectors.shape[1] != self.dimension:
            raise EmbedderError(
                f"{self.name} returned vectors of {vectors.shape[1]} numbers where it returned "
                f"{self.dimension} before. Use one model for the whole store."
            )
        return vectors

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """Always False: an ``Embeddings`` does not tell how much it reads."""
        return [False] * len(texts)

    @cached_property
    def _dimension(self) -> int:
        return self._vectors([PROBE]).shape[1]

    def _vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            rows = self._embeddings.embed_documents(list(texts))
        except Exception as error:
            raise EmbedderError(
                f"{self.name} failed ({error}). Check its key, its limits and the network, "
                "then try again."
            ) from error
        lengths = {len(row) for row in rows}
        if len(rows) != len(texts) or len(lengths) != 1:
            raise EmbedderError(
                f"{self.name} returned {len(rows)} vectors of lengths {sorted(lengths)} for "
                f"{len(texts)} texts, where one of one length was due for each. "
                "Pass another model as embeddings=."
            )
        return normalised(np.asarray(rows, np.float64), self.name)
