"""What a search by vector returns, and how the best are picked."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from memplugin.ports import Vectors
from memplugin.storage.vector.arrays import Rows, View

Numbers = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class DenseHit:
    """A record and its cosines with the query; ``around`` is None without such a text."""

    record_id: str
    content: float
    around: float | None


@dataclass(frozen=True, slots=True)
class DenseHits:
    """What a search found.

    Attributes:
        hits: The best ``depth`` selected records, best first; after them those of ``also``
            that are selected, have a vector and are not among the best.
        total: How many active records the selection admits, indexed or not.
        content_mean: Over all selected records with a vector when the search was exact,
            over the hits when it was approximate; so are the three that follow.
        content_std: 0 for none or one.
        around_mean: Over those that have a text around them.
        around_std: The same.
        inapplicable: The best ``spare`` active records of a kind asked for whose scope
            does not apply, never one of another user.
        stale: Hits of the approximate index that the ledger no longer counts.
    """

    hits: Sequence[DenseHit]
    total: int
    content_mean: float = 0.0
    content_std: float = 0.0
    around_mean: float = 0.0
    around_std: float = 0.0
    inapplicable: Sequence[DenseHit] = ()
    stale: int = 0


@dataclass(frozen=True, slots=True)
class Scored:
    """Rows of a view with their cosines; ``around`` is NaN where there is none."""

    view: View
    rows: Rows
    content: Numbers
    around: Numbers

    def best(self, n: int, around_weight: float, also: Collection[str] = ()) -> list[DenseHit]:
        """The n best by content + weight · around, then the rest of ``also``; both best first."""
        scores = self.content + around_weight * np.nan_to_num(self.around, nan=0.0)
        places = _best(scores, n)
        if also:
            named = np.flatnonzero(np.isin(self.rows, self.view.rows_of(also)))
            rest = np.setdiff1d(named, places)
            places = np.concatenate([places, rest[_best(scores[rest], len(rest))]])
        return [self._hit(place) for place in cast(list[int], places.tolist())]

    def _hit(self, place: int) -> DenseHit:
        around = float(self.around[place])
        return DenseHit(
            self.view.ids[int(self.rows[place])],
            float(self.content[place]),
            None if np.isnan(around) else around,
        )

    def spread(self) -> tuple[float, float, float, float]:
        """Mean and standard deviation of content, then of around."""
        return (*_spread(self.content), *_spread(self.around[~np.isnan(self.around)]))


def _best(scores: NDArray[np.floating], n: int) -> Rows:
    if n >= len(scores):
        return np.argsort(-scores, kind="stable")
    places = np.argpartition(-scores, n)[:n]
    return places[np.lexsort((places, -scores[places]))]


def _spread(values: Numbers) -> tuple[float, float]:
    if not len(values):
        return 0.0, 0.0
    return float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))


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
