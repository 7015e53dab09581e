"""What is doubtful about a decision, found without a model.

A flag is a function of one signature in ``FLAGS``; to add one, write it and append it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from memplugin.records import Json, Override, Retrieval, Support


@dataclass(frozen=True, slots=True)
class Evidence:
    """What flags are computed from.

    Attributes:
        answer: The answer's fields as JSON values, without its reasoning.
        cited: Ids that the model cited.
        reasoning_came_late: Whether a reasoning field stood after an answer's field in
            the raw reply.
        stale: Candidates that are no longer active when the decision is made.
        overrides: Where the answer goes, or went, against a claim.
        shown_again: Ids shown by the call that asked again.
    """

    answer: Json
    cited: Sequence[str]
    reasoning_came_late: bool
    retrieval: Retrieval | None
    support: Support | None
    stale: frozenset[str]
    overrides: Sequence[Override] = ()
    shown_again: Collection[str] = ()


Flag = Callable[[Evidence], str | None]


def unknown_citation(evidence: Evidence) -> str | None:
    """The model cited an id that it was not shown."""
    injected = evidence.retrieval.injected if evidence.retrieval else ()
    shown = {*(c.record_id for c in injected), *evidence.shown_again}
    return None if shown.issuperset(evidence.cited) else "unknown_citation"


def reasoning_after_answer(evidence: Evidence) -> str | None:
    """The reply gave an answer before its reasoning."""
    return "reasoning_after_answer" if evidence.reasoning_came_late else None


def memory_override(evidence: Evidence) -> str | None:
    """The model's answer names another value than a pinned or confident claim that applies."""
    return "memory_override" if evidence.overrides else None


def memory_enforced(evidence: Evidence) -> str | None:
    """A claimed value was put in place of the model's."""
    return "memory_enforced" if any(o.enforced for o in evidence.overrides) else None


def support_not_shown(evidence: Evidence) -> str | None:
    """The record that supports the answer was found and cut."""
    return "support_not_shown" if evidence.support and not evidence.support.shown else None


def stale_memory(evidence: Evidence) -> str | None:
    """A memory that was cited or supports the answer is no longer active."""
    used = {*evidence.cited, *([evidence.support.id] if evidence.support else [])}
    return "stale_memory" if used & evidence.stale else None


FLAGS: tuple[Flag, ...] = (
    memory_override,
    memory_enforced,
    unknown_citation,
    reasoning_after_answer,
    support_not_shown,
    stale_memory,
)


def flags_of(evidence: Evidence, flags: Sequence[Flag] = FLAGS) -> tuple[str, ...]:
    """The names of the flags that are up, in the order of the list."""
    return tuple(name for flag in flags if (name := flag(evidence)))
