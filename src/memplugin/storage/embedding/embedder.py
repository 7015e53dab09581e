"""Text to vectors: which embedder a user's ``embeddings=`` stands for."""

from __future__ import annotations

from pathlib import Path

from langchain_core.embeddings import Embeddings

from memplugin.errors import ConfigError
from memplugin.ports import Embedder
from memplugin.storage.embedding.langchain import LangChainEmbedder
from memplugin.storage.embedding.model_files import DEFAULT_MODEL
from memplugin.storage.embedding.onnx import OnnxEmbedder
from memplugin.storage.embedding.sentence import SentenceTransformerEmbedder

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
