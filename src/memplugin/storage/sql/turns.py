"""Turns, and the receipts of the proposals that were taken from them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from memplugin.ports import Batch
from memplugin.records import WriteReceipt
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.gate_context import ContentHash
from memplugin.storage.sql.rows import RECEIPTS, chunks, hop, receipt_from
from memplugin.storage.sql.tables import proposals, turns


class Turns:
    """Which turns were read, and what came of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def already_read(
        self, workspace_id: str, session_id: str, turn_ids: Sequence[str], extractor: str
    ) -> frozenset[str]:
        """Which of the turns this extractor has read already.

        Args:
            workspace_id: The workspace, compared by equality.
            session_id: The session.
            turn_ids: The turns.
            extractor: The version of the extractor.

        Returns:
            The ids of those that were read.
        """
        with self._database.reading() as connection:
            return turns_read(connection, workspace_id, session_id, turn_ids, extractor)

    def receipts(
        self, workspace_id: str, session_id: str, turn_ids: Sequence[str], extractor: str
    ) -> list[WriteReceipt]:
        """What came of these turns when this extractor read them.

        A failure that a later reading made good is left out.

        Args:
            workspace_id: The workspace, compared by equality.
            session_id: The session.
            turn_ids: The turns.
            extractor: The version of the extractor.

        Returns:
            The receipts.
        """
        with self._database.reading() as connection:
            return receipts_of(connection, workspace_id, session_id, turn_ids, extractor)


def turns_read(
    connection: Connection,
    workspace_id: str,
    session_id: str,
    turn_ids: Sequence[str],
    extractor: str,
) -> frozenset[str]:
    """``Turns.already_read`` inside a transaction.

    Args:
        connection: In whose transaction it happens.
        workspace_id: The workspace, compared by equality.
        session_id: The session.
        turn_ids: The turns.
        extractor: The version of the extractor.

    Returns:
        The ids of those that were read.
    """
    of_session = select(turns.c.id).where(
        turns.c.workspace_id == workspace_id,
        turns.c.session_id == session_id,
        turns.c.extracted_by == extractor,
    )
    return frozenset(
        str(id_)
        for some in chunks(turn_ids)
        for id_ in connection.scalars(of_session.where(turns.c.id.in_(some)))
    )


def receipts_of(
    connection: Connection,
    workspace_id: str,
    session_id: str,
    turn_ids: Sequence[str],
    extractor: str,
) -> list[WriteReceipt]:
    """``Turns.receipts`` inside a transaction.

    Args:
        connection: In whose transaction it happens.
        workspace_id: The workspace, compared by equality.
        session_id: The session.
        turn_ids: The turns.
        extractor: The version of the extractor.

    Returns:
        The receipts, a failure that was made good left out.
    """
    of_turns = RECEIPTS.add_columns(proposals.c.number).where(
        proposals.c.workspace_id == workspace_id,
        proposals.c.session_id == session_id,
        proposals.c.extractor == extractor,
        proposals.c.ruling != "failed",
    )
    rows = [
        row
        for some in chunks(turn_ids)
        for row in connection.execute(of_turns.where(proposals.c.turn_id.in_(some)))
    ]
    return [receipt_from(row) for row in sorted(rows, key=lambda row: row.number)]


def store_turns(
    database: Database, connection: Connection, batch: Batch, hashed: ContentHash
) -> None:
    """Keeps what was said, as far as ``keep_turns`` allows, and that it was read.

    Where no text is kept there still is a row: that a turn was read must be known.

    Args:
        database: Which database it is.
        connection: In whose transaction it happens.
        batch: The write.
        hashed: Hashes contents with the store's key.
    """
    if not batch.turns:
        return
    full, hashes = batch.keep_turns == "full", batch.keep_turns != "off"
    columns = hop(batch.context, batch.span)
    connection.execute(
        database.insert(turns).on_conflict_do_nothing(
            index_elements=[turns.c.workspace_id, turns.c.id]
        ),
        [
            {
                **columns,
                "session_id": turn.session_id,
                "task_id": turn.task_id or columns["task_id"],
                "id": turn.id,
                "role": turn.role,
                "text": turn.text if full else None,
                "text_hash": hashed(turn.text) if hashes and turn.text is not None else None,
                "said_at": turn.said_at,
                "extracted_by": None,
            }
            for turn in batch.turns
        ],
    )
    if batch.extractor and batch.failure is None:
        _mark_read(connection, batch)


def _mark_read(connection: Connection, batch: Batch) -> None:
    mine = turns.c.workspace_id == batch.context.workspace_id
    for some in chunks([turn.id for turn in batch.turns]):
        read = update(turns).where(mine, turns.c.id.in_(some))
        connection.execute(read.values(extracted_by=batch.extractor))
