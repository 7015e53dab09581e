"""What the decisions need from outside. Each port has one conformance suite in ``tests/``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memplugin.config import KeepTurns, MemoryContext
from memplugin.crediting import Crediting
from memplugin.judging import Judging
from memplugin.records import (
    Counterfactual,
    Decision,
    Evidence,
    Json,
    MemoryRecord,
    Outcome,
    Proposal,
    Retrieval,
    Ruling,
    Scope,
    SpanRef,
    Turn,
    WriteReceipt,
)

Vectors = NDArray[np.float32]
"""Rows of length 1, shape (n, dimension)."""

IdFactory = Callable[[str], str]
"""Given a prefix (``r`` for a retrieval), returns a new id (``r_…``)."""


class Clock(Protocol):
    """Where times come from."""

    def now(self) -> datetime:
        """The present, with a time zone."""
        ...


class Embedder(Protocol):
    """Text to vectors."""

    @property
    def name(self) -> str:
        """The model, as a user would name it."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hex that tells one set of weights from another."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns a row for each text; none for none."""
        ...

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """Whether each text is longer than what the model reads."""
        ...


# ---------------------------------------------------------------- the ledger's values


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


Rule = Callable[[Proposal, Known], Ruling]
"""The gate, as the ledger sees it."""


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


Weigh = Callable[[Belief, Sequence[Evidence]], float]
"""Confidence from a seed and the whole set of evidence, as the ledger sees it."""


def unmoved(belief: Belief, evidence: Sequence[Evidence]) -> float:
    """A ``Weigh`` for where confidence is of no concern: the seed's, whatever the evidence."""
    return belief.confidence if belief.pinned_at is None else belief.pinned_at


@dataclass(frozen=True, slots=True)
class Batch:
    """One write, to be settled in one transaction.

    Attributes:
        turns: What was said; stored as ``keep_turns`` says.
        extractor: Version of the extractor that read the turns; None for a plain write.
            Turns that this version has read already make the whole batch a repetition:
            nothing is written and the receipts of the first time are returned.
        near: Proposal id to (record id, cosine), best first; may name records that
            earlier proposals of this batch would make.
        failure: Why the extraction failed: kept as one failed proposal, and the turns
            stay unread, so that the next call tries again.
        seed_strength: How many observations the confidence of a new record is worth.
    """

    context: MemoryContext
    proposals: Sequence[Proposal]
    now: datetime
    turns: Sequence[Turn] = ()
    extractor: str | None = None
    keep_turns: KeepTurns = "full"
    near: Mapping[str, Sequence[tuple[str, float]]] = field(
        default_factory=dict[str, Sequence[tuple[str, float]]]
    )
    failure: str | None = None
    span: SpanRef | None = None
    seed_strength: float = 4.0


INSTEAD_OF = "observed instead of "
"""Begins the source of a record that was observed where another one did not hold; the other
one's id follows."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What came of an observation.

    Attributes:
        record: The observed record, as it stands now.
        receipts: Of the proposals that came with it; none when it was counted before.
    """

    record: MemoryRecord
    receipts: Sequence[WriteReceipt] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a workspace's directory: what search needs to know of a record."""

    record_id: str
    seq: int
    active: bool
    indexed: bool
    has_around: bool
    kind: str
    scope_key: str


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """How far a workspace has come.

    Attributes:
        seq: Rises with every change of any record's state.
        active: Number of active records.
        pending: Active records that the vector index does not hold yet.
    """

    seq: int
    active: int
    pending: int


@dataclass(frozen=True, slots=True)
class Selection:
    """Which active records of a workspace count for a request.

    Attributes:
        kinds: None for every kind.
        scope_keys: Canonical scopes that apply (every subset of the request's).
    """

    workspace_id: str
    scope_keys: frozenset[str]
    kinds: frozenset[str] | None = None


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
class TaskRows:
    """Every row that one task's hops wrote, oldest first."""

    turns: Sequence[Turn]
    proposals: Sequence[StoredProposal]
    retrievals: Sequence[Retrieval]
    decisions: Sequence[Decision[Any]]
    outcomes: Sequence[Outcome]
    counterfactuals: Sequence[Counterfactual] = ()


@dataclass(frozen=True, slots=True)
class RowSpan:
    """In which span a row was written.

    Attributes:
        table: ``sessions``, ``turns``, ``proposals`` or ``attempts``; retrievals and
            decisions say it themselves.
        id: The row's; a session's is its session id.
        at: When, by the store's clock.
        trace_id: None when there was no valid span, as ``span_id``.
        sampled: None where the table does not keep it.
    """

    table: str
    id: str
    session_id: str
    at: datetime
    trace_id: str | None
    span_id: str | None
    sampled: bool | None


class Ledger(Crediting, Judging, Protocol):
    """The truth. Every method is atomic, safe in threads, and raises ``StoreError``.

    Every look-up takes the workspace and compares it by equality.
    """

    # -- the store itself
    def setdefault(self, key: str, value: str) -> str:
        """Keeps a fact about the store; returns the one that was there first."""
        ...

    def replace(self, key: str, value: str) -> None:
        """Overwrites a fact about the store."""
        ...

    def close(self) -> None:
        """Gives back connections."""
        ...

    # -- write
    def enter_session(
        self, context: MemoryContext, span: SpanRef | None, now: datetime
    ) -> SpanRef | None:
        """Notes that a task's session has begun (once), with the span it began with.

        Returns:
            The first span of the session of this task that began before this one, when
            this is the session's first call and there is such a span.
        """
        ...

    def repeated(
        self, workspace_id: str, session_id: str, turn_ids: Sequence[str], extractor: str
    ) -> frozenset[str]:
        """Which of the turns this extractor has read already."""
        ...

    def receipts(
        self, workspace_id: str, session_id: str, turn_ids: Sequence[str], extractor: str
    ) -> list[WriteReceipt]:
        """What came of these turns when this extractor read them."""
        ...

    def settle(self, batch: Batch, rule: Rule, weigh: Weigh = unmoved) -> list[WriteReceipt]:
        """Rules on proposals and stores everything, in one transaction.

        Two writers of one workspace take turns. A proposal that is there already gets
        its first receipt again and is not ruled on (``rejected``, ``tombstoned`` when its
        record was forgotten since). Receipts stand in the proposals' order.

        An attached proposal is evidence for its record, a rejected one that names a record
        it is against is evidence against that; their confidence follows.
        """
        ...

    def observe(
        self, evidence: Evidence, batch: Batch, rule: Rule, weigh: Weigh = unmoved
    ) -> Observed:
        """Adds evidence to a record and settles what it gives rise to, in one transaction.

        Evidence that is there already changes nothing. The record's confidence follows the
        evidence before the batch is ruled on; the batch's proposals are narrower beliefs,
        for which the same observation is evidence in favour.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: it is not active.
        """
        ...

    def evidence(self, workspace_id: str, record_id: str) -> list[Evidence]:
        """All evidence for and against a record, oldest first."""
        ...

    def set_pinned(
        self, workspace_id: str, record_id: str, *, pinned: bool, weigh: Weigh = unmoved
    ) -> MemoryRecord:
        """Freezes a record's confidence, or lets it follow all of its evidence again.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: it is not active.
        """
        ...

    def forget(self, workspace_id: str, record_id: str, reason: str, now: datetime) -> MemoryRecord:
        """Leaves a tombstone; erases content wherever the ledger holds it.

        That is: the record, its lexical entry, its proposals' text, the turns it was
        taken from, the text of retrievals and decisions that show it, and the texts
        indexed around other records. Calling it again changes nothing.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        ...

    def set_status(
        self, workspace_id: str, record_id: str, status: str, now: datetime
    ) -> MemoryRecord:
        """Retires (``evicted``) or revives (``active``) a record.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        ...

    # -- the outbox
    def outbox(self, limit: int) -> list[MemoryRecord]:
        """Records the index must take (active, not indexed) or drop (forgotten, indexed)."""
        ...

    def backlog(self) -> int:
        """How many records are in the outbox, of all workspaces; asked often."""
        ...

    def indexed(
        self,
        workspace_id: str,
        record_ids: Sequence[str],
        now: datetime,
        cut_short: Sequence[str] = (),
    ) -> None:
        """The index holds these now; of ``cut_short`` the vector misses the end."""
        ...

    def unindexed(self, workspace_id: str, record_ids: Sequence[str]) -> None:
        """The index holds these no longer."""
        ...

    def unindex_all(self) -> int:
        """Puts every active record back into the outbox; returns how many."""
        ...

    # -- retrieval
    def state(self, workspace_id: str) -> WorkspaceState:
        """Returns zeros for a workspace that has no records."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """Everything that this thread reads inside is of one moment; nothing is written."""
        ...

    def pending(self, workspace_id: str) -> int:
        """How many active records the vector index does not hold yet."""
        ...

    def directory(self, workspace_id: str, since: int) -> list[Entry]:
        """Every record whose state changed after ``since``, retired ones included."""
        ...

    def records(self, workspace_id: str, record_ids: Iterable[str]) -> dict[str, MemoryRecord]:
        """The records that are there, whatever their status."""
        ...

    def count(self, selection: Selection) -> int:
        """How many active records are selected."""
        ...

    def lexical(self, selection: Selection, query: str, limit: int) -> list[tuple[str, float]]:
        """Full-text search; nothing in the query is syntax.

        Returns:
            (record id, score), best first. A score is the share of the query's words found
            in content or surroundings, rare words counting more: above 0, about 1 at most.
        """
        ...

    def standing(self, selection: Selection, limit: int) -> list[str]:
        """Ids of the selected records in the order in which they should be shown.

        Most specific scope first, then pinned, then by confidence, then the newest.
        """
        ...

    def claims(self, selection: Selection, fields: Sequence[str]) -> list[MemoryRecord]:
        """The selected records that claim any of these fields, those that count most first.

        The order is that of ``claims.precedence``.
        """
        ...

    def save_retrieval(self, retrieval: Retrieval, arm: str, attempt: int) -> None:
        """Keeps a retrieval, and a row for each injected candidate."""
        ...

    def retrieval(self, workspace_id: str, retrieval_id: str) -> Retrieval | None:
        """One retrieval, as it was."""
        ...

    # -- use, outcome
    def save_decision(self, decision: Decision[Any], arm: str, attempt: int) -> None:
        """Keeps a decision."""
        ...

    def decision(self, workspace_id: str, decision_id: str) -> Decision[Any] | None:
        """One decision; its answer is plain JSON."""
        ...

    def save_outcome(self, outcome: Outcome, span: SpanRef | None) -> None:
        """Keeps an attempt's outcome; reporting the attempt again replaces it."""
        ...

    # -- diagnosis
    def tasks(self, workspace_id: str) -> list[str]:
        """Task ids of a workspace, the latest first."""
        ...

    def workspaces_of_task(self, task_id: str) -> list[str]:
        """Workspaces in which a task of this id left a row."""
        ...

    def workspaces_of_decision(self, decision_id: str) -> list[str]:
        """Workspaces that have a decision of this id."""
        ...

    def task_rows(self, workspace_id: str, task_id: str) -> TaskRows:
        """Everything the task's hops wrote."""
        ...

    def row_spans(self, workspace_id: str, task_id: str) -> list[RowSpan]:
        """In which spans the task's other rows were written, oldest first."""
        ...

    def proposals_of(self, workspace_id: str, record_ids: Iterable[str]) -> list[StoredProposal]:
        """Proposals that made, or were attached to, these records, oldest first."""
        ...

    def proposals_of_turn(self, workspace_id: str, turn_id: str) -> list[StoredProposal]:
        """Proposals taken from a turn, oldest first."""
        ...

    def find_records(
        self, workspace_id: str, words: Sequence[str], limit: int
    ) -> list[MemoryRecord]:
        """Records of any status whose content contains any of the words, newest first."""
        ...

    def find_claims(
        self, workspace_id: str, fields: Sequence[str], limit: int
    ) -> list[MemoryRecord]:
        """Records of any status that claim exactly these fields, newest first."""
        ...

    def find_proposals(
        self, workspace_id: str, words: Sequence[str], limit: int
    ) -> list[StoredProposal]:
        """Proposals whose content or quote contains any of the words, newest first.

        Failed extractions count by the text of their turns.
        """
        ...

    def turn(self, workspace_id: str, turn_id: str) -> Turn | None:
        """One turn."""
        ...

    def find_turns(self, workspace_id: str, words: Sequence[str], limit: int) -> list[Turn]:
        """Turns whose text contains any of the words, newest first."""
        ...

    def turns_kept(self, workspace_id: str, task_id: str | None) -> bool:
        """Whether any turn with its text is there to be looked at."""
        ...

    # -- operations
    def prune(self, before: datetime, workspace_id: str | None = None) -> dict[str, int]:
        """Drops turns, retrievals (with injections) and decisions older than a time.

        Records stay. Returns how many rows of each table went.
        """
        ...

    def statistics(self) -> Json:
        """Counts for ``doctor``: rows of each table, outbox, workspaces, schema version."""
        ...


AROUND = ".around"
"""Ends the key of the vector of the text around a record."""


class VectorIndex(Protocol):
    """The vectors, disposable. Which ids count is the ledger's to say.

    A key is a record's id, or ``{id}.around`` for the text around it. Every method is
    safe in threads and raises ``StoreError``.
    """

    def upsert(self, workspace_id: str, keys: Sequence[str], vectors: Vectors) -> None:
        """Stores vectors, replacing those under the same keys."""
        ...

    def delete(self, workspace_id: str, keys: Sequence[str]) -> None:
        """Removes vectors; unknown keys are no error."""
        ...

    def fetch(self, workspace_id: str, keys: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors under these keys; unknown keys are absent."""
        ...

    def promoted(self, workspace_id: str) -> bool:
        """Whether the workspace has an approximate index of its own, whole and not worn."""
        ...

    def promote(self, workspace_id: str, keys: Callable[[], Sequence[str]]) -> None:
        """Gives a workspace its own approximate index, from its keys' vectors.

        Does nothing where ``promoted`` is true; starts again where it was interrupted.

        Args:
            workspace_id: The workspace.
            keys: Asked once, after the new index has begun to take writes, so that what
                is written while it is built is in it too.
        """
        ...

    def nearest(
        self, workspace_id: str, vector: NDArray[np.float32], n: int
    ) -> list[tuple[str, float]]:
        """The n keys nearest to a vector in a promoted workspace, best first: (key, cosine)."""
        ...

    def clear(self) -> None:
        """Removes everything (``reindex``)."""
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...
