"""Search in a workspace's own approximate index, checked against the ledger's directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memplugin.ports import AROUND, VectorIndex
from memplugin.storage.arrays import NOT_THERE, Rows, View
from memplugin.storage.hits import Scored

LEAST = 50
"""Neighbours asked for at first, at least: fewer are not found faster."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Active records near a vector.

    Attributes:
        rows: Best first, by the better of their two cosines.
        cosines: What the index said, by key.
        stale: How many more it named that the ledger does not count.
    """

    rows: Rows
    cosines: Mapping[str, float]
    stale: int


def neighbours(
    index: VectorIndex,
    view: View,
    vector: NDArray[np.float32],
    admitted: NDArray[np.bool_],
    wanted: int,
) -> Neighbours:
    """Asks for more and more neighbours until enough admitted rows are among them."""
    n = max(2 * wanted, LEAST)
    while True:
        pairs = index.nearest(view.workspace_id, vector, n)
        named = dict.fromkeys(key.removesuffix(AROUND) for key, _ in pairs)
        rows = view.rows_of(named)
        if np.count_nonzero(admitted[rows]) >= wanted or len(pairs) < n:
            return Neighbours(rows, dict(pairs), len(named) - len(rows))
        n *= 2


def score(
    index: VectorIndex,
    view: View,
    vector: NDArray[np.float32],
    rows: Rows,
    cosines: Mapping[str, float],
) -> Scored:
    """Completes the cosines of rows: the index names a record by one of its two texts."""
    ids = view.ids_of(rows)
    arounds = [
        record_id + AROUND if slot != NOT_THERE else ""
        for record_id, slot in zip(ids, view.around_slot[rows], strict=True)
    ]
    missing = [key for key in (*ids, *arounds) if key and key not in cosines]
    found = index.fetch(view.workspace_id, missing) if missing else {}
    known = {**cosines, **{key: float(row @ vector) for key, row in found.items()}}
    content = np.asarray([known.get(key, np.nan) for key in ids], np.float32)
    around = np.asarray([known.get(key, np.nan) for key in arounds], np.float32)
    there = ~np.isnan(content)
    return Scored(view, rows[there], content[there], around[there])
