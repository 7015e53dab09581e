"""What a task needed from memory, what was found out about the task, and by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from memplugin.records.base import Claim, Noun
from memplugin.records.decide import Decision
from memplugin.records.experiment import Counterfactual
from memplugin.records.learn import Outcome
from memplugin.records.retrieve import Retrieval
from memplugin.records.write import StoredProposal, Turn

Stage = Literal["write", "retrieval", "use", "none", "undetermined"]


@dataclass(frozen=True, slots=True)
class Need(Noun):
    """What should have been used.

    Attributes:
        record_ids: The records, when they are known.
        text: What the memory should say, when it is not.
        claim: Or the claim, ``{field: value}``.
        turn_id: The turn in which it was said, when that is known: any record taken from it
            will do that says ``text``, if there is one.
        should_use: False when the right behaviour was to leave it aside.
        corrected: True when a person said the answer was wrong, whatever was reported.
    """

    record_ids: tuple[str, ...] = ()
    text: str | None = None
    claim: Claim | None = None
    should_use: bool = True
    corrected: bool = False
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict(Noun):
    """Which stage failed, why, and how that is known.

    Attributes:
        evidence: Short sentences, each about one observation.
        next_step: What to do about it.
    """

    stage: Stage
    cause: str
    record_id: str | None = None
    rank: int | None = None
    evidence: tuple[str, ...] = ()
    next_step: str = ""
    task_id: str | None = field(default=None, kw_only=True)


MACHINE = "memplugin"
"""Who judged, where it was the attribution and no person."""


@dataclass(frozen=True, slots=True)
class Judgement(Noun):
    """What somebody says of one task: the attribution, or a person who has read it.

    Attributes:
        by: ``memplugin``, or who annotated it.
        cause: None where a person named the stage alone.
        should_use: Whether the memory should have been used at all, as a person sees it.
        need: What should have been used, as it was given to the attribution.
        note: A person's remark.
    """

    workspace_id: str
    task_id: str
    by: str
    stage: Stage
    at: datetime
    cause: str | None = None
    should_use: bool | None = None
    record_id: str | None = None
    rank: int | None = None
    evidence: tuple[str, ...] = ()
    need: Need | None = None
    note: str | None = None


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


@dataclass(frozen=True, slots=True)
class TaskRows:
    """Every row that one task's hops wrote, oldest first."""

    turns: Sequence[Turn]
    proposals: Sequence[StoredProposal]
    retrievals: Sequence[Retrieval]
    decisions: Sequence[Decision[Any]]
    outcomes: Sequence[Outcome]
    counterfactuals: Sequence[Counterfactual] = ()
