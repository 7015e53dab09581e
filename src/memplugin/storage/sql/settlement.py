"""Settling a batch: rulings are carried out on what is known, and stored together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, insert, update

from memplugin.ports import Batch, Rule, Weigh
from memplugin.records import Evidence, MemoryRecord, Proposal, Ruling, Settled, WriteReceipt
from memplugin.storage.sql import fulltext
from memplugin.storage.sql.engine import Database
from memplugin.storage.sql.evidence import reweigh, row_of
from memplugin.storage.sql.gate_context import ContentHash, Knowledge
from memplugin.storage.sql.prior_rulings import PriorRulings
from memplugin.storage.sql.records import next_seq
from memplugin.storage.sql.rows import (
    RECORD_FIELDS,
    RECORDS,
    chunks,
    claim_fields,
    hop,
    proposal_values,
    record_from,
    scope_key,
    span_ids,
)
from memplugin.storage.sql.tables import evidence, memory_records, proposals
from memplugin.text import digest

CONFIRMATION_WEIGHT = 1.0
CONFIRMATION_SALIENCE = 0.5
"""What saying the same again counts as evidence."""

TOMBSTONED = "tombstoned"
"""How the reason of a refusal begins when the content was forgotten before."""

_STATE = ("status", "evidence_count", "retired_at", "replaced_by", "seq")

_CHANGE = (
    update(memory_records)
    .where(memory_records.c.id == bindparam("of_record"))
    .values({name: bindparam(f"new_{name}") for name in _STATE})
)


_MAKES_RECORD = ("accepted", "superseded")


def unindexed(
    connection: Connection, workspace_id: str, receipts: Iterable[WriteReceipt]
) -> list[MemoryRecord]:
    """Active records that proposals made, by their receipts, and that the index does not hold.

    Args:
        connection: In the transaction.
        workspace_id: The workspace.
        receipts: Of the proposals.

    Returns:
        The records, as they stand.
    """
    ids = {r.record_id for r in receipts if r.ruling in _MAKES_RECORD and not r.indexed}
    record = memory_records.c
    mine = RECORDS.where(record.workspace_id == workspace_id, record.status == "active")
    return [
        record_from(row)
        for some in chunks(sorted(filter(None, ids)))
        for row in connection.execute(mine.where(record.id.in_(some)))
    ]


class Place(NamedTuple):
    """Where a proposal's row stands: its id, what was asked for, in which call and where."""

    id: str
    proposed_as: str
    batch: str
    place: int


class Settlement:
    """One batch on its way into the ledger.

    Args:
        seen: The observation that its proposals come from, which is evidence for the
            records they make or are attached to; None when they were written.
    """

    def __init__(
        self,
        database: Database,
        connection: Connection,
        batch: Batch,
        hashed: ContentHash,
        seen: Evidence | None = None,
    ) -> None:
        self._database = database
        self._connection = connection
        self._batch = batch
        self._hashed = hashed
        self._seen = seen
        self._hop = hop(batch.context, batch.span)
        self._evidence: list[Evidence] = []
        self._supersedes: dict[str, str] = {}
        self._polarity: dict[str, str] = {}
        self._receipts: list[WriteReceipt] = []
        self._made: list[MemoryRecord] = []

    def rule(self, rule: Rule, weigh: Weigh) -> None:
        """Rules on what is not there yet, and stores it."""
        batch, workspace = self._batch, self._batch.context.workspace_id
        prior = PriorRulings(self._connection, workspace, batch.proposals)
        self._re_read(prior.ids())
        knowledge = Knowledge.about(self._connection, batch, batch.proposals, self._hashed)
        rulings: list[tuple[Place, Ruling]] = []
        current: dict[str, str] = {}  # record ids as near records name them, as they are now
        for place, asked in enumerate(batch.proposals):
            receipt = prior.still_true(asked, place, knowledge)
            if receipt is None:
                near = [(current.get(i, i), c) for i, c in batch.near.get(asked.id, ())]
                proposal = replace(asked, id=prior.numbered(asked.id))
                ruling = rule(proposal, knowledge.known(proposal, near))
                receipt = prior.same_again(asked, ruling)
                if receipt is None:
                    receipt = self._carry_out(proposal, ruling, knowledge)
                    rulings.append((Place(proposal.id, asked.id, prior.batch, place), ruling))
                    prior.add(asked.id, place, receipt)
                    current[asked.record_id] = proposal.record_id
            self._receipts.append(receipt)
        self._store(rulings, knowledge, weigh)

    @property
    def settled(self) -> Settled:
        """What came of the batch so far."""
        made = {record.id for record in self._made}
        before = [r for r in self._receipts if r.record_id not in made]
        waiting = unindexed(self._connection, self._batch.context.workspace_id, before)
        return Settled(self._receipts, [*self._made, *waiting])

    def fail(self, reason: str) -> None:
        """Keeps a failed extraction, once for the same turns and extractor."""
        batch, ids = self._batch, [turn.id for turn in self._batch.turns]
        context = batch.context
        parts = (context.workspace_id, context.session_id, *ids, batch.extractor or "", "failed")
        id_ = f"p_{digest(*parts)}"
        values = {
            **self._hop,
            "id": id_,
            "proposed_as": id_,
            "operation": "remember",
            "turn_id": ids[0] if ids else None,
            "turn_ids": ids,
            "extractor": batch.extractor,
            "ruling": "failed",
            "reason": reason,
            "created_at": batch.now,
        }
        row = self._database.insert(proposals).values(values)
        self._connection.execute(
            row.on_conflict_do_update(index_elements=[proposals.c.id], set_={"reason": reason})
        )
        self._receipts.append(WriteReceipt(id_, None, "failed", reason))

    def _re_read(self, ids: Sequence[str]) -> None:
        """A newer extractor that proposes the same is the one to be asked about it."""
        if not self._batch.extractor:
            return
        for some in chunks(ids):
            self._connection.execute(
                update(proposals)
                .where(
                    proposals.c.workspace_id == self._batch.context.workspace_id,
                    proposals.c.id.in_(some),
                )
                .values(extractor=self._batch.extractor)
            )

    def _carry_out(self, proposal: Proposal, ruling: Ruling, knowledge: Knowledge) -> WriteReceipt:
        indexed = False
        if ruling.ruling in ("accepted", "superseded"):
            record = self._record(ruling)
            if ruling.replaced_by_id:
                return self._keep_as_replaced(record, ruling, knowledge)
            if ruling.ruling == "superseded" and ruling.replaced_id:
                self._supersedes[record.id] = ruling.replaced_id
                knowledge.change(
                    ruling.replaced_id,
                    status="superseded",
                    retired_at=self._batch.now,
                    replaced_by=record.id,
                )
            self._polarity[record.id] = ruling.proposal.polarity
            knowledge.add(record)
            if self._seen:
                self._note(proposal, record.id, knowledge, supports=True)
        elif ruling.ruling == "attached" and ruling.record_id:
            indexed = self._note(proposal, ruling.record_id, knowledge, supports=True)
        elif ruling.against_id and not (self._seen and self._seen.record_id == ruling.against_id):
            self._note(proposal, ruling.against_id, knowledge, supports=False)
        return WriteReceipt(
            proposal_id=proposal.id,
            record_id=ruling.record_id,
            ruling=ruling.ruling,
            reason=ruling.reason,
            indexed=indexed,
            replaced_id=ruling.replaced_id,
        )

    def _keep_as_replaced(
        self, record: MemoryRecord, ruling: Ruling, knowledge: Knowledge
    ) -> WriteReceipt:
        """Keeps what was true before a known record: readable, and never retrieved."""
        now, by = self._batch.now, ruling.replaced_by_id
        knowledge.add_replaced(replace(record, status="superseded", retired_at=now, replaced_by=by))
        self._polarity[record.id] = ruling.proposal.polarity
        return WriteReceipt(ruling.proposal.id, record.id, ruling.ruling, ruling.reason)

    def _record(self, ruling: Ruling) -> MemoryRecord:
        proposal, batch = ruling.proposal, self._batch
        return MemoryRecord(
            id=ruling.record_id or proposal.record_id,
            workspace_id=batch.context.workspace_id,
            kind=proposal.kind,
            content=proposal.content,
            scope=dict(proposal.scope),
            claim=dict(proposal.claim) if proposal.claim is not None else None,
            status="active",
            confidence=proposal.confidence,
            pinned=proposal.pinned,
            evidence_count=0,
            occurred_at=proposal.occurred_at,
            created_at=batch.now,
            source_session=batch.context.session_id,
            task_id=batch.context.task,
            seq=0,
            source=proposal.source,
            source_turn=proposal.turn_id,
            around=proposal.around,
            traceparent=batch.span.traceparent if batch.span else None,
        )

    def _note(
        self, proposal: Proposal, record_id: str, knowledge: Knowledge, *, supports: bool
    ) -> bool:
        """Takes a proposal as evidence; returns whether the record is in the index."""
        record = knowledge.active(record_id)
        knowledge.change(record_id, evidence_count=record.evidence_count + 1)
        context, seen = self._batch.context, self._seen
        piece = Evidence(
            id="e_" + proposal.id.removeprefix("p_"),
            record_id=record_id,
            supports=supports,
            weight=seen.weight if seen else CONFIRMATION_WEIGHT,
            salience=seen.salience if seen else CONFIRMATION_SALIENCE,
            scope=proposal.scope,
            at=self._batch.now,
            session_id=context.session_id,
            task_id=context.task,
            note=seen.note if seen else None,
            proposal_id=proposal.id,
        )
        self._evidence.append(piece)
        return record.indexed_at is not None

    def _store(
        self, rulings: Sequence[tuple[Place, Ruling]], knowledge: Knowledge, weigh: Weigh
    ) -> None:
        connection = self._connection
        if knowledge.added or knowledge.changed:
            workspace = self._batch.context.workspace_id
            seq = next_seq(self._database, connection, workspace)
            if knowledge.added:
                rows = [self._record_values(r, seq) for r in knowledge.added.values()]
                connection.execute(insert(memory_records), rows)
                self._made = [r for r in knowledge.added.values() if r.status == "active"]
            if knowledge.changed:
                rows = [_state_values(r, seq) for r in knowledge.changed.values()]
                connection.execute(_CHANGE, rows)
            fulltext.refresh(self._database, connection, workspace, seq)
            self._weigh(workspace, weigh, seq)
        if rulings:
            rows = [self._proposal_values(place, ruling) for place, ruling in rulings]
            connection.execute(insert(proposals), rows)

    def _weigh(self, workspace: str, weigh: Weigh, seq: int) -> None:
        # Whoever is evidence has changed its record, so there is a sequence number.
        if self._evidence:
            rows = [row_of(piece, self._hop) for piece in self._evidence]
            self._connection.execute(insert(evidence), rows)
            about = {piece.record_id for piece in self._evidence}
            reweigh(self._connection, workspace, about, weigh, seq)

    def _record_values(self, record: MemoryRecord, seq: int) -> dict[str, Any]:
        batch = self._batch
        return {
            **{name: getattr(record, name) for name in RECORD_FIELDS},
            **span_ids(batch.span),
            "seq": seq,
            "scope": scope_key(record.scope),
            "scope_size": len(record.scope),
            "claim_fields": claim_fields(record.claim),
            "content_hash": self._hashed(record.content),
            "polarity": self._polarity[record.id],
            "seed_confidence": record.confidence,
            "seed_strength": batch.seed_strength,
            "supersedes": self._supersedes.get(record.id),
        }

    def _proposal_values(self, place: Place, ruling: Ruling) -> dict[str, Any]:
        values = proposal_values(ruling.proposal)
        if ruling.reason and ruling.reason.startswith(TOMBSTONED):
            # What was forgotten must not come back as the text of its own refusal.
            values |= {"content": None, "quote": None, "claim": None}
        return {
            **values,
            **self._hop,
            **place._asdict(),
            "content_hash": self._hashed(ruling.proposal.content),
            "extractor": ruling.proposal.extractor or self._batch.extractor,
            "ruling": ruling.ruling,
            "reason": ruling.reason,
            "record_id": ruling.record_id,
            "replaced_id": ruling.replaced_id,
            "created_at": self._batch.now,
        }


def _state_values(record: MemoryRecord, seq: int) -> dict[str, Any]:
    changed = {name: getattr(record, name) for name in _STATE if name != "seq"}
    return {"of_record": record.id, "new_seq": seq, **{f"new_{k}": v for k, v in changed.items()}}
