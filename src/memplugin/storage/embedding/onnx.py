"""The embedder that runs on ONNX Runtime: the same vectors as torch, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from memplugin.errors import EmbedderUnavailable
from memplugin.storage.embedding.model_files import DEFAULT_MODEL
from memplugin.storage.embedding.onnx_runtime import Runtime, open_runtime
from memplugin.storage.embedding.sentence import (
    SentenceTransformerEmbedder,
    longer_than,
    normalised,
)

_BATCH = 16


class OnnxEmbedder:
    """A sentence-transformers model run by ONNX Runtime (extra ``onnx``).

    The first use exports the model, which needs torch and takes seconds; the export is
    compared with torch before it is kept, and later processes only read it.

    Args:
        model: A name on the hub, or a folder. Encoders with mean pooling only.
        cache_dir: Folder for exports, each named by its weights' fingerprint.

    Raises:
        EmbedderUnavailable: on first use, when the model could not be loaded or a package
            is missing.
        EmbedderError: on first use, when the model is of another kind or ONNX disagrees
            with torch.
    """

    def __init__(self, model: str | Path = DEFAULT_MODEL, *, cache_dir: Path) -> None:
        self._source = SentenceTransformerEmbedder(model, device="cpu")
        self._cache_dir = cache_dir
        self._lock = Lock()
        self._opened: Runtime | None = None

    @property
    def name(self) -> str:
        """The model, as a user would name it."""
        return self._source.name

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of the weights, as for the torch model."""
        return self._source.fingerprint

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one row of length 1 for each text, shape (n, dimension)."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        # Texts of like length together, since a batch is padded to its longest.
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            vectors[rows] = self._runtime.vectors([texts[i] for i in rows])
        return normalised(vectors, self.name)

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """Whether the end of each text lies beyond what the model reads."""
        runtime = self._runtime
        if runtime.limit is None:
            return [False] * len(texts)
        return longer_than(runtime.limit, texts, runtime.counter)

    @cached_property
    def _dimension(self) -> int:
        return self._runtime.vectors([""]).shape[1]

    @property
    def _runtime(self) -> Runtime:
        with self._lock:
            if self._opened is None:
                self._opened = self._open()
            return self._opened

    def _open(self) -> Runtime:
        graph = self._cache_dir / f"{self.fingerprint}.onnx"
        tokenizer = self._cache_dir / f"{self.fingerprint}.tokenizer.json"
        try:
            if not (graph.exists() and tokenizer.exists()):
                # Imports torch, which is needed this once only.
                from memplugin.storage.embedding.onnx_export import export  # noqa: PLC0415

                # A model of its own, so that torch's copy of the weights is let go.
                export(SentenceTransformerEmbedder(self.name, device="cpu"), graph, tokenizer)
            return open_runtime(graph, tokenizer)
        except ImportError as error:
            raise EmbedderUnavailable(
                f"The ONNX embedder needs a package that is missing ({error}). "
                'Install it with `pip install "memplugin[onnx]"`, or use onnx=False.'
            ) from error
