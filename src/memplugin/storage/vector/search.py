"""Search by vector: exact where that is fast, approximate beyond, true to the ledger always.

A selection of up to ``exact_limit`` records is searched exactly: one product with the
vectors in memory, blind to whatever an approximate index forgets. A larger one is searched
in the workspace's own approximate index, as soon as there is one.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memplugin.ports import VectorIndex, Vectors
from memplugin.records import Selection
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.approximate import Neighbours, Promotion, neighbours, score
from memplugin.storage.vector.arrays import Rows, View
from memplugin.storage.vector.directory import RowCache
from memplugin.storage.vector.scoring import DenseHit, DenseHits, Scored, exactly, pairs

__all__ = ["DenseHit", "DenseHits", "VectorSearch"]


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


class VectorSearch:
    """Finds records of a workspace by vector. Safe in threads.

    Args:
        ledger: Says which records count; asked what has changed at every search.
        index: Keeps the vectors.
        exact_limit: Selections up to this many records are searched exactly.
        cache_bytes: Most memory for vectors held.
    """

    def __init__(
        self, ledger: SqlLedger, index: VectorIndex, *, exact_limit: int, cache_bytes: int
    ) -> None:
        self._ledger = ledger
        self._index = index
        self._exact_limit = exact_limit
        self._cache = RowCache(cache_bytes)
        self._promotion = Promotion(ledger, index)

    def search(
        self,
        selection: Selection,
        vector: NDArray[np.float32],
        *,
        depth: int,
        also: Collection[str] = (),
        spare: int = 0,
        user: str | None = None,
        around_weight: float = 0.5,
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
        with self._cache.borrow(workspace_id, queries.shape[1]) as rows:
            rows.refresh(self._ledger)
            everyone = rows.active()
            indexed = self._is_indexed(workspace_id, len(everyone))
            if not indexed:
                rows.load(self._index, everyone)
            view = rows.view()
        if not indexed:
            return pairs(view, everyone, queries, n, floor)
        return [self._similar_in_index(view, query, n, floor) for query in queries]

    def promote(self, workspace_id: str) -> None:
        """Builds a workspace's own approximate index now, rather than in the background.

        Raises:
            StoreError: the ledger or the index did not answer.
        """
        self._promotion.promote(workspace_id)

    def clear(self) -> None:
        """Lets go of every vector held (the index was emptied, or the model changed)."""
        self._cache.clear()

    # ------------------------------------------------------------ steps

    def _is_indexed(self, workspace_id: str, active: int) -> bool:
        return active > self._exact_limit and self._promotion.ready(workspace_id)

    def _plan(
        self, selection: Selection, dimension: int, depth: int, spare: int, user: str | None
    ) -> _Plan:
        with self._cache.borrow(selection.workspace_id, dimension) as rows:
            rows.refresh(self._ledger)
            chosen = rows.selected(selection)
            others = rows.inapplicable(selection, user) if spare else chosen[:0]
            indexed = self._is_indexed(selection.workspace_id, len(rows.active()))
            # A search as deep as the selection asks for every rank: it has to be exact.
            exact = not indexed or len(chosen) <= max(self._exact_limit, depth)
            if exact:
                rows.load(self._index, chosen)
            if not indexed:
                rows.load(self._index, others)
            return _Plan(rows.view(), chosen, others, indexed, exact)

    def _neighbours(
        self, plan: _Plan, query: NDArray[np.float32], depth: int, spare: int
    ) -> Neighbours | None:
        if not plan.indexed or not (depth or spare):
            return None
        admitted = plan.view.mask(plan.chosen)
        return neighbours(self._index, plan.view, query, admitted, depth)

    def _near(
        self,
        plan: _Plan,
        query: NDArray[np.float32],
        found: Neighbours | None,
        also: Collection[str],
    ) -> Scored:
        if plan.exact or found is None:
            return exactly(plan.view, plan.chosen, query)
        rows = np.union1d(found.rows, plan.view.rows_of(also))
        rows = rows[plan.view.mask(plan.chosen)[rows]]
        return score(self._index, plan.view, query, rows, found.cosines)

    def _far(self, plan: _Plan, query: NDArray[np.float32], found: Neighbours | None) -> Scored:
        if found is None:
            return exactly(plan.view, plan.others, query)
        # Records outside the scope are an extra: those that one look has shown will do.
        rows = found.rows[plan.view.mask(plan.others)[found.rows]]
        return score(self._index, plan.view, query, rows, found.cosines)

    def _similar_in_index(
        self, view: View, query: NDArray[np.float32], n: int, floor: float
    ) -> list[tuple[str, float]]:
        everyone = np.ones(len(view), np.bool_)
        found = neighbours(self._index, view, query, everyone, n)
        ids = view.ids_of(found.rows)
        pairs = [(i, found.cosines[i]) for i in ids if found.cosines.get(i, -1.0) >= floor]
        return sorted(pairs, key=lambda pair: -pair[1])[:n]
