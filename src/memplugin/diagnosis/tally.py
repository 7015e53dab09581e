"""Counting verdicts: which stage fails, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from memplugin.records import Noun, Stage, Verdict

STAGES: tuple[Stage, ...] = ("write", "retrieval", "use", "none", "undetermined")
"""In the order in which a memory passes them; those that blame nothing last."""


@dataclass(frozen=True, slots=True)
class Tally(Noun):
    """How many tasks ended with one verdict."""

    stage: Stage
    cause: str
    tasks: int


def tally(verdicts: Iterable[Verdict]) -> list[Tally]:
    """Counts verdicts, each task once: by stage, and the most frequent cause first."""
    counts = Counter((v.stage, v.cause) for v in verdicts)
    counted = [
        Tally(stage, cause, tasks)
        for stage in STAGES
        for (of, cause), tasks in counts.items()
        if of == stage
    ]
    return sorted(counted, key=lambda t: (STAGES.index(t.stage), -t.tasks, t.cause))
