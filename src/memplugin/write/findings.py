"""What a check of the gate can say of a proposal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memplugin.config import MemoryConfig
from memplugin.ports import Known
from memplugin.records import Proposal


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing to object to: the next check has its turn."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The proposal must not become a record.

    Attributes:
        reason: One word, or ``word: detail``.
        keep_text: False also takes the text out of the proposal that is kept.
        against: A known record that the proposal speaks against: evidence against it.
    """

    reason: str
    keep_text: bool = True
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Amend:
    """Go on with this proposal instead. Its id stays that of the original."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Attach:
    """The store knows this already: the proposal is evidence for that record."""

    record_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Supersede:
    """The proposal takes the place of that record."""

    record_id: str
    reason: str


Finding = Pass | Reject | Amend | Attach | Supersede

Check = Callable[[Proposal, Known, MemoryConfig], Finding]
"""One question asked of a proposal. It decides from what it is given, and does no I/O."""
