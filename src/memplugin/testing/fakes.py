"""A clock, ids, an embedder and a vector index for tests: the same each time."""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from memplugin.errors import StoreError
from memplugin.ports import IdFactory, Vectors

_WORD = re.compile(r"\w+")


class HashingEmbedder:
    """``Embedder`` without a model: texts are close when they share words.

    Each word adds 1 or -1 to one of ``dimension`` numbers, chosen by its CRC-32; a text
    without a word gets a vector of its own.
    """

    def __init__(self, dimension: int = 64) -> None:
        self._dimension = dimension

    @property
    def name(self) -> str:
        """``hashing-`` and the dimension."""
        return f"hashing-{self._dimension}"

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    @property
    def fingerprint(self) -> str:
        """Hex; another dimension has another."""
        return f"{zlib.crc32(self.name.encode()):08x}"

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row of length 1 for each text."""
        rows = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in _WORD.findall(text.casefold()):
                code = zlib.crc32(word.encode("utf-8", "replace"))
                row[code % self._dimension] += 1.0 if code >> 16 & 1 else -1.0
            if not row.any():  # no word, or words that cancel out
                row[zlib.crc32(text.encode("utf-8", "replace")) % self._dimension] = 1.0
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """Never: every word counts."""
        return [False] * len(texts)


class InMemoryIndex:
    """``VectorIndex`` in a dict, exact: what other indexes are compared with."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._vectors: dict[str, dict[str, NDArray[np.float32]]] = defaultdict(dict)
        self._promoted: set[str] = set()

    def upsert(self, workspace_id: str, keys: Sequence[str], vectors: Vectors) -> None:
        """See ``VectorIndex``."""
        if len(keys) != len(vectors):
            raise StoreError(f"{len(keys)} keys came with {len(vectors)} vectors: give as many.")
        with self._lock:
            self._vectors[workspace_id].update(
                (key, np.array(row, np.float32)) for key, row in zip(keys, vectors, strict=True)
            )

    def delete(self, workspace_id: str, keys: Sequence[str]) -> None:
        """Removes vectors; unknown keys are no error."""
        with self._lock:
            for key in keys:
                self._vectors[workspace_id].pop(key, None)

    def fetch(self, workspace_id: str, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors under these keys; unknown keys are absent."""
        with self._lock:
            held = self._vectors[workspace_id]
            return {key: held[key] for key in keys if key in held}

    def promoted(self, workspace_id: str) -> bool:
        """Whether ``promote`` was called."""
        return workspace_id in self._promoted

    def promote(self, workspace_id: str, keys: Callable[[], Sequence[str]]) -> None:
        """Allows ``nearest``; every key of the workspace is found, not only these."""
        keys()
        self._promoted.add(workspace_id)

    def nearest(
        self, workspace_id: str, vector: NDArray[np.float32], n: int
    ) -> list[tuple[str, float]]:
        """See ``VectorIndex``."""
        if not self.promoted(workspace_id):
            raise StoreError("the workspace is not promoted: call promote() before nearest().")
        with self._lock:
            held = dict(self._vectors[workspace_id])
        cosines = [(key, float(row @ vector)) for key, row in held.items()]
        return sorted(cosines, key=lambda pair: -pair[1])[:n]

    def clear(self) -> None:
        """Removes everything."""
        with self._lock:
            self._vectors.clear()
            self._promoted.clear()

    def close(self) -> None:
        """Does nothing: there is nothing to give back."""


class FixedClock:
    """``Clock`` that stands still, or goes on by ``step`` each time it is read."""

    def __init__(self, start: datetime, step: timedelta = timedelta(0)) -> None:
        if start.tzinfo is None:
            raise ValueError("start has no time zone: give one, such as tzinfo=UTC.")
        self._now = start
        self._step = step

    def now(self) -> datetime:
        """The present; the next call gives ``step`` more."""
        present = self._now
        self._now += self._step
        return present

    def advance(self, by: timedelta) -> None:
        """Lets time pass."""
        self._now += by

    def set(self, now: datetime) -> None:
        """Jumps to a time."""
        if now.tzinfo is None:
            raise ValueError("now has no time zone: give one, such as tzinfo=UTC.")
        self._now = now


def counting_ids() -> IdFactory:
    """An id factory that counts for each prefix: ``r_1``, ``r_2``, ``d_1``."""
    counts: Counter[str] = Counter()
    lock = RLock()

    def new_id(prefix: str) -> str:
        with lock:
            counts[prefix] += 1
            return f"{prefix}_{counts[prefix]}"

    return new_id
