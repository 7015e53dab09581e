"""Search among vectors in memory, every one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
from numpy.typing import NDArray

from memplugin.ports import Vectors
from memplugin.storage.arrays import Rows, View
from memplugin.storage.hits import Scored

AT_A_TIME = 256
"""Vectors compared with a workspace in one product: 20 MB of cosines at 20,000 records."""


def exactly(view: View, rows: Rows, vector: NDArray[np.float32]) -> Scored:
    """The cosines of those of the rows that have a vector."""
    rows = view.with_vector(rows)
    return Scored(view, rows, view.cosines(rows, vector), view.around_cosines(rows, vector))


def pairs(
    view: View, rows: Rows, vectors: Vectors, n: int, floor: float
) -> list[list[tuple[str, float]]]:
    """For each vector the n best of the rows with a cosine from ``floor`` on."""
    rows = view.with_vector(rows)
    row_of = np.full(len(view.content), -1, np.intp)
    row_of[view.content_slot[rows]] = rows
    found: list[list[tuple[str, float]]] = []
    for start in range(0, len(vectors), AT_A_TIME):
        cosines = vectors[start : start + AT_A_TIME] @ view.content.T
        found.extend(_each(view, cosines, row_of, n, floor))
    return found


def _each(
    view: View, cosines: Vectors, row_of: Rows, n: int, floor: float
) -> Iterator[list[tuple[str, float]]]:
    near = (cosines >= floor) & (row_of >= 0)
    for line, close in zip(cosines, near, strict=True):
        slots = np.flatnonzero(close)
        best = slots[np.argsort(-line[slots], kind="stable")[:n]]
        ids = view.ids_of(row_of[best])
        yield list(zip(ids, cast(list[float], line[best].tolist()), strict=True))
