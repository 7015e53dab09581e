"""Search in a workspace, by vector and by words, over what its directory holds.

A selection of up to ``exact_limit`` records is searched exactly by vector: one product with
the vectors in memory, which does not depend on what an approximate index forgets. A larger
one is searched in the workspace's own approximate index, as soon as there is one, and what
that names is checked against the directory.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from threading import Lock, Thread

import numpy as np
from numpy.typing import NDArray

from memplugin.errors import StoreError
from memplugin.ports import AROUND, VectorIndex, Vectors
from memplugin.records import Selection
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.arrays import NOT_THERE, Rows, View
from memplugin.storage.vector.directory import Directories
from memplugin.storage.vector.scoring import COSINE_AROUND_WEIGHT, DenseHits, Scored, exactly, pairs

log = logging.getLogger("memplugin")


FEWEST_NEIGHBOURS = 50
"""Neighbours asked for at first, at least: fewer are not found faster."""


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Active records near a vector.

    Attributes:
        rows: Best first, by the better of their two cosines.
        cosines: What the index said, by key.
        stale: How many more it named that the ledger does not count.
    """

    rows: Rows
    cosines: Mapping[str, float]
    stale: int


def _nearest(
    index: VectorIndex,
    view: View,
    vector: NDArray[np.float32],
    admitted: NDArray[np.bool_],
    wanted: int,
) -> _Neighbours:
    """Asks for more and more neighbours until enough admitted rows are among them."""
    n = max(2 * wanted, FEWEST_NEIGHBOURS)
    while True:
        pairs = index.nearest(view.workspace_id, vector, n)
        named = dict.fromkeys(key.removesuffix(AROUND) for key, _ in pairs)
        rows = view.rows_of(named)
        if np.count_nonzero(admitted[rows]) >= wanted or len(pairs) < n:
            return _Neighbours(rows, dict(pairs), len(named) - len(rows))
        n *= 2


def _complete(
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


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to look through, and how.

    Attributes:
        chosen: Rows that the selection admits.
        others: Rows of other scopes, when some are wanted.
        indexed: Whether the workspace has its own approximate index.
        exact: Whether the chosen rows are looked through one by one.
    """

    view: View
    chosen: Rows
    others: Rows
    indexed: bool
    exact: bool


class WorkspaceSearch:
    """Finds records of a workspace by vector and by words. Safe in threads.

    Args:
        ledger: Says which records count; asked what has changed at every search.
        index: Keeps the vectors.
        exact_limit: Selections up to this many records are searched exactly.
        cache_bytes: Most memory for the directories held.
    """

    def __init__(
        self, ledger: SqlLedger, index: VectorIndex, *, exact_limit: int, cache_bytes: int
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._exact_limit = exact_limit
        self._directories = Directories(ledger, cache_bytes)
        self._promotion = _Promotion(ledger, index)

    def search(
        self,
        selection: Selection,
        vector: NDArray[np.float32],
        *,
        depth: int,
        also: Collection[str] = (),
        spare: int = 0,
        user: str | None = None,
        around_weight: float = COSINE_AROUND_WEIGHT,
    ) -> DenseHits:
        """Finds the selected records nearest to a vector, by content + weight · around.

        Args:
            selection: Which records count.
            vector: Of length 1, shape (dimension,).
            depth: How many to find.
            also: Ids whose cosines are wanted too, where the selection admits them.
            spare: How many records to find whose scope does not apply.
            user: Whose request it is: other users' records are not among those.
            around_weight: Of the text around; a record without one counts 0 for it.

        Raises:
            StoreError: the ledger or the index did not answer.
        """
        query = np.asarray(vector, np.float32)
        plan = self._plan(selection, len(query), depth, spare, user)
        found = self._neighbours(plan, query, 0 if plan.exact else depth, spare)
        near = self._near(plan, query, found, also)
        content_mean, content_std, around_mean, around_std = near.spread()
        return DenseHits(
            hits=near.best(depth, around_weight, also),
            total=len(plan.chosen),
            content_mean=content_mean,
            content_std=content_std,
            around_mean=around_mean,
            around_std=around_std,
            inapplicable=self._far(plan, query, found).best(spare, around_weight),
            stale=found.stale if found else 0,
        )

    def full_text(self, selection: Selection, query: str, limit: int) -> list[tuple[str, float]]:
        """Finds the selected records that hold words of a query; nothing in it is syntax.

        Args:
            selection: Which records count.
            query: Its words are looked for in contents and in the texts around.
            limit: How many to find at most.

        Returns:
            (record id, score), best first. A score is the share of the query's words that
            the record holds, rare words counting more: above 0, about 1 at most.

        Raises:
            StoreError: the ledger did not answer.
        """
        with self._ledger.snapshot():
            words = self._ledger.search.postings(selection.workspace_id, query)
            if not words:
                return []
            with self._directories.borrow(selection.workspace_id) as directory:
                return directory.full_text(words, selection, limit)

    def similar(
        self, workspace_id: str, vectors: Vectors, n: int, floor: float
    ) -> list[list[tuple[str, float]]]:
        """For each vector the active records of a workspace that are nearly the same.

        Args:
            workspace_id: Looked through whole, whatever the kind and scope.
            vectors: Rows of length 1, shape (m, dimension).
            n: How many to name for each, at most.
            floor: Least cosine.

        Returns:
            For each vector (record id, cosine of the contents), best first.

        Raises:
            StoreError: the ledger or the index did not answer.
        """
        if not len(vectors):
            return []
        queries = np.asarray(vectors, np.float32)
        with self._directories.borrow(workspace_id, queries.shape[1]) as directory:
            active = directory.active()
            indexed = self._is_indexed(workspace_id, len(active))
            if not indexed:
                directory.load(self._index, active)
            view = directory.view()
        if not indexed:
            return pairs(view, active, queries, n, floor)
        return [self._similar_in_index(view, query, n, floor) for query in queries]

    def promote(self, workspace_id: str) -> None:
        """Builds a workspace's own approximate index now, rather than in the background.

        Raises:
            StoreError: the ledger or the index did not answer.
        """
        self._promotion.promote(workspace_id)

    def clear(self) -> None:
        """Lets every directory go (the index was emptied, or the model changed)."""
        self._directories.clear()

    # ------------------------------------------------------------ steps

    def _is_indexed(self, workspace_id: str, active: int) -> bool:
        return active > self._exact_limit and self._promotion.ready(workspace_id)

    def _plan(
        self, selection: Selection, dimension: int, depth: int, spare: int, user: str | None
    ) -> _Plan:
        with self._directories.borrow(selection.workspace_id, dimension) as directory:
            chosen = directory.selected(selection)
            others = directory.inapplicable(selection, user) if spare else chosen[:0]
            indexed = self._is_indexed(selection.workspace_id, len(directory.active()))
            # A search as deep as the selection asks for every rank: it has to be exact.
            exact = not indexed or len(chosen) <= max(self._exact_limit, depth)
            if exact:
                directory.load(self._index, chosen)
            if not indexed:
                directory.load(self._index, others)
            return _Plan(directory.view(), chosen, others, indexed, exact)

    def _neighbours(
        self, plan: _Plan, query: NDArray[np.float32], depth: int, spare: int
    ) -> _Neighbours | None:
        if not plan.indexed or not (depth or spare):
            return None
        admitted = plan.view.mask(plan.chosen)
        return _nearest(self._index, plan.view, query, admitted, depth)

    def _near(
        self,
        plan: _Plan,
        query: NDArray[np.float32],
        found: _Neighbours | None,
        also: Collection[str],
    ) -> Scored:
        if plan.exact or found is None:
            return exactly(plan.view, plan.chosen, query)
        rows = np.union1d(found.rows, plan.view.rows_of(also))
        rows = rows[plan.view.mask(plan.chosen)[rows]]
        return _complete(self._index, plan.view, query, rows, found.cosines)

    def _far(self, plan: _Plan, query: NDArray[np.float32], found: _Neighbours | None) -> Scored:
        if found is None:
            return exactly(plan.view, plan.others, query)
        # Records outside the scope are an extra: those that one look has shown will do.
        rows = found.rows[plan.view.mask(plan.others)[found.rows]]
        return _complete(self._index, plan.view, query, rows, found.cosines)

    def _similar_in_index(
        self, view: View, query: NDArray[np.float32], n: int, floor: float
    ) -> list[tuple[str, float]]:
        everyone = np.ones(len(view), np.bool_)
        found = _nearest(self._index, view, query, everyone, n)
        ids = view.ids_of(found.rows)
        pairs = [(i, found.cosines[i]) for i in ids if found.cosines.get(i, -1.0) >= floor]
        return sorted(pairs, key=lambda pair: -pair[1])[:n]


class _Promotion:
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
