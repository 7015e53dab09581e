"""How attempts ended, which shown records were followed, and what that earns a record."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from memplugin.records.base import Noun


@dataclass(frozen=True, slots=True)
class Outcome(Noun):
    """How one attempt at a task ended.

    Attributes:
        value: What it is worth, by the table in ``LearnConfig.grades``.
        action: What the agent did, in its own text.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    attempt: int
    succeeded: bool
    value: float
    confidence: float
    failure_mode: str | None
    action: str | None
    arm: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Shown:
    """A record that was shown in an attempt, beside what the agent then did.

    Attributes:
        number: Of the row.
        action: What the agent did, in its own text.
        followed: What the judge has said; None when it gave no answer.
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


@dataclass(frozen=True, slots=True)
class Credited(Noun):
    """What a record has earned, over the reported attempts in which it was shown.

    Attributes:
        attempts: How many.
        credited: Sum of value times confidence times weight.
    """

    attempts: int
    credited: float


@dataclass(frozen=True, slots=True)
class CreditTotals(Noun):
    """What is known of one record over the reported attempts in which it was shown.

    Whether it was followed is what a judge or a cosine says: a sign, and no proof that it
    caused anything.

    Attributes:
        attempts: In how many it was shown.
        successes: How many of them passed.
        outcome: Sum of value * confidence.
        credited: Sum of value * confidence * weight.
        judged: Attempts of which the judge has said whether it was followed.
        followed: In how many of these it was.
        compared: Attempts with a cosine and no answer of the judge.
        close: In how many of these the cosine says that it was followed.
    """

    attempts: int
    successes: int
    outcome: float
    credited: float
    judged: int
    followed: int
    judged_successes: int
    followed_successes: int
    compared: int
    close: int
    compared_successes: int
    close_successes: int

    @property
    def successes_known(self) -> tuple[int, int]:
        """Successes of which is known whether it was followed, and those in which it was.

        By the judge where it answered, else by the cosine.
        """
        if self.judged_successes:
            return self.judged_successes, self.followed_successes
        return self.compared_successes, self.close_successes


@dataclass(frozen=True, slots=True)
class LearnReport(Noun):
    """What one run of ``learn`` did.

    Attributes:
        found: Rows that were not scored, of attempts with an action.
        judged: Rows the judge has judged.
        followed: Those of them that it found followed.
        compared: Rows that got a cosine.
        failed: Rows of which something failed; the next run tries them again.
        left: Rows that this run did not come to (``limit``, or it was stopped).
        without_action: Unscored rows of attempts whose action was not reported.
        cut_short: Distinct actions longer than the embedding model reads.
        judge: Version of the judge's prompt; None without a judge.
        stopped: Why the run ended early: the judge could not be reached.
    """

    found: int
    judged: int
    followed: int
    compared: int
    failed: int
    left: int
    without_action: int
    cut_short: int
    judge: str | None = None
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Eviction(Noun):
    """A record that credit says should go.

    Attributes:
        reason: ``negative_utility`` or ``rarely_followed``.
        utility: Its mean, shrunk towards the prior.
        done: Whether it was retired; False in a dry run.
    """

    record_id: str
    content: str
    kind: str
    reason: str
    utility: float
    totals: CreditTotals
    done: bool = False
