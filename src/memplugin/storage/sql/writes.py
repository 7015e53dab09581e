"""The transactions of a write: a batch of proposals, or an observation with what it proposes."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection, select

from memplugin.ports import Batch, Rule, Weigh, unmoved
from memplugin.records import Evidence, Observed, Proposal, Settled
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.evidence import check_active, reweigh, row_of
from memplugin.storage.sql.gate_context import ContentHash
from memplugin.storage.sql.records import found, next_seq
from memplugin.storage.sql.rows import hop, scope_key
from memplugin.storage.sql.settlement import Settlement, unindexed
from memplugin.storage.sql.tables import evidence, memory_records
from memplugin.storage.sql.turns import receipts_of, store_turns, turns_read

_RECORD = memory_records.c


class Writes:
    """Stores batches of proposals and observations, each in one transaction."""

    def __init__(self, database: Database, hashed: ContentHash) -> None:
        self._database = database
        self._hashed = hashed

    def settle(self, batch: Batch, rule: Rule, weigh: Weigh = unmoved) -> Settled:
        """Rules on proposals and stores everything, in one transaction.

        Two writers of one workspace take turns. A proposal that is there already gets
        its first receipt again and is not ruled on (``rejected``, ``tombstoned`` when its
        record was forgotten since).

        An attached proposal is evidence for its record, a rejected one that names a record
        it is against is evidence against that; their confidence follows.

        Args:
            batch: The proposals, with the turns they were extracted from.
            rule: The gate.
            weigh: Confidence from a seed and its evidence.

        Returns:
            Receipts in the proposals' order, and the records to be indexed.
        """
        workspace = batch.context.workspace_id
        with self._database.writing(workspace) as connection:
            ids = [turn.id for turn in batch.turns]
            if batch.extractor and ids:
                session = batch.context.session_id
                read = turns_read(connection, workspace, session, ids, batch.extractor)
                if read.issuperset(ids):
                    receipts = receipts_of(connection, workspace, session, ids, batch.extractor)
                    return Settled(receipts, unindexed(connection, workspace, receipts))
            store_turns(self._database, connection, batch, self._hashed)
            settlement = Settlement(self._database, connection, batch, self._hashed)
            settlement.rule(rule, weigh)
            if batch.failure is not None:
                settlement.fail(batch.failure)
            return settlement.settled

    def observe(self, seen: Evidence, batch: Batch, rule: Rule, weigh: Weigh = unmoved) -> Observed:
        """Adds evidence to a record and settles what it gives rise to, in one transaction.

        Evidence that is there already changes nothing. The record's confidence follows the
        evidence before the batch is ruled on; the batch's proposals are narrower beliefs,
        for which the same observation is evidence in favour.

        Args:
            seen: The evidence.
            batch: The narrower beliefs that the observation proposes.
            rule: The gate.
            weigh: Confidence from a seed and its evidence.

        Returns:
            The observed record as it stands now; receipts and records as of ``settle``.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: it is not active.
        """
        workspace = batch.context.workspace_id
        with self._database.writing(workspace) as connection:
            record = found(connection, workspace, seen.record_id)
            if not _is_new(self._database, connection, seen, batch):
                return Observed(record)
            check_active(record)
            seq = next_seq(self._database, connection, workspace)
            reweigh(connection, workspace, [record.id], weigh, seq)
            settlement = Settlement(
                self._database,
                connection,
                _with_known_exceptions(connection, batch),
                self._hashed,
                seen,
            )
            settlement.rule(rule, weigh)
            settled = settlement.settled
            record = found(connection, workspace, record.id)
            return Observed(record, settled.receipts, settled.records)


def _is_new(database: Database, connection: Connection, seen: Evidence, batch: Batch) -> bool:
    row = database.insert(evidence).values(row_of(seen, hop(batch.context, batch.span)))
    added = row.on_conflict_do_nothing(index_elements=[evidence.c.id]).returning(evidence.c.id)
    return connection.scalar(added) is not None


def _with_known_exceptions(connection: Connection, batch: Batch) -> Batch:
    """Shows the gate, beside what is near, the exception that was made the last time."""
    workspace = batch.context.workspace_id
    near = dict(batch.near)
    for proposal in batch.proposals:
        if not proposal.claim and (known := _same_exceptions(connection, workspace, proposal)):
            near[proposal.id] = [*known, *near.get(proposal.id, ())]
    return replace(batch, near=near)


def _same_exceptions(
    connection: Connection, workspace_id: str, proposal: Proposal
) -> list[tuple[str, float]]:
    same = select(_RECORD.id).where(
        _RECORD.workspace_id == workspace_id,
        _RECORD.status == "active",
        _RECORD.kind == proposal.kind,
        _RECORD.scope == scope_key(proposal.scope),
        _RECORD.claim_fields.is_(None),
        _RECORD.source == proposal.source,
    )
    return [(str(id_), 1.0) for id_ in connection.scalars(same)]
