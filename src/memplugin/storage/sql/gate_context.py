"""The records and tombstones that the gate compares the proposals of a batch with."""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.sql import ColumnElement

from memplugin.errors import StoreError
from memplugin.ports import Batch
from memplugin.records import Known, MemoryRecord, Proposal, Tombstone
from memplugin.storage.sql.rows import RECORDS, AnySelect, chunks, claim_fields, record_from
from memplugin.storage.sql.tables import memory_records, tombstones
from memplugin.text import normalised

ContentHash = Callable[[str], str]


def content_hash(key: bytes) -> ContentHash:
    """Returns a hash of normalised content that nobody without the key can guess from."""

    def keyed(content: str) -> str:
        return hmac.new(key, normalised(content).encode(), hashlib.sha256).hexdigest()[:32]

    return keyed


class Knowledge:
    """Active records and tombstones that bear on a batch, by what they are looked up with.

    Records that the batch adds, closes or attaches to are followed, so that a later
    proposal of the same batch sees them as they are.
    """

    def __init__(self, hashed: ContentHash, session_id: str) -> None:
        self.hashed = hashed
        self._session_id = session_id
        self.added: dict[str, MemoryRecord] = {}
        self.changed: dict[str, MemoryRecord] = {}
        self._active: dict[str, MemoryRecord] = {}
        self._by_content: defaultdict[str, list[str]] = defaultdict(list)
        self._by_slot: defaultdict[str, list[str]] = defaultdict(list)
        self._buried_content: defaultdict[str, list[Tombstone]] = defaultdict(list)
        self._buried_turn: defaultdict[str, list[Tombstone]] = defaultdict(list)

    @classmethod
    def about(
        cls, connection: Connection, batch: Batch, proposed: Sequence[Proposal], hashed: ContentHash
    ) -> Knowledge:
        """Loads what bears on the proposals, in a few queries.

        Args:
            connection: In whose transaction it happens.
            batch: The write.
            proposed: The proposals to be ruled on.
            hashed: Hashes contents with the store's key.

        Returns:
            What is known.
        """
        found = cls(hashed, batch.context.session_id)
        workspace = batch.context.workspace_id
        hashes = {hashed(p.content) for p in proposed}
        near = {record_id for p in proposed for record_id, _ in batch.near.get(p.id, ())}
        slots = {fields for p in proposed if (fields := claim_fields(p.claim))}
        record = memory_records.c
        for column, values in (
            (record.content_hash, hashes),
            (record.claim_fields, slots),
            (record.id, near),
        ):
            active = RECORDS.add_columns(record.content_hash).where(
                record.workspace_id == workspace, record.status == "active"
            )
            for *row, content in _each(connection, active, column, values):
                found._take(record_from(row), content)
        found._bury(connection, workspace, hashes, {p.turn_id for p in proposed if p.turn_id})
        return found

    def known(self, proposal: Proposal, near: Sequence[tuple[str, float]]) -> Known:
        """What bears on one proposal, as of now."""
        content = self.hashed(proposal.content)
        slot = claim_fields(proposal.claim)
        buried = [
            *self._buried_content.get(content, ()),
            *self._buried_turn.get(proposal.turn_id or "", ()),
        ]
        return Known(
            same_content=self._records(self._by_content.get(content, ())),
            same_slot=self._records(self._by_slot.get(slot, ())) if slot else (),
            near=[(self._active[id_], cosine) for id_, cosine in near if id_ in self._active],
            tombstones=list(dict.fromkeys(buried)),
            session_id=self._session_id,
        )

    def add(self, record: MemoryRecord) -> None:
        """Takes in a new record."""
        self.added[record.id] = record
        self._take(record, self.hashed(record.content))

    def active(self, record_id: str) -> MemoryRecord:
        """An active record, as it stands.

        Raises:
            StoreError: it is not among those that bear on the batch.
        """
        if record_id not in self._active:
            raise StoreError(
                f"A ruling names {record_id}, which is not among the records it was shown: "
                "rule on the records in Known only."
            )
        return self._active[record_id]

    def retired(self, record_id: str) -> bool:
        """Whether the batch itself has closed a record."""
        now = self.added.get(record_id) or self.changed.get(record_id)
        return now is not None and now.status != "active"

    def add_replaced(self, record: MemoryRecord) -> None:
        """Takes in a new record that another one has replaced already."""
        self.added[record.id] = record

    def change(self, record_id: str, **state: Any) -> None:
        """Changes the state of an active record; a retired one bears on nothing further.

        Raises:
            StoreError: the ruling names a record that is not active.
        """
        record = replace(self.active(record_id), **state)
        self._active[record_id] = record
        (self.added if record_id in self.added else self.changed)[record_id] = record
        if record.status != "active":
            del self._active[record_id]

    def _records(self, ids: Iterable[str]) -> list[MemoryRecord]:
        return [self._active[id_] for id_ in ids if id_ in self._active]

    def _take(self, record: MemoryRecord, content: str) -> None:
        if record.id in self._active:
            return
        self._active[record.id] = record
        self._by_content[content].append(record.id)
        if slot := claim_fields(record.claim):
            self._by_slot[slot].append(record.id)

    def _bury(
        self, connection: Connection, workspace: str, hashes: set[str], turns: set[str]
    ) -> None:
        tomb = tombstones.c
        buried = select(tomb.session_id, tomb.turn_id, tomb.forgotten_at, tomb.content_hash).where(
            tomb.workspace_id == workspace
        )
        for *row, content in _each(connection, buried, tomb.content_hash, hashes):
            self._buried_content[content].append(Tombstone(*row))
        for *row, _ in _each(connection, buried, tomb.turn_id, turns):
            self._buried_turn[str(row[1])].append(Tombstone(*row))


def _each(
    connection: Connection, statement: AnySelect, column: ColumnElement[Any], values: set[str]
) -> Iterable[Any]:
    for some in chunks(sorted(values)):
        yield from connection.execute(statement.where(column.in_(some)))
