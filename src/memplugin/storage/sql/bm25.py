"""BM25 (Robertson and Zaragoza, 2009) with what is counted inside one workspace.

The database says which entries hold a word. How many entries there are, how long each text
is and which records a request admits is kept here, a few numbers for each record, brought
up to date by the workspace's sequence number: one query for the words and one for what
changed make a search, and the rest is arithmetic on arrays. Done in SQL, the sorting and
the look-ups of records alone took five times as long.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock, RLock
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, func, select

from memplugin.records import Selection
from memplugin.storage.sql.tables import memory_records
from memplugin.storage.vector.arrays import Codes

CONTENT_WEIGHT = 1.0
AROUND_WEIGHT = 0.5
"""What a word found in a record's content, and in the text around it, counts."""

SATURATION = 1.2
"""BM25's k1."""

LENGTH_NORMALISATION = 0.4
"""BM25's b; low, because a word is counted once however long the text is."""

USUAL_LENGTH = 120.0
"""Characters of a usual memory. A constant, so that a score never moves with its neighbours."""

MOST_HELD = 500_000
"""Records whose numbers are kept, at about 120 bytes each; beyond, the workspaces searched
longest ago are let go."""

Numbers = NDArray[np.int64]
"""Numbers of full-text entries, each its record's ``number``."""

_COLUMNS = (np.int64, np.bool_, np.float64, np.float64, np.int32, np.int32, np.object_)

_RECORD = memory_records.c
_CHANGED = (
    select(
        _RECORD.number,
        _RECORD.seq,
        _RECORD.status == "active",
        func.length(_RECORD.content),
        func.coalesce(func.length(_RECORD.around), 0),
        _RECORD.kind,
        _RECORD.scope,
        _RECORD.id,
    )
    .where(_RECORD.workspace_id == bindparam("workspace"), _RECORD.seq > bindparam("since"))
    .order_by(_RECORD.seq, _RECORD.number)
)


@dataclass(frozen=True, slots=True)
class Postings:
    """The entries of a workspace that hold one word."""

    content: Numbers
    around: Numbers


class Entries:
    """What scoring needs to know of the records of one workspace, in order of their numbers.

    Every method wants ``lock`` to be held.
    """

    def __init__(self, workspace_id: str) -> None:
        self.workspace_id = workspace_id
        self.lock = RLock()
        self._seq = 0
        self._kinds, self._scopes = Codes(), Codes()
        self._columns: list[NDArray[Any]] = [np.empty(0, dtype) for dtype in _COLUMNS]

    def __len__(self) -> int:
        return len(self._columns[0])

    def refresh(self, connection: Connection) -> None:
        """Takes over what changed in the ledger since the last time."""
        asked = {"workspace": self.workspace_id, "since": self._seq}
        rows = connection.execute(_CHANGED, asked).all()
        if not rows:
            return
        numbers, seqs, active, content, around, kinds, scopes, ids = zip(*rows, strict=True)
        changed = (
            numbers,
            active,
            _shortness(content),
            _shortness(around),
            [self._kinds.code(kind) for kind in kinds],
            [self._scopes.code(scope) for scope in scopes],
            ids,
        )
        new = [np.asarray(v, dtype) for v, dtype in zip(changed, _COLUMNS, strict=True)]
        kept = ~np.isin(self._columns[0], new[0])
        both = [np.concatenate([o[kept], n]) for o, n in zip(self._columns, new, strict=True)]
        order = np.argsort(both[0])
        self._columns = [column[order] for column in both]
        self._seq = max(seqs)

    def best(
        self, words: Sequence[Postings], selection: Selection, limit: int
    ) -> list[tuple[str, float]]:
        """Selected records that hold a word: (id, score), best first, the newest of equals."""
        numbers, active, content, around, kinds, scopes, ids = self._columns
        total = int(np.count_nonzero(active))
        rarity = [_rarity(total, word) for word in words]
        scores = np.zeros(len(self))
        for word, rare in zip(words, rarity, strict=True):
            share = np.zeros(len(self))
            in_around, in_content = _places(numbers, word.around), _places(numbers, word.content)
            share[in_around] = AROUND_WEIGHT * around[in_around]
            share[in_content] = np.maximum(share[in_content], CONTENT_WEIGHT * content[in_content])
            scores += share * (rare / sum(rarity))
        admitted = self._scopes.mask(selection.scope_keys)[scopes]
        scores *= active & admitted & self._kinds.mask(selection.kinds)[kinds]
        return [(ids[place], float(scores[place])) for place in _top(scores, limit)]


class EntryCache:
    """The workspaces searched last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: OrderedDict[str, Entries] = OrderedDict()

    def of(self, workspace_id: str) -> Entries:
        """The entries of a workspace, as they were left."""
        with self._lock:
            entries = self._held.setdefault(workspace_id, Entries(workspace_id))
            self._held.move_to_end(workspace_id)
            while len(self._held) > 1 and sum(map(len, self._held.values())) > MOST_HELD:
                self._held.popitem(last=False)
        return entries


def _shortness(lengths: Sequence[int]) -> NDArray[np.float64]:
    """BM25's term for a word that occurs once, as a share of what it is in an empty text."""
    empty = 1 + SATURATION * (1 - LENGTH_NORMALISATION)
    longer = np.asarray(lengths, np.float64) * (SATURATION * LENGTH_NORMALISATION / USUAL_LENGTH)
    return empty / (empty + longer)


def _rarity(total: int, word: Postings) -> float:
    """BM25's idf inside the workspace."""
    held = len(word.content)
    if len(word.around):
        held = len(np.union1d(word.content, word.around))
    return math.log1p((total - held + 0.5) / (held + 0.5))


def _places(numbers: Numbers, found: Numbers) -> NDArray[np.intp]:
    """Where these numbers stand; one that is not there is left out."""
    places = np.searchsorted(numbers, found)
    inside = places < len(numbers)
    places, found = places[inside], found[inside]
    return places[numbers[places] == found]


def _top(scores: NDArray[np.float64], limit: int) -> list[int]:
    hits = np.flatnonzero(scores > 0)
    if len(hits) > limit:
        least = np.partition(scores[hits], -limit)[-limit]
        hits = hits[scores[hits] >= least]
    order = np.lexsort((-hits, -scores[hits]))
    return cast(list[int], hits[order[:limit]].tolist())
