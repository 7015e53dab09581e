"""What every embedder does to texts and vectors, whichever library computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from memplugin.errors import EmbedderError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


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
