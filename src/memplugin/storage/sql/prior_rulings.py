"""What became of the same proposals before, and whether that is still true.

A call is made again by a graph that resumes, retries or replays, and gets the receipts of the
first time. But a receipt must not outlive what it says: where the record was replaced or
evicted since, or the proposal had failed or was rejected, it is ruled on anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from memplugin.records import ALREADY_REPLACED, Proposal, Ruling, WriteReceipt
from memplugin.storage.sql.gate_context import Knowledge
from memplugin.storage.sql.rows import RECEIPTS, chunks, receipt_from
from memplugin.storage.sql.tables import memory_records, proposals
from memplugin.text import digest

_PRIOR = RECEIPTS.add_columns(
    proposals.c.proposed_as,
    proposals.c.batch,
    proposals.c.place,
    memory_records.c.replaced_by,
).order_by(proposals.c.number)


@dataclass(frozen=True, slots=True)
class PriorRuling:
    """One ruling on a proposal.

    Attributes:
        receipt: As it was given, but for a record that was forgotten since.
        status: Of its record now; None when it has none.
        replaced_by: The record that replaced its record.
    """

    receipt: WriteReceipt
    status: str | None
    replaced_by: str | None
    batch: str | None
    place: int | None

    @property
    def born_replaced(self) -> bool:
        """Whether its record went in as already replaced by a record that was known."""
        return (self.receipt.reason or "").startswith(ALREADY_REPLACED)


class PriorRulings:
    """The rulings on a batch's proposals, earlier ones and those of this call.

    Args:
        connection: Inside the writing transaction.
        workspace_id: The workspace.
        asked: The batch's proposals.
    """

    def __init__(
        self, connection: Connection, workspace_id: str, asked: Sequence[Proposal]
    ) -> None:
        self._connection = connection
        self._workspace_id = workspace_id
        self.batch = digest(*(proposal.id for proposal in asked))
        """Names the call by what it proposes, in order."""
        self._of: defaultdict[str, list[PriorRuling]] = defaultdict(list)
        self._load(dict.fromkeys(proposal.id for proposal in asked))
        self._repeated = self._replaced_inside() if len(asked) > 1 else frozenset[str]()

    def ids(self) -> list[str]:
        """The ids of the rows of earlier calls."""
        return [prior.receipt.proposal_id for rows in self._of.values() for prior in rows]

    def still_true(
        self, proposal: Proposal, place: int, knowledge: Knowledge
    ) -> WriteReceipt | None:
        """The receipt that a proposal got before, if what it says still holds.

        Args:
            proposal: As it was asked for.
            place: Its place in the batch.
            knowledge: The records as they are by now in this transaction.
        """
        rows = self._of.get(proposal.id)
        if not rows:
            return None
        repeated = [
            row
            for row in rows
            if row.batch == self.batch and row.place is not None and row.place <= place
        ]
        if repeated and repeated[-1].receipt.record_id in self._repeated:
            return repeated[-1].receipt
        return rows[-1].receipt if _holds(rows[-1], proposal, knowledge) else None

    def same_again(self, proposal: Proposal, ruling: Ruling) -> WriteReceipt | None:
        """The last receipt, if a new ruling refuses the proposal for the same reason."""
        rows = self._of.get(proposal.id)
        if not rows or ruling.ruling not in ("rejected", "failed"):
            return None
        last = rows[-1].receipt
        same = (last.ruling, last.reason) == (ruling.ruling, ruling.reason)
        return last if same else None

    def numbered(self, proposal_id: str) -> str:
        """The id of the next ruling on a proposal; that of the first is the proposal's own."""
        count = len(self._of.get(proposal_id, ()))
        return f"p_{digest(proposal_id, str(count))}" if count else proposal_id

    def add(self, asked_as: str, place: int, receipt: WriteReceipt) -> None:
        """Takes in a ruling of this call.

        Args:
            asked_as: The id under which the proposal was asked for.
            place: Its place in the batch.
            receipt: What it got.
        """
        status = "active" if receipt.record_id else None
        self._of[asked_as].append(PriorRuling(receipt, status, None, self.batch, place))

    def _load(self, ids: Iterable[str]) -> None:
        mine = _PRIOR.where(proposals.c.workspace_id == self._workspace_id)
        for some in chunks(list(ids)):
            for row in self._connection.execute(mine.where(proposals.c.proposed_as.in_(some))):
                self._of[row.proposed_as].append(
                    PriorRuling(
                        receipt_from(row), row.status, row.replaced_by, row.batch, row.place
                    )
                )

    def _replaced_inside(self) -> frozenset[str]:
        """The records that the same call made before, if nothing has changed since.

        A record that a later item of that call has replaced is as the call left it. None when
        the call is new, or when something else has replaced or retired one of its records.
        """
        rows = [row for rows in self._of.values() for row in rows if row.batch == self.batch]
        made = {row.receipt.record_id for row in rows}
        for row in rows:
            if row.status == "active" or row.receipt.record_id is None or row.born_replaced:
                continue
            if row.status != "superseded" or row.replaced_by not in made:
                return frozenset()
        return frozenset(id_ for id_ in made if id_)


def _holds(prior: PriorRuling, proposal: Proposal, knowledge: Knowledge) -> bool:
    if prior.status == "forgotten":
        return True
    if prior.receipt.ruling in ("rejected", "failed"):
        return False
    if proposal.operation == "remember":
        # A turn that is read again says what was said then: what replaced it was said later.
        return True
    if prior.born_replaced:
        return True
    record_id = prior.receipt.record_id or ""
    return prior.status == "active" and not knowledge.retired(record_id)
