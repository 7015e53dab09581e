"""One workspace in memory: which records count is the ledger's word, vectors are Chroma's."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock, RLock
from typing import cast

import numpy as np
from numpy.typing import NDArray

from memplugin.config import USER_KEY
from memplugin.ports import AROUND, VectorIndex
from memplugin.records import Entry, Selection
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.arrays import NOT_HELD, NOT_THERE, Codes, Column, Rows, Table, View

WASTE = 256
"""Rows or vectors without use that are put up with before the arrays are made anew."""

log = logging.getLogger("memplugin")


class WorkspaceRows:
    """A row for each active record, kept up with the ledger by its sequence number.

    Vectors are read from the index when they are first wanted. Every method wants ``lock``
    to be held; a ``View`` is used without it.
    """

    def __init__(self, workspace_id: str, dimension: int) -> None:
        self.workspace_id = workspace_id
        self.lock = RLock()
        self.dimension = dimension
        self._warned = False
        self._seq = 0
        self._kinds, self._scopes, self._users = Codes(), Codes(), Codes()
        self._scope_user: list[int] = []
        self._table = Table(dimension)

    @property
    def nbytes(self) -> int:
        """About what the workspace takes."""
        return self._table.nbytes

    def view(self) -> View:
        """The present, for use after the lock is given back."""
        return self._table.view(self.workspace_id)

    # ------------------------------------------------------------ the ledger's word

    def refresh(self, ledger: SqlLedger) -> None:
        """Takes over what changed in the ledger since the last time."""
        # Writers of a workspace take turns, so nothing can come later with a lower number.
        entries = ledger.search.changes(self.workspace_id, self._seq)
        if not entries:
            return
        known = self._table.position
        new = [e for e in entries if e.active and e.record_id not in known]
        for entry in entries:
            if entry.record_id in known:
                self._change(entry)
        self._append(new)
        self._seq = max(entry.seq for entry in entries)
        self._tidy()

    def _append(self, entries: Sequence[Entry]) -> None:
        table = self._table
        table.add_ids([entry.record_id for entry in entries])
        table.active.extend([True] * len(entries))
        table.kind.extend([self._kinds.code(entry.kind) for entry in entries])
        table.scope.extend([self._scope_code(entry.scope_key) for entry in entries])
        table.content_slot.extend([_slot(there=e.indexed) for e in entries])
        table.around_slot.extend([_slot(there=e.indexed and e.has_around) for e in entries])

    def _change(self, entry: Entry) -> None:
        table = self._table
        row = table.position[entry.record_id]
        table.active.values[row] = entry.active
        readable = entry.active and entry.indexed
        for slots, there in (
            (table.content_slot.values, readable),
            (table.around_slot.values, readable and entry.has_around),
        ):
            # What is held is kept: a record's text never changes.
            if not there or slots[row] == NOT_THERE:
                slots[row] = _slot(there=there)

    def _scope_code(self, scope_key: str) -> int:
        if scope_key not in self._scopes:
            scope: dict[str, str] = json.loads(scope_key)
            user = scope.get(USER_KEY)
            self._scope_user.append(-1 if user is None else self._users.code(user))
        return self._scopes.code(scope_key)

    # ------------------------------------------------------------ who is selected

    def active(self) -> Rows:
        """Every active record."""
        return np.flatnonzero(self._table.active.values)

    def selected(self, selection: Selection) -> Rows:
        """Active records that the selection admits."""
        applies = self._scopes.mask(selection.scope_keys)[self._table.scope.values]
        return np.flatnonzero(applies & self._of_kind(selection))

    def inapplicable(self, selection: Selection, user: str | None) -> Rows:
        """Active records of the kind asked for in other scopes, but for other users'."""
        elsewhere = ~self._scopes.mask(selection.scope_keys)
        users = np.asarray(self._scope_user, np.int32)
        own = self._users.code(user) if user and user in self._users else -1
        mine = elsewhere & ((users == -1) | (users == own))
        return np.flatnonzero(mine[self._table.scope.values] & self._of_kind(selection))

    def _of_kind(self, selection: Selection) -> NDArray[np.bool_]:
        return (
            self._table.active.values & self._kinds.mask(selection.kinds)[self._table.kind.values]
        )

    # ------------------------------------------------------------ vectors

    def load(self, index: VectorIndex, rows: Rows) -> None:
        """Reads the vectors of rows from the index, those that are not held."""
        table = self._table
        contents = _wanted(table.content_slot, rows, table.ids, "")
        arounds = _wanted(table.around_slot, rows, table.ids, AROUND)
        if not contents and not arounds:
            return
        found = index.fetch(self.workspace_id, [*contents.values(), *arounds.values()])
        missing = _fill(table.content, table.content_slot, contents, found)
        _fill(table.around, table.around_slot, arounds, found)
        if missing and not self._warned:
            self._warned = True
            log.warning(
                "the vectors of %d records of a workspace are missing in the index, so only "
                "full-text search finds them: run `memplugin reindex`.",
                missing,
            )

    def drop_vectors(self) -> None:
        """Gives back the vectors; they are read again when they are wanted."""
        table = self._table
        for slots in (table.content_slot.values, table.around_slot.values):
            slots[slots >= 0] = NOT_HELD
        table.content = Column(np.float32, self.dimension)
        table.around = Column(np.float32, self.dimension)

    def _tidy(self) -> None:
        table = self._table
        live = int(np.count_nonzero(table.active.values))
        held = int(np.count_nonzero(table.content_slot.values >= 0))
        if len(table.ids) > 2 * live + WASTE or len(table.content) > 2 * held + WASTE:
            # Made anew, since views may still read the old arrays.
            self._table = table.only(np.flatnonzero(table.active.values), self.dimension)


def _slot(*, there: bool) -> int:
    return NOT_HELD if there else NOT_THERE


def _wanted(slots: Column, rows: Rows, ids: Sequence[str], suffix: str) -> dict[int, str]:
    wanted = rows[slots.values[rows] == NOT_HELD]
    return {row: ids[row] + suffix for row in cast(list[int], wanted.tolist())}


def _fill(
    vectors: Column, slots: Column, keys: dict[int, str], found: dict[str, NDArray[np.float32]]
) -> int:
    """Appends what was found and notes where; returns how many were not."""
    rows = [row for row, key in keys.items() if key in found]
    slots.values[list(keys)] = NOT_THERE
    if rows:
        slots.values[rows] = np.arange(len(vectors), len(vectors) + len(rows))
        vectors.extend(np.stack([found[keys[row]] for row in rows]))
    return len(keys) - len(rows)


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
