"""Scores of records by vector (cosine) and by words (BM25), and how the best are picked.

BM25 (Robertson and Zaragoza, 2009) counts inside one workspace. The database only says
which entries hold a word; the rest is arithmetic on the arrays of the workspace's
directory. Done in SQL, the sorting and the look-ups of records alone took five times as
long.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from memplugin.ports import Vectors
from memplugin.storage.sql.fulltext import Numbers, Postings
from memplugin.storage.vector.arrays import Rows, View

Cosines = NDArray[np.float32]

COSINE_AROUND_WEIGHT = 1.0
"""What the cosine of the text around a record counts, where that of its content counts 1."""

WORD_AROUND_WEIGHT = 0.5
"""What a word in the text around a record counts, where one in its content counts 1."""

SATURATION = 1.2
"""BM25's k1."""

LENGTH_NORMALISATION = 0.4
"""BM25's b; low, because a word is counted once however long the text is."""

USUAL_LENGTH = 120.0
"""Characters of a usual memory. A constant, so that a score never moves with its neighbours."""


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
    content: Cosines
    around: Cosines

    def best(self, n: int, around_weight: float, also: Collection[str] = ()) -> list[DenseHit]:
        """The n best by content + weight · around, then the rest of ``also``; both best first.

        Args:
            n: How many of the best.
            around_weight: What the cosine of the text around counts.
            also: Ids that are wanted too, however far.

        Returns:
            The hits.
        """
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


def _spread(values: Cosines) -> tuple[float, float]:
    if not len(values):
        return 0.0, 0.0
    return float(values.mean(dtype=np.float64)), float(values.std(dtype=np.float64))


AT_A_TIME = 256
"""Vectors compared with a workspace in one product: 20 MB of cosines at 20,000 records."""


def exactly(view: View, rows: Rows, vector: NDArray[np.float32]) -> Scored:
    """The cosines of those of the rows that have a vector.

    Args:
        view: The workspace.
        rows: Rows of the view.
        vector: Of length 1, shape (dimension,).

    Returns:
        The rows with their cosines.
    """
    rows = view.with_vector(rows)
    return Scored(view, rows, view.cosines(rows, vector), view.around_cosines(rows, vector))


def pairs(
    view: View, rows: Rows, vectors: Vectors, n: int, floor: float
) -> list[list[tuple[str, float]]]:
    """For each vector the n best of the rows with a cosine from ``floor`` on.

    Args:
        view: The workspace.
        rows: Rows of the view.
        vectors: Rows of length 1, shape (n, dimension).
        n: How many to name at most.
        floor: Least cosine.

    Returns:
        For each vector (record id, cosine), best first.
    """
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


def shortness(lengths: Sequence[int]) -> NDArray[np.float64]:
    """BM25's term for a word that occurs once, as a share of what it is in an empty text."""
    empty = 1 + SATURATION * (1 - LENGTH_NORMALISATION)
    longer = np.asarray(lengths, np.float64) * (SATURATION * LENGTH_NORMALISATION / USUAL_LENGTH)
    return empty / (empty + longer)


def word_scores(
    words: Sequence[Postings],
    rows_of: Callable[[Numbers], Rows],
    content: NDArray[np.float64],
    around: NDArray[np.float64],
    total: int,
) -> NDArray[np.float64]:
    """Scores every row of a directory by the words that its texts hold.

    Args:
        words: The entries that hold each word.
        rows_of: Gives the rows of entries.
        content: ``shortness`` of each row's content.
        around: ``shortness`` of the text around it.
        total: How many active records the workspace has.

    Returns:
        For each row the share of the words that it holds, rare words counting more: 0 for
        none, about 1 at most.
    """
    rarity = [_rarity(total, word) for word in words]
    scores = np.zeros(len(content))
    for word, rare in zip(words, rarity, strict=True):
        share = np.zeros(len(content))
        in_around, in_content = rows_of(word.around), rows_of(word.content)
        share[in_around] = WORD_AROUND_WEIGHT * around[in_around]
        share[in_content] = np.maximum(share[in_content], content[in_content])
        scores += share * (rare / sum(rarity))
    return scores


def _rarity(total: int, word: Postings) -> float:
    """BM25's idf inside the workspace."""
    entries = len(word.content)
    if len(word.around):
        entries = len(np.union1d(word.content, word.around))
    return math.log1p((total - entries + 0.5) / (entries + 0.5))


def best_rows(scores: NDArray[np.float64], numbers: Numbers, limit: int) -> list[int]:
    """Rows with a score above 0, best first, the newest of equals first.

    Args:
        scores: One for each row.
        numbers: The number of each row's record.
        limit: How many to return at most.

    Returns:
        The rows.
    """
    hits = np.flatnonzero(scores > 0)
    if len(hits) > limit:
        least = np.partition(scores[hits], -limit)[-limit]
        hits = hits[scores[hits] >= least]
    order = np.lexsort((-numbers[hits], -scores[hits]))
    return cast(list[int], hits[order[:limit]].tolist())
