"""Turns, proposals, rulings, records and evidence: what a write reads and stores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memplugin.records.base import Claim, Noun, Scope

RulingName = Literal["accepted", "attached", "superseded", "rejected", "failed"]


Status = Literal["active", "superseded", "evicted", "forgotten"]


Polarity = Literal["positive", "negative"]


STANDING_KINDS = frozenset({"preference", "instruction"})
"""Kinds that hold until revoked, whatever the question is about."""


@dataclass(frozen=True, slots=True)
class Turn(Noun):
    """One message of a session, as it was said.

    Attributes:
        id: Derived from workspace, session, role, text and how often the same was said
            before, so that the same history gives the same ids.
        text: None when the store keeps no text of turns.
        extracted_by: Version of the extractor that has read the turn; None before.
    """

    id: str
    session_id: str
    role: str
    text: str | None
    said_at: datetime
    task_id: str | None = None
    extracted_by: str | None = None


@dataclass(frozen=True, slots=True)
class WriteRequest(Noun):
    """What a caller asks to be stored: the arguments of ``Memory.write``, not checked yet.

    Attributes:
        content: One self-contained sentence.
        kind: ``preference``, ``instruction``, ``fact``, ``belief``, ``tip``, ``episode`` or
            one of the caller's own.
        scope: When it applies; None and ``{}`` anywhere.
        claim: What it says of one field, ``{field: value}``, values JSON scalars.
        confidence: 0 to 1; None for the default.
        pinned: Whether evidence leaves its confidence unmoved.
        occurred_at: When it became true, with a time zone; None for now.
        source: Where it comes from, in the caller's words.
        around: Text that is indexed with it and never shown.
        shared: For everyone in the workspace, although the context names a user.
    """

    content: str
    kind: str = "fact"
    scope: Scope | None = None
    claim: Claim | None = None
    confidence: float | None = None
    pinned: bool = False
    occurred_at: datetime | None = None
    source: str | None = None
    around: str | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Observation(Noun):
    """How a record turned out in a request: the arguments of ``Memory.observe``, not checked yet.

    Attributes:
        supports: Whether it turned out as the record says.
        weight: How much this says about the record, 0 to 100.
        salience: How much it stood out, 0 to 1.
        note: What was seen, in the caller's words.
        claim: What was observed instead, where it does not support.
    """

    supports: bool = True
    weight: float = 1.0
    salience: float = 0.5
    note: str | None = None
    claim: Claim | None = None


@dataclass(frozen=True, slots=True)
class Proposal(Noun):
    """Something that might become a record; the gate rules on it.

    Attributes:
        id: Hash of workspace, session, turn, operation and normalised content: proposing
            the same twice is one proposal.
        content: The memory, one self-contained sentence.
        scope: When it applies: every key must equal the request's; ``{}`` anywhere.
        claim: What it says of one field, ``{field: value}``; None when it claims nothing.
        confidence: Of the extractor or the caller, 0 to 1.
        occurred_at: When it was said or became true.
        quote: Verbatim from the turn, for extracted proposals.
        around: Text that is indexed with the record and never shown.
        source: Where the content comes from, in the caller's words.
        said_in: The trusted turn's text the quote must be found in; None when nobody said it.
        defect: Why it can't be ruled on: the extractor gave something malformed.
    """

    id: str
    operation: Literal["write", "remember", "observe"]
    content: str
    kind: str
    scope: Scope
    claim: Claim | None
    confidence: float
    occurred_at: datetime
    polarity: Polarity = "positive"
    speech_act: str | None = None
    quote: str | None = None
    turn_id: str | None = None
    said_in: str | None = None
    pinned: bool = False
    source: str | None = None
    around: str | None = None
    extractor: str | None = None
    time_phrase: str | None = None
    defect: str | None = None

    @property
    def record_id(self) -> str:
        """The id its record gets when it is accepted."""
        return "m_" + self.id.removeprefix("p_")


@dataclass(frozen=True, slots=True)
class StoredProposal:
    """A proposal as the ledger kept it, with its ruling."""

    id: str
    task_id: str
    session_id: str
    turn_id: str | None
    operation: str
    content: str | None
    kind: str | None
    confidence: float | None
    quote: str | None
    ruling: str
    reason: str | None
    record_id: str | None
    replaced_id: str | None
    extractor: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Ruling(Noun):
    """The terminal state of a proposal.

    Attributes:
        record_id: The record made (accepted, superseded) or attached to; else None.
        replaced_id: The record a superseding one replaced.
        replaced_by_id: The record that an accepted one is already replaced by.
        against_id: The record that a rejected proposal is evidence against.
        reason: Why, in one word or ``word: detail``; None when accepted.
    """

    proposal: Proposal
    ruling: RulingName
    reason: str | None = None
    record_id: str | None = None
    replaced_id: str | None = None
    against_id: str | None = None
    replaced_by_id: str | None = None


@dataclass(frozen=True, slots=True)
class WriteReceipt(Noun):
    """What became of one proposal.

    Attributes:
        indexed: True when the vector index holds the record; False leaves it in the
            outbox (``flush``), where full-text search already finds it.
        replaced_id: The record that this one superseded.
    """

    proposal_id: str
    record_id: str | None
    ruling: RulingName
    reason: str | None = None
    indexed: bool = False
    replaced_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a forgotten record: where it came from and when it went."""

    session_id: str
    turn_id: str | None
    forgotten_at: datetime


@dataclass(frozen=True, slots=True)
class Known:
    """What the store holds that bears on one proposal, as of the writing transaction.

    Attributes:
        same_content: Active records with the same normalised content.
        same_slot: Active records that claim the same fields.
        near: Active records by cosine, best first.
        tombstones: Of forgotten records with the same content or from the same turn.
        session_id: The session that proposes; None leaves it out of the comparison.
    """

    same_content: Sequence[MemoryRecord] = ()
    same_slot: Sequence[MemoryRecord] = ()
    near: Sequence[tuple[MemoryRecord, float]] = ()
    tombstones: Sequence[Tombstone] = ()
    session_id: str | None = None


ALREADY_REPLACED = "already_replaced"
"""Begins the reason of a ruling on what was true before a record that is known."""

INSTEAD_OF = "observed instead of "
"""Begins the source of a record that was observed where another one did not hold; the other
one's id follows."""


@dataclass(frozen=True, slots=True)
class Evidence(Noun):
    """One observation for or against a record.

    Attributes:
        id: Made of what was observed and where, so that a node that runs again counts once.
        weight: How much it says about the record, from 0.
        salience: How much it stood out, 0 to 1.
        scope: Of the request it comes from.
        at: When it was observed.
        proposal_id: The proposal that was attached to the record; None for an observation.
    """

    id: str
    record_id: str
    supports: bool
    weight: float
    salience: float
    scope: Scope
    at: datetime
    session_id: str
    task_id: str
    note: str | None = None
    proposal_id: str | None = None

    @property
    def amount(self) -> float:
        """What it adds for or against: ``|weight| * salience``."""
        return abs(self.weight) * self.salience


@dataclass(frozen=True, slots=True)
class MemoryRecord(Noun):
    """A memory that was let through the gate. Its content never changes.

    Attributes:
        confidence: What its seed and all its evidence come to, 0 to 1.
        pinned: Evidence is kept, and its confidence does not move.
        evidence_count: How many pieces of evidence there are, for and against.
        seq: The workspace's sequence number of its last change of state.
        traceparent: The span that wrote it; None when there was no valid one.
        indexed_at: When the vector index held it; None while it is in the outbox.
        vector_covers_all: False when the content is longer than the model reads.
    """

    id: str
    workspace_id: str
    kind: str
    content: str
    scope: Scope
    claim: Claim | None
    status: Status
    confidence: float
    pinned: bool
    evidence_count: int
    occurred_at: datetime
    created_at: datetime
    source_session: str
    task_id: str | None
    seq: int
    source: str | None = None
    source_turn: str | None = None
    around: str | None = None
    traceparent: str | None = None
    indexed_at: datetime | None = None
    retired_at: datetime | None = None
    replaced_by: str | None = None
    vector_covers_all: bool = True


@dataclass(frozen=True, slots=True)
class Settled:
    """What came of a batch of proposals.

    Attributes:
        receipts: In the order of the proposals.
        records: Active records that the vector index does not hold yet: those that were made,
            and those that the same proposals made before.
    """

    receipts: Sequence[WriteReceipt] = ()
    records: Sequence[MemoryRecord] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of an observation.

    Attributes:
        record: The observed record, as it stands now.
        receipts: Of the proposals that came with it; none when it was counted before.
        records: As of ``Settled``.
    """

    record: MemoryRecord
    receipts: Sequence[WriteReceipt] = ()
    records: Sequence[MemoryRecord] = ()


@dataclass(frozen=True, slots=True)
class Belief:
    """What a record's confidence starts from.

    Attributes:
        confidence: That it was written with.
        strength: How many observations that is worth.
        scope: The record's.
        pinned_at: The confidence at which it was pinned; None while it is not.
    """

    confidence: float
    strength: float
    scope: Scope
    pinned_at: float | None = None
