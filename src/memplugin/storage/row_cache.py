"""The workspaces whose vectors are in memory, bounded in bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from threading import Lock

from memplugin.storage.rows import WorkspaceRows


class RowCache:
    """Keeps the workspaces used last; the others are read again when they are wanted.

    The workspace in use always keeps its directory (which records count), and loses its
    vectors after use when they alone are more than the limit.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = Lock()
        self._held: OrderedDict[str, WorkspaceRows] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._total = 0

    @contextmanager
    def borrow(self, workspace_id: str, dimension: int) -> Generator[WorkspaceRows]:
        """Lends a workspace with its lock held; what it has become is counted afterwards."""
        with self._lock:
            rows = self._held.get(workspace_id)
            if rows is None or rows.dimension != dimension:
                rows = WorkspaceRows(workspace_id, dimension)
                self._held[workspace_id] = rows
            self._held.move_to_end(workspace_id)
        with rows.lock:
            yield rows
            size = rows.nbytes
            if size > self._limit:
                rows.drop_vectors()
                size = rows.nbytes
        self._count(rows, size)

    def clear(self) -> None:
        """Lets everything go."""
        with self._lock:
            self._held.clear()
            self._sizes.clear()
            self._total = 0

    def _count(self, rows: WorkspaceRows, size: int) -> None:
        with self._lock:
            if self._held.get(rows.workspace_id) is not rows:
                return  # let go meanwhile
            self._total += size - self._sizes.get(rows.workspace_id, 0)
            self._sizes[rows.workspace_id] = size
            while self._total > self._limit and len(self._held) > 1:
                oldest, _ = self._held.popitem(last=False)
                self._total -= self._sizes.pop(oldest, 0)
