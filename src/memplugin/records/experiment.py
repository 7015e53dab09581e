"""The results of running a stored decision again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from memplugin.records.base import Json, Noun


@dataclass(frozen=True, slots=True)
class Answered(Noun):
    """An answer, and how many runs gave it; None stands for a reply that decided nothing."""

    answer: Json | None
    runs: int


@dataclass(frozen=True, slots=True)
class Runs(Noun):
    """One side of a counterfactual: the same messages, sent again and again.

    Attributes:
        answers: The different ones, the most frequent first.
        usual: How many runs gave the answer that is usual over both sides.
        failed: Calls that came to no reply at all; they count for nothing.
    """

    answers: tuple[Answered, ...]
    usual: int
    failed: int = 0

    @property
    def total(self) -> int:
        """How many runs there are."""
        return sum(answered.runs for answered in self.answers)

    @property
    def variation(self) -> float:
        """How often this side varies by itself: share of runs off its own usual answer."""
        return 1 - self.answers[0].runs / self.total if self.answers else 0.0


Bearing = Literal["load_bearing", "not", "uncertain"]


@dataclass(frozen=True, slots=True)
class Counterfactual(Noun):
    """What leaving one record out of a stored decision does to its answer.

    Attributes:
        verdict: ``load_bearing``: the answers differ by more than chance. ``not``: a change
            would have been seen, and one of half the answers or more is ruled out. Else
            ``uncertain``.
        flip: Whether most runs without it answer otherwise than is usual with it.
        p_value: Of an exact test; None when the model is deterministic.
        detectable: The smallest change in the share of usual answers that this many runs
            would show with a probability of 0.8; None when even a complete one might not.
        deterministic: Whether the model was said to be and every repeat agreed, so that
            few runs were made.
        cited: Whether the stored decision cites the record.
        model: As the provider reported it.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    decision_id: str
    record_id: str
    verdict: Bearing
    flip: bool
    p_value: float | None
    detectable: float | None
    deterministic: bool
    with_record: Runs
    without_record: Runs
    cited: bool
    model: str | None
    created_at: datetime
