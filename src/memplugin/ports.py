"""Protocols: what pure code needs from outside. Each has one conformance suite in ``tests/``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from memplugin.config import KeepTurns, MemoryContext
from memplugin.records import (
    Belief,
    Evidence,
    Known,
    MemoryRecord,
    Proposal,
    Ruling,
    SpanRef,
    StoredProposal,
    TaskRows,
    Turn,
)

Vectors = NDArray[np.float32]
"""Rows of length 1, shape (n, dimension)."""

IdFactory = Callable[[str], str]
"""Given a prefix (``r`` for a retrieval), returns a new id (``r_…``)."""


class Clock(Protocol):
    """Where times come from."""

    def now(self) -> datetime:
        """The time now, with a time zone."""
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


Rule = Callable[[Proposal, Known], Ruling]
"""The gate, as the ledger sees it."""


Weigh = Callable[[Belief, Sequence[Evidence]], float]
"""Confidence from a seed and the whole set of evidence, as the ledger sees it."""


def unmoved(belief: Belief, evidence: Sequence[Evidence]) -> float:
    """A ``Weigh`` for where confidence is of no concern: the seed's, whatever the evidence."""
    return belief.confidence if belief.pinned_at is None else belief.pinned_at


@dataclass(frozen=True, slots=True)
class Batch:
    """One write, to be ruled on and stored in one transaction.

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


class RecordReader(Protocol):
    """Records by id."""

    def get_many(self, workspace_id: str, record_ids: Iterable[str]) -> dict[str, MemoryRecord]:
        """The records that are there, whatever their status."""
        ...


class HistoryReader(Protocol):
    """What tasks left behind, and searches among rows of every status."""

    def task_rows(self, workspace_id: str, task_id: str) -> TaskRows:
        """Everything the task's hops wrote."""
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
        """Records of any status whose content contains any of the words, newest first.

        Args:
            workspace_id: The workspace, compared by equality.
            words: Looked for anywhere in the text, whatever their case.
            limit: How many to return at most.

        Returns:
            The records, newest first.
        """
        ...

    def find_claims(
        self, workspace_id: str, fields: Sequence[str], limit: int
    ) -> list[MemoryRecord]:
        """Records of any status that claim exactly these fields, newest first.

        Args:
            workspace_id: The workspace, compared by equality.
            fields: Names of the claim's fields.
            limit: How many to return at most.

        Returns:
            The records, newest first.
        """
        ...

    def find_proposals(
        self, workspace_id: str, words: Sequence[str], limit: int
    ) -> list[StoredProposal]:
        """Proposals whose content or quote contains any of the words, newest first.

        Failed extractions count by the text of their turns.

        Args:
            workspace_id: The workspace, compared by equality.
            words: Looked for anywhere in the text, whatever their case.
            limit: How many to return at most.

        Returns:
            The proposals, newest first.
        """
        ...

    def turn(self, workspace_id: str, turn_id: str) -> Turn | None:
        """One turn."""
        ...

    def find_turns(self, workspace_id: str, words: Sequence[str], limit: int) -> list[Turn]:
        """Turns whose text contains any of the words, newest first.

        Args:
            workspace_id: The workspace, compared by equality.
            words: Looked for anywhere in the text, whatever their case.
            limit: How many to return at most.

        Returns:
            The turns, newest first.
        """
        ...

    def turns_kept(self, workspace_id: str, task_id: str | None) -> bool:
        """Whether any turn with its text is there to be looked at."""
        ...

    def tasks(self, workspace_id: str) -> list[str]:
        """Task ids of a workspace, the latest first."""
        ...


class LedgerReader(Protocol):
    """The part of the ledger that diagnosis reads."""

    @property
    def records(self) -> RecordReader:
        """Records by id."""
        ...

    @property
    def history(self) -> HistoryReader:
        """What tasks left behind."""
        ...


AROUND = ".around"
"""Ends the key of the vector of the text around a record."""


class VectorIndex(Protocol):
    """The vectors, which can be made again. The ledger says which ids count.

    A key is a record's id, or ``{id}.around`` for the text around it. Every method is
    safe in threads and raises ``StoreError``.
    """

    def upsert(self, workspace_id: str, keys: Sequence[str], vectors: Vectors) -> None:
        """Stores vectors, replacing those under the same keys.

        Args:
            workspace_id: The workspace, compared by equality.
            keys: One for each vector.
            vectors: Rows of length 1, shape (n, dimension).
        """
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
        """The n keys nearest to a vector in a promoted workspace, best first: (key, cosine).

        Args:
            workspace_id: The workspace, compared by equality.
            vector: Of length 1, shape (dimension,).
            n: How many to name at most.

        Returns:
            (key, cosine), best first.
        """
        ...

    def clear(self) -> None:
        """Removes everything (``reindex``)."""
        ...

    def close(self) -> None:
        """Gives back what it holds."""
        ...
