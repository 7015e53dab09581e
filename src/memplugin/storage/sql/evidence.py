"""Evidence, and the confidence that follows from it."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, select, update

from memplugin.errors import StoreError
from memplugin.ports import Weigh, unmoved
from memplugin.records import Belief, Evidence, MemoryRecord
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.gate_context import ContentHash
from memplugin.storage.sql.records import change, get_record
from memplugin.storage.sql.rows import chunks, scope_key
from memplugin.storage.sql.tables import evidence, memory_records

_RECORD = memory_records.c

_EVIDENCE = select(
    evidence.c.id,
    evidence.c.record_id,
    evidence.c.supports,
    evidence.c.weight,
    evidence.c.salience,
    evidence.c.scope,
    evidence.c.created_at.label("at"),
    evidence.c.session_id,
    evidence.c.task_id,
    evidence.c.note,
    evidence.c.proposal_id,
).order_by(evidence.c.number)

_BELIEFS = select(
    _RECORD.id,
    _RECORD.seed_confidence,
    _RECORD.seed_strength,
    _RECORD.scope,
    _RECORD.pinned,
    _RECORD.confidence,
)

_MOVE = (
    update(memory_records)
    .where(_RECORD.id == bindparam("of_record"))
    .values(
        confidence=bindparam("new_confidence"),
        evidence_count=bindparam("new_count"),
        seq=bindparam("new_seq"),
    )
)


class EvidenceLog:
    """Observations for and against records, and pins."""

    def __init__(self, database: Database, hashed: ContentHash) -> None:
        self._database = database
        self._hashed = hashed

    def of_record(self, workspace_id: str, record_id: str) -> list[Evidence]:
        """All evidence for and against a record, oldest first."""
        with self._database.reading() as connection:
            return list(_of_records(connection, workspace_id, [record_id])[record_id])

    def set_pinned(
        self, workspace_id: str, record_id: str, *, pinned: bool, weigh: Weigh = unmoved
    ) -> MemoryRecord:
        """Freezes a record's confidence, or lets it follow all of its evidence again.

        Args:
            workspace_id: The workspace, compared by equality.
            record_id: The record.
            pinned: Whether it is to be pinned.
            weigh: Gives the confidence that follows from a seed and its evidence.

        Returns:
            The record as it is now.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: it is not active.
        """
        with self._database.writing(workspace_id) as connection:
            record = get_record(connection, workspace_id, record_id)
            check_active(record)
            if record.pinned == pinned:
                return record
            seq = change(self._database, connection, workspace_id, [record_id], pinned=pinned)
            if not pinned:
                reweigh(connection, workspace_id, [record_id], weigh, seq)
            return get_record(connection, workspace_id, record_id)


def row_of(piece: Evidence, columns: Mapping[str, Any]) -> dict[str, Any]:
    """A row of ``evidence``.

    Args:
        piece: What was observed.
        columns: Of the hop that writes it.
    """
    return {
        **columns,
        "id": piece.id,
        "record_id": piece.record_id,
        "proposal_id": piece.proposal_id,
        "supports": piece.supports,
        "weight": piece.weight,
        "salience": piece.salience,
        "scope": scope_key(piece.scope),
        "note": piece.note,
        "created_at": piece.at,
    }


def reweigh(
    connection: Connection, workspace_id: str, record_ids: Collection[str], weigh: Weigh, seq: int
) -> None:
    """Sets records' confidence to what their seeds and all their evidence come to.

    Args:
        connection: In whose transaction it happens.
        workspace_id: The workspace, compared by equality.
        record_ids: The records.
        weigh: Gives the confidence that follows from a seed and its evidence.
        seq: The workspace's number of this change.
    """
    ids = sorted(record_ids)
    known = _of_records(connection, workspace_id, ids)
    mine = _BELIEFS.where(_RECORD.workspace_id == workspace_id)
    moved = [
        {
            "of_record": row["id"],
            "new_confidence": weigh(_belief(row), known[row["id"]]),
            "new_count": len(known[row["id"]]),
            "new_seq": seq,
        }
        for some in chunks(ids)
        for row in connection.execute(mine.where(_RECORD.id.in_(some))).mappings()
    ]
    if moved:
        connection.execute(_MOVE, moved)


def _of_records(
    connection: Connection, workspace_id: str, record_ids: Sequence[str]
) -> defaultdict[str, list[Evidence]]:
    found: defaultdict[str, list[Evidence]] = defaultdict(list)
    mine = _EVIDENCE.where(evidence.c.workspace_id == workspace_id)
    for some in chunks(record_ids):
        for row in connection.execute(mine.where(evidence.c.record_id.in_(some))).mappings():
            found[row["record_id"]].append(Evidence(**{**row, "scope": json.loads(row["scope"])}))
    return found


def _belief(row: RowMapping) -> Belief:
    return Belief(
        confidence=row["seed_confidence"],
        strength=row["seed_strength"],
        scope=json.loads(row["scope"]),
        pinned_at=row["confidence"] if row["pinned"] else None,
    )


def check_active(record: MemoryRecord) -> None:
    """Refuses what would move a record that is not active.

    Raises:
        StoreError: it is not active.
    """
    if record.status == "active":
        return
    instead = f"use {record.replaced_by}" if record.replaced_by else "use one that is active"
    raise StoreError(f"{record.id} is {record.status}, and nothing about it moves: {instead}.")
