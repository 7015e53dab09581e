"""Search in a workspace's own approximate index, checked against the ledger's directory."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock, Thread

import numpy as np
from numpy.typing import NDArray

from memplugin.errors import StoreError
from memplugin.ports import AROUND, VectorIndex
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.arrays import NOT_THERE, Rows, View
from memplugin.storage.vector.scoring import Scored

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


log = logging.getLogger("memplugin")


class Promotion:
    """Builds indexes one thread for each workspace, at most once at a time.

    A build takes a millisecond for each record or more. A search does not wait for it: it
    stays exact until the index is there.
    """

    def __init__(self, ledger: SqlLedger, index: VectorIndex) -> None:
        self._ledger = ledger
        self._index = index
        self._lock = Lock()
        self._tried: set[str] = set()

    def ready(self, workspace_id: str) -> bool:
        """Whether the index is there; begins to build it when it is not."""
        if self._index.promoted(workspace_id):
            return True
        with self._lock:
            begun = workspace_id in self._tried
            self._tried.add(workspace_id)
        if not begun:
            # A daemon: the process may end meanwhile, and the build starts again next time.
            Thread(
                target=self._try, args=(workspace_id,), name="memplugin-promote", daemon=True
            ).start()
        return False

    def promote(self, workspace_id: str) -> None:
        """Builds the index now.

        Raises:
            StoreError: the ledger or the index did not answer.
        """
        self._index.promote(workspace_id, lambda: self._keys(workspace_id))

    def _try(self, workspace_id: str) -> None:
        try:
            self.promote(workspace_id)
        except StoreError as error:
            # Stays among those tried: one attempt for each opening of the store.
            log.warning("a large workspace is searched exactly, which is slower: %s", error)
        else:
            with self._lock:
                self._tried.discard(workspace_id)  # it may wear out, and be built anew

    def _keys(self, workspace_id: str) -> list[str]:
        # Also of records whose vectors are on their way: some of them are there by now.
        active = [e for e in self._ledger.search.changes(workspace_id, 0) if e.active]
        return [e.record_id for e in active] + [
            e.record_id + AROUND for e in active if e.has_around
        ]
