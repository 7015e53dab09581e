"""Forgetting a record: a tombstone stays, its content goes wherever the ledger holds it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from memplugin.records import INSTEAD_OF, MemoryRecord
from memplugin.storage.sql import fulltext
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.records import get_record, next_seq
from memplugin.storage.sql.redaction import FORGOTTEN, Redactor, anchor
from memplugin.storage.sql.rows import RECORDS, AnyRow, chunks, record_from
from memplugin.storage.sql.tables import (
    attempts,
    counterfactuals,
    decisions,
    evidence,
    injections,
    judgements,
    memory_records,
    proposals,
    retrievals,
    tombstones,
    turns,
)
from memplugin.storage.sql.types import verbatim_json
from memplugin.text import canonical_json

SHORTEST_ANCHOR = 4
"""Below it an anchor is in nearly every row, and looking for it saves nothing."""

_RECORD, _PROPOSAL, _TURN = memory_records.c, proposals.c, turns.c

_TEXTS = (
    (turns, ("text",)),
    (proposals, ("quote", "reason")),
    (evidence, ("note",)),
    (retrievals, ("query", "text")),
    (
        decisions,
        ("question", "answer", "reasoning", "considered", "sent", "raw", "replies", "detail"),
    ),
    (injections, ("follow_reasoning", "follow_error")),
    (attempts, ("action", "failure_mode")),
    (counterfactuals, ("with_record", "without_record")),
    (judgements, ("evidence", "need", "note")),
)
"""Where a hop may have quoted a memory."""


class Erasure:
    """Forgetting."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def forget(self, workspace_id: str, record_id: str, reason: str, now: datetime) -> MemoryRecord:
        """Leaves a tombstone; erases content wherever the ledger holds it.

        That is: the record, its lexical entry, its proposals' text, the turns it was
        taken from, the text of retrievals and decisions that show it, and the texts
        indexed around other records. Calling it again changes nothing.

        Args:
            workspace_id: The workspace, compared by equality.
            record_id: The record.
            reason: Kept in the tombstone.
            now: When it happens.

        Returns:
            The record, without its content.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        with self._database.writing(workspace_id) as connection:
            record = get_record(connection, workspace_id, record_id)
            if record.status != "forgotten":
                # The record last: it takes itself out of what others were indexed with, and
                # that would take them out of the outbox with their vectors still in the index.
                for one in reversed([record, *_quoting(self._database, connection, record)]):
                    _Forgetting(self._database, connection, one).carry_out(reason, now)
                record = get_record(connection, workspace_id, record_id)
        self._database.fold_log()
        return record


def _quoting(
    database: Database, connection: Connection, record: MemoryRecord
) -> Iterator[MemoryRecord]:
    """Exceptions to a record that say what it says, and exceptions to these."""
    position = func.instr if database.sqlite else func.strpos
    exceptions = RECORDS.where(
        _RECORD.workspace_id == record.workspace_id,
        _RECORD.source == f"{INSTEAD_OF}{record.id}",
        _RECORD.status != "forgotten",
        position(_RECORD.content, record.content) > 0,
    )
    for row in connection.execute(exceptions).all():
        exception = record_from(row)
        yield exception
        yield from _quoting(database, connection, exception)


class _Forgetting:
    """One record on its way out."""

    def __init__(self, database: Database, connection: Connection, record: MemoryRecord) -> None:
        self._database = database
        self._connection = connection
        self._record = record
        self._workspace = record.workspace_id

    def carry_out(self, reason: str, now: datetime) -> None:
        origins = self._origins()
        turn_ids = sorted({str(o.turn_id) for o in origins if o.turn_id})
        said = [o.quote for o in origins if o.quote] + self._said(turn_ids)
        stated = [self._record.content, *(o.content for o in origins if o.content)]
        self._bury(origins, reason, now)
        self._erase_origins([str(o.id) for o in origins], turn_ids)
        seq = next_seq(self._database, self._connection, self._workspace)
        self._erase_record(seq, now)
        self._erase_notes()
        quoted = Redactor(stated)
        for table, columns in _TEXTS:
            self._redact(table, columns, quoted)
        self._redact(proposals, ("content",), quoted, _PROPOSAL.record_id.is_(None))
        self._redact_candidates(quoted)
        self._redact_claim()
        self._redact_surroundings(Redactor([*stated, *said]), seq)
        fulltext.refresh(self._database, self._connection, self._workspace, seq)

    def _origins(self) -> Sequence[AnyRow]:
        """Every proposal of this content: those it was made from, and those refused."""
        same = self._content_hash()
        return self._connection.execute(
            select(proposals).where(
                _PROPOSAL.workspace_id == self._workspace,
                or_(_PROPOSAL.record_id == self._record.id, _PROPOSAL.content_hash == same),
            )
        ).all()

    def _content_hash(self) -> str:
        of_record = select(_RECORD.content_hash).where(
            _RECORD.workspace_id == self._workspace, _RECORD.id == self._record.id
        )
        return str(self._connection.scalar(of_record))

    def _said(self, turn_ids: Sequence[str]) -> list[str]:
        said = select(_TURN.text).where(
            _TURN.workspace_id == self._workspace, _TURN.text.is_not(None)
        )
        return [
            text
            for some in chunks(turn_ids)
            for text in self._connection.scalars(said.where(_TURN.id.in_(some)))
        ]

    def _bury(self, origins: Sequence[AnyRow], reason: str, now: datetime) -> None:
        record = self._record
        sources = {(o.content_hash, o.session_id, o.turn_id) for o in origins}
        sources.add((self._content_hash(), record.source_session, record.source_turn))
        self._connection.execute(
            insert(tombstones),
            [
                {
                    "workspace_id": self._workspace,
                    "record_id": self._record.id,
                    "content_hash": content_hash,
                    "session_id": session_id,
                    "turn_id": turn_id,
                    "reason": reason,
                    "forgotten_at": now,
                }
                for content_hash, session_id, turn_id in sorted(sources, key=str)
            ],
        )

    def _erase_origins(self, proposal_ids: Sequence[str], turn_ids: Sequence[str]) -> None:
        for some in chunks(proposal_ids):
            self._connection.execute(
                update(proposals)
                .where(_PROPOSAL.workspace_id == self._workspace, _PROPOSAL.id.in_(some))
                .values(content=None, quote=None, claim=None, time_phrase=None)
            )
        for some in chunks(turn_ids):
            self._connection.execute(
                update(turns)
                .where(_TURN.workspace_id == self._workspace, _TURN.id.in_(some))
                .values(text=None, text_hash=None)
            )

    def _erase_record(self, seq: int, now: datetime) -> None:
        self._connection.execute(
            update(memory_records)
            .where(_RECORD.workspace_id == self._workspace, _RECORD.id == self._record.id)
            .values(
                seq=seq,
                status="forgotten",
                retired_at=self._record.retired_at or now,
                content="",
                content_hash="",
                claim=None,
                claim_fields=None,
                around=None,
                source=None,
            )
        )

    def _erase_notes(self) -> None:
        """What was noted about it; that it was observed stays."""
        self._connection.execute(
            update(evidence)
            .where(
                evidence.c.workspace_id == self._workspace,
                evidence.c.record_id == self._record.id,
            )
            .values(note=None)
        )

    def _redact(
        self,
        table: Table,
        columns: Sequence[str],
        redactor: Redactor,
        *conditions: ColumnElement[bool],
    ) -> None:
        """Takes the texts out of some columns, be they plain text or JSON."""
        chosen = [table.c[name] for name in columns]
        suspected = and_(self._may_hold(chosen, redactor), *conditions)
        for row in self._rows(table, chosen, suspected):
            held = zip(columns, row[1:], strict=True)
            changed = {
                name: after for name, value in held if (after := redactor.json(value)) != value
            }
            self._rewrite(table, row, changed)

    def _redact_candidates(self, redactor: Redactor) -> None:
        column = retrievals.c.candidates
        suspected = or_(
            self._may_hold([column], redactor), self._position(column, self._record.id) > 0
        )
        for row in self._rows(retrievals, [column], suspected):
            candidates = redactor.json(json.loads(row.candidates))
            for candidate in candidates:
                if candidate["record_id"] == self._record.id:
                    candidate |= {"content": FORGOTTEN, "claim": None}
            after = verbatim_json(candidates)
            self._rewrite(retrievals, row, {"candidates": after} if after != row.candidates else {})

    def _redact_claim(self) -> None:
        """What decisions that went against it keep of its claim."""
        if self._record.claim:
            shown = Redactor([canonical_json(dict(self._record.claim))])
            self._redact(decisions, ("replies",), shown)
        column = decisions.c.overrides
        for row in self._rows(decisions, [column], self._position(column, self._record.id) > 0):
            overrides = [
                {**one, "claimed": None} if one["record_id"] == self._record.id else one
                for one in row.overrides
            ]
            self._rewrite(decisions, row, {"overrides": overrides})

    def _redact_surroundings(self, redactor: Redactor, seq: int) -> None:
        """What other records were indexed with; they have to be indexed again."""
        column = _RECORD.around
        for row in self._rows(memory_records, [column], self._may_hold([column], redactor)):
            if row.around and (after := redactor.text(row.around)) != row.around:
                state = {"around": after, "indexed_at": None, "seq": seq}
                self._rewrite(memory_records, row, state)

    def _may_hold(
        self, columns: Sequence[ColumnElement[Any]], redactor: Redactor
    ) -> ColumnElement[bool]:
        """A condition for the database that narrows down which rows are read."""
        anchors = [anchor(text) for text in redactor.texts]
        if any(len(found_anchor) < SHORTEST_ANCHOR for found_anchor in anchors):
            return true()
        return or_(*(self._position(column, some) > 0 for column in columns for some in anchors))

    @property
    def _position(self) -> Callable[..., ColumnElement[int]]:
        return func.instr if self._database.sqlite else func.strpos

    def _rows(
        self, table: Table, columns: Sequence[ColumnElement[Any]], suspected: ColumnElement[bool]
    ) -> Iterator[AnyRow]:
        mine = select(table.c.number).where(table.c.workspace_id == self._workspace, suspected)
        for some in chunks(self._connection.scalars(mine).all()):
            wanted = select(table.c.number, *columns).where(table.c.number.in_(some))
            yield from self._connection.execute(wanted).all()

    def _rewrite(self, table: Table, row: AnyRow, values: dict[str, Any]) -> None:
        if values:
            self._connection.execute(
                update(table).where(table.c.number == row.number).values(values)
            )
