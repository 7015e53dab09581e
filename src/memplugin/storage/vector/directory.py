"""What search knows of a workspace, held in memory: one row for each active record.

Which records count, their kinds, scopes and lengths come from the ledger, vectors from the
index. Searches by vector and by words read the same rows, which one query for what has
changed brings up to date.
"""

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
from memplugin.storage.sql.fulltext import Postings
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.arrays import NOT_HELD, NOT_THERE, Codes, Column, Rows, Table, View
from memplugin.storage.vector.scoring import best_rows, shortness, word_scores

WASTE = 256
"""Rows or vectors without use that are put up with before the arrays are made anew."""

log = logging.getLogger("memplugin")


class Directory:
    """The directory of one workspace, kept up with the ledger by its sequence number.

    Vectors are read from the index when they are first wanted. Every method wants ``lock``
    to be held; a ``View`` is used without it.
    """

    def __init__(self, workspace_id: str) -> None:
        self.workspace_id = workspace_id
        self.lock = RLock()
        self._warned = False
        self._seq = 0
        self._read_in: object | None = None
        self._kinds, self._scopes, self._users = Codes(), Codes(), Codes()
        self._scope_user: list[int] = []
        self._table = Table(dimension=0)

    @property
    def nbytes(self) -> int:
        """About what the workspace takes."""
        return self._table.nbytes

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until a search by vector has said it."""
        return self._table.dimension

    def view(self) -> View:
        """The rows as they are now, for use after the lock is given back."""
        return self._table.view(self.workspace_id)

    # ------------------------------------------------------------ what the ledger says

    def refresh(self, ledger: SqlLedger) -> None:
        """Takes over what changed in the ledger since the last time, once in a snapshot."""
        if self._read_in is not None and self._read_in is ledger.snapshot_token:
            return
        # Writers of a workspace take turns, so nothing can come later with a lower number.
        entries = ledger.search.changes(self.workspace_id, self._seq)
        if entries:
            self._take_over(entries)
        self._read_in = ledger.snapshot_token

    def _take_over(self, entries: Sequence[Entry]) -> None:
        known = self._table.position
        new = [e for e in entries if e.active and e.record_id not in known]
        for entry in entries:
            if entry.record_id in known:
                self._change(entry)
        if new:
            self._append(new)
        self._seq = max(entry.seq for entry in entries)
        self._tidy()

    def _append(self, entries: Sequence[Entry]) -> None:
        table = self._table
        table.add_ids([entry.record_id for entry in entries])
        table.number.extend([entry.number for entry in entries])
        table.content_shortness.extend(shortness([e.content_length for e in entries]))
        table.around_shortness.extend(shortness([e.around_length for e in entries]))
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

    # ------------------------------------------------------------ which records are selected

    def active(self) -> Rows:
        """Every active record."""
        return np.flatnonzero(self._table.active.values)

    def selected(self, selection: Selection) -> Rows:
        """Active records that the selection admits."""
        return np.flatnonzero(self._admitted(selection))

    def _admitted(self, selection: Selection) -> NDArray[np.bool_]:
        applies = self._scopes.mask(selection.scope_keys)[self._table.scope.values]
        return applies & self._of_kind(selection)

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

    # ------------------------------------------------------------ words

    def full_text(
        self, words: Sequence[Postings], selection: Selection, limit: int
    ) -> list[tuple[str, float]]:
        """The selected records that hold any of the words.

        Args:
            words: The entries that hold each word.
            selection: Which records count.
            limit: How many to name at most.

        Returns:
            (record id, score), best first, the newest of equals first.
        """
        table = self._table
        scores = word_scores(
            words,
            table.rows_of_numbers,
            table.content_shortness.values,
            table.around_shortness.values,
            total=int(np.count_nonzero(table.active.values)),
        )
        scores *= self._admitted(selection)
        rows = best_rows(scores, table.number.values, limit)
        return [(table.ids[row], float(scores[row])) for row in rows]

    # ------------------------------------------------------------ vectors

    def set_dimension(self, dimension: int) -> None:
        """Says how long vectors are, before the first is read."""
        self._table.set_dimension(dimension)

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
        self._table.set_dimension(self._table.dimension)

    def _tidy(self) -> None:
        table = self._table
        live = int(np.count_nonzero(table.active.values))
        held = int(np.count_nonzero(table.content_slot.values >= 0))
        if len(table.ids) > 2 * live + WASTE or len(table.content) > 2 * held + WASTE:
            # Made anew, since views may still read the old arrays.
            self._table = table.only(np.flatnonzero(table.active.values))


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


class Directories:
    """The directories of the workspaces used last, in a limited number of bytes.

    The others are read again when they are wanted. The workspace in use always keeps its
    rows, and loses its vectors after use when it alone takes more than the limit.

    Args:
        ledger: Asked what has changed whenever a directory is borrowed.
        limit: Most bytes to hold.
    """

    def __init__(self, ledger: SqlLedger, limit: int) -> None:
        self._ledger = ledger
        self._limit = limit
        self._lock = Lock()
        self._directories: OrderedDict[str, Directory] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._total = 0

    @contextmanager
    def borrow(self, workspace_id: str, dimension: int = 0) -> Generator[Directory]:
        """Lends the directory of a workspace, up to date, with its lock held.

        Args:
            workspace_id: The workspace.
            dimension: Length of the vectors that will be looked for; 0 for none.

        Raises:
            StoreError: the ledger did not answer.
        """
        # First the snapshot, then the lock: a thread that is in a snapshot already has a
        # connection, and another must not wait for one with the lock in its hand.
        with self._ledger.snapshot():
            directory = self._latest(workspace_id, dimension)
            with directory.lock:
                if dimension and not directory.dimension:
                    directory.set_dimension(dimension)
                directory.refresh(self._ledger)
                yield directory
                size = directory.nbytes
                if size > self._limit:
                    directory.drop_vectors()
                    size = directory.nbytes
        self._count(directory, size)

    def clear(self) -> None:
        """Lets everything go."""
        with self._lock:
            self._directories.clear()
            self._sizes.clear()
            self._total = 0

    def _latest(self, workspace_id: str, dimension: int) -> Directory:
        with self._lock:
            directory = self._directories.get(workspace_id)
            if directory is None or (dimension and directory.dimension not in (0, dimension)):
                directory = self._directories[workspace_id] = Directory(workspace_id)
            self._directories.move_to_end(workspace_id)
            return directory

    def _count(self, directory: Directory, size: int) -> None:
        with self._lock:
            if self._directories.get(directory.workspace_id) is not directory:
                return  # let go meanwhile
            self._total += size - self._sizes.get(directory.workspace_id, 0)
            self._sizes[directory.workspace_id] = size
            while self._total > self._limit and len(self._directories) > 1:
                oldest, _ = self._directories.popitem(last=False)
                self._total -= self._sizes.pop(oldest, 0)
