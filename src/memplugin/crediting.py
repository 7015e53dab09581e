"""The part of the ledger that learning works with: who was shown, followed and credited."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from memplugin.learn_config import CreditWeights
from memplugin.records import Credited, CreditTotals, Noun


@dataclass(frozen=True, slots=True)
class Shown:
    """A record that was shown in an attempt, beside what the agent then did.

    Attributes:
        number: Of the row.
        action: What the agent did, in its own text.
        followed: What a judge has said; None when none has.
        cosine: Of content and action; None when it was not computed.
    """

    number: int
    workspace_id: str
    task_id: str
    arm: str
    attempt: int
    record_id: str
    kind: str
    content: str
    action: str
    followed: bool | None
    cosine: float | None


@dataclass(frozen=True, slots=True)
class Score:
    """What came of scoring a row; None leaves what is there.

    Attributes:
        judge: Version of the judge's prompt.
        error: What failed; None clears what failed before.
    """

    shown: Shown
    followed: bool | None = None
    reasoning: str | None = None
    judge: str | None = None
    cosine: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Disagreement(Noun):
    """A row on which the judge and the cosine are far apart."""

    record_id: str
    content: str
    task_id: str
    attempt: int
    followed: bool
    cosine: float
    reasoning: str | None


@dataclass(frozen=True, slots=True)
class Followed:
    """A scored record that was shown to a decision."""

    decision_id: str
    record_id: str
    followed: bool | None
    cosine: float | None

    @property
    def key(self) -> tuple[str, str]:
        """The record in the decision."""
        return self.decision_id, self.record_id


class Crediting(Protocol):
    """Rows of injected candidates, joined with the attempts they were shown in.

    The two are joined by workspace, task, arm and attempt, whichever was written first.
    """

    def unscored(self, workspace_id: str | None, *, judge: bool) -> list[int]:
        """Numbers of the rows that want a score, those that failed before at the end.

        Args:
            workspace_id: None for all.
            judge: Whether rows without a judge's word count, or only those without a cosine.
        """
        ...

    def without_action(self, workspace_id: str | None) -> int:
        """How many rows can't be scored, since their attempt was reported without its action."""
        ...

    def shown(self, numbers: Sequence[int]) -> list[Shown]:
        """The rows of these numbers, in their order; rows that are gone since are left out."""
        ...

    def save_scores(self, scores: Sequence[Score], now: datetime) -> None:
        """Keeps scores in one transaction.

        A row whose attempt was reported with another action since is left alone.
        """
        ...

    def credit(
        self, workspace_id: str, record_ids: Iterable[str], weights: CreditWeights
    ) -> dict[str, Credited]:
        """What a ranking needs to know of records, in one query however long the history.

        Args:
            workspace_id: The workspace.
            record_ids: The candidates.
            weights: Who gets how much of an outcome.

        Returns:
            A record that was shown in no reported attempt is absent.
        """
        ...

    def credit_totals(self, workspace_id: str, weights: CreditWeights) -> dict[str, CreditTotals]:
        """Everything that is known of each record of a workspace that was shown."""
        ...

    def ever_shown(self, workspace_id: str) -> frozenset[str]:
        """Ids of the records that were shown at least once."""
        ...

    def disagreements(self, workspace_id: str, gap: float, limit: int) -> list[Disagreement]:
        """Rows whose judgement (1 or 0) and cosine are at least so far apart, widest first."""
        ...

    def followed(self, workspace_id: str) -> list[Followed]:
        """Scored records that were shown to a decision that is kept, each once, oldest first."""
        ...
