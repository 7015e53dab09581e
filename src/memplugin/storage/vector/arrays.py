"""The arrays of one workspace, and how they stood at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from memplugin.ports import Vectors
from memplugin.storage.sql.fulltext import Numbers

Rows = NDArray[np.intp]
"""Row numbers."""

NOT_HELD = -1
"""In place of a slot: the index has the vector, and it was not read yet."""

NOT_THERE = -2
"""In place of a slot: there is no vector to read."""


BYTES_A_ROW = 240
"""About what a row takes besides its vectors: its id, its place, the small columns."""


class Column:
    """An array that grows at its end, by half at a time.

    Rows are appended and never moved, so ``values`` read earlier stays what it was but for
    rows that are set in place.
    """

    def __init__(self, dtype: Any, *width: int) -> None:
        self._data: NDArray[Any] = np.empty((0, *width), dtype)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def values(self) -> NDArray[Any]:
        """The rows so far, not copied."""
        return self._data[: self._length]

    @property
    def nbytes(self) -> int:
        """What it takes, reserve included."""
        return self._data.nbytes

    def extend(self, values: NDArray[Any] | Sequence[Any]) -> None:
        """Appends rows."""
        end = self._length + len(values)
        if end > len(self._data):
            reserve = max(end, len(self._data) * 3 // 2)
            grown = np.empty((reserve, *self._data.shape[1:]), self._data.dtype)
            grown[: self._length] = self.values
            self._data = grown
        self._data[self._length : end] = values
        self._length = end


class Codes:
    """Small numbers for strings that repeat."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, value: str) -> bool:
        return value in self._codes

    def code(self, value: str) -> int:
        """The number of a value, a new one the first time."""
        return self._codes.setdefault(value, len(self._codes))

    def mask(self, values: Iterable[str] | None) -> NDArray[np.bool_]:
        """For every number whether its value is among these; None for all."""
        if values is None:
            return np.ones(len(self), np.bool_)
        chosen = np.zeros(len(self), np.bool_)
        chosen[[self._codes[value] for value in values if value in self._codes]] = True
        return chosen


@dataclass(frozen=True, slots=True)
class View:
    """A workspace as it was at one moment; later changes do not reach it.

    Attributes:
        ids: The record of each row; may go on beyond the rows of this view.
        position: The row of each record; may know later rows.
        content_slot: For each row its place in ``content``, ``NOT_HELD`` or ``NOT_THERE``.
        around_slot: The same for ``around``.
    """

    workspace_id: str
    ids: Sequence[str]
    position: Mapping[str, int]
    active: NDArray[np.bool_]
    content_slot: NDArray[np.int32]
    around_slot: NDArray[np.int32]
    content: Vectors
    around: Vectors

    def __len__(self) -> int:
        return len(self.active)

    def ids_of(self, rows: Rows) -> list[str]:
        """The records of rows."""
        return [self.ids[row] for row in cast(list[int], rows.tolist())]

    def mask(self, rows: Rows) -> NDArray[np.bool_]:
        """True for these rows."""
        mask = np.zeros(len(self), np.bool_)
        mask[rows] = True
        return mask

    def rows_of(self, record_ids: Iterable[str]) -> Rows:
        """The rows of the active ones of these records, each once, in their order."""
        rows = (self.position.get(record_id, -1) for record_id in dict.fromkeys(record_ids))
        found = np.fromiter((row for row in rows if 0 <= row < len(self)), np.intp)
        return found[self.active[found]]

    def with_vector(self, rows: Rows) -> Rows:
        """Those of the rows whose vector is held."""
        return rows[self.content_slot[rows] >= 0]

    def cosines(self, rows: Rows, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines of contents; every row's vector must be held."""
        return _product(self.content, self.content_slot[rows], vector)

    def around_cosines(self, rows: Rows, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """Cosines of the texts around; NaN where there is none."""
        slots = self.around_slot[rows]
        cosines = np.full(len(rows), np.nan, np.float32)
        cosines[slots >= 0] = _product(self.around, slots[slots >= 0], vector)
        return cosines


class Table:
    """A row for each record; rows are appended and set, never used for another record."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.ids: list[str] = []
        self.position: dict[str, int] = {}
        self.number = Column(np.int64)
        self.content_shortness = Column(np.float64)
        self.around_shortness = Column(np.float64)
        self.active = Column(np.bool_)
        self.kind = Column(np.int32)
        self.scope = Column(np.int32)
        self.content_slot = Column(np.int32)
        self.around_slot = Column(np.int32)
        self.content = Column(np.float32, dimension)
        self.around = Column(np.float32, dimension)
        self._by_number: tuple[Numbers, Rows] = (np.empty(0, np.int64), np.empty(0, np.intp))

    @property
    def nbytes(self) -> int:
        """About what the table takes."""
        return self.content.nbytes + self.around.nbytes + BYTES_A_ROW * len(self.ids)

    def add_ids(self, record_ids: Sequence[str]) -> None:
        """Appends records; the caller appends to each column."""
        start = len(self.ids)
        self.ids.extend(record_ids)
        self.position.update((record_id, start + i) for i, record_id in enumerate(record_ids))

    def rows_of_numbers(self, numbers: Numbers) -> Rows:
        """The rows of the records with these numbers; one that is not there is left out."""
        known, rows = self._by_number
        if len(known) != len(self.number):
            # Nearly in order already, which a stable sort makes use of.
            rows = np.argsort(self.number.values, kind="stable")
            known = self.number.values[rows]
            self._by_number = known, rows
        places = np.searchsorted(known, numbers)
        inside = places < len(known)
        places, numbers = places[inside], numbers[inside]
        return rows[places[known[places] == numbers]]

    def set_dimension(self, dimension: int) -> None:
        """Lets the vectors go, to be read again when they are wanted, and says their length."""
        self.dimension = dimension
        for slots in (self.content_slot.values, self.around_slot.values):
            slots[slots >= 0] = NOT_HELD
        self.content = Column(np.float32, dimension)
        self.around = Column(np.float32, dimension)

    def view(self, workspace_id: str) -> View:
        """The table as it is now, to be read while it goes on."""
        # Copied is what is set in place; the rest only grows.
        return View(
            workspace_id,
            self.ids,
            self.position,
            self.active.values.copy(),
            self.content_slot.values.copy(),
            self.around_slot.values.copy(),
            self.content.values,
            self.around.values,
        )

    def only(self, keep: Rows) -> Table:
        """A new table of these rows, without unused vectors."""
        table = Table(self.dimension)
        table.add_ids([self.ids[row] for row in cast(list[int], keep.tolist())])
        for old, new in (
            (self.number, table.number),
            (self.content_shortness, table.content_shortness),
            (self.around_shortness, table.around_shortness),
            (self.active, table.active),
            (self.kind, table.kind),
            (self.scope, table.scope),
        ):
            new.extend(old.values[keep])
        for old, new, old_slot, new_slot in (
            (self.content, table.content, self.content_slot, table.content_slot),
            (self.around, table.around, self.around_slot, table.around_slot),
        ):
            slots = old_slot.values[keep]
            held = slots >= 0
            new.extend(old.values[slots[held]])
            slots[held] = np.arange(len(new))
            new_slot.extend(slots)
        return table


def _product(
    matrix: Vectors, slots: NDArray[np.int32], vector: NDArray[np.float32]
) -> NDArray[np.float32]:
    # Gathering a row costs about four times as much as multiplying one where it stands.
    if len(slots) * 4 < len(matrix):
        return matrix[slots] @ vector
    return (matrix @ vector)[slots]
