"""Selections, candidates and retrievals: what a recall asks for, ranks and shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from memplugin.records.base import Claim, Json, Noun, Scope, SpanRef

Cut = Literal["below_cutoff", "budget", "floor", "inapplicable_scope"]


@dataclass(frozen=True, slots=True)
class Candidate(Noun):
    """A record that a source brought, with everything its rank came from.

    Attributes:
        rank: 1 for the best. Candidates whose scope does not apply come last.
        score: Weighted sum of ``parts`` under the policy.
        parts: Name of each score part to its number before weighting.
        sources: Which of ``dense``, ``lexical``, ``standing``, ``structural`` brought it.
        cut: Why it was not injected; None when it was.
    """

    record_id: str
    content: str
    kind: str
    scope: Scope
    claim: Claim | None
    confidence: float
    pinned: bool
    occurred_at: datetime
    rank: int
    score: float
    parts: Mapping[str, float]
    sources: tuple[str, ...]
    injected: bool
    cut: Cut | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation(Noun):
    """Where one record stood for one retrieval.

    Attributes:
        rank: Exact rank among all applicable records, also beyond the depth searched;
            None when it was not in the race.
        excluded_by: ``kinds``, ``scope``, ``workspace``, ``status``, ``not_written_yet``
            or None; ``unknown`` when there are only spans to read and they do not tell.
        of: How many records were ranked.
    """

    record_id: str
    rank: int | None
    of: int
    excluded_by: str | None = None


@dataclass(frozen=True, slots=True)
class Retrieval(Noun):
    """One recall: the question, every candidate, and what was shown.

    Attributes:
        filters: ``workspace_id``, ``kind`` (list or None) and the request's ``scope``.
        policy: Name and version of the ranking policy, ``balanced@1``.
        candidates: All, in rank order.
        total: Active records of the workspace that the filters admit.
        shown: How many were injected.
        pending_index: Records of the workspace that the vector index does not hold yet.
        stale_dropped: Hits that the ledger no longer counts.
        degraded: Why a source did not answer (``dense: …``); empty when all did.
        text: The block to show a model.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    query: str
    filters: Json
    k: int
    policy: str
    candidates: tuple[Candidate, ...]
    total: int
    shown: int
    pending_index: int
    stale_dropped: int
    text: str
    created_at: datetime
    degraded: tuple[str, ...] = ()
    span: SpanRef | None = None

    @property
    def injected(self) -> tuple[Candidate, ...]:
        """The candidates that were shown, in rank order."""
        return tuple(c for c in self.candidates if c.injected)


@dataclass(frozen=True, slots=True)
class Resolved(Noun):
    """What memory says of one field for one request.

    Attributes:
        scope: Of the record it comes from: how specific the answer is.
    """

    field: str
    value: Any
    record_id: str
    scope: Scope
    confidence: float
    pinned: bool


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
class Entry:
    """One line of a workspace's directory: what search needs to know of a record.

    Attributes:
        seq: The workspace's number of the last change of the record's state.
        indexed: Whether the vector index holds it.
        has_around: Whether a text around it was stored.
        scope_key: Its scope as canonical JSON.
        number: Of its entry in the full-text index.
        content_length: In characters; so is ``around_length``.
    """

    record_id: str
    seq: int
    active: bool
    indexed: bool
    has_around: bool
    kind: str
    scope_key: str
    number: int
    content_length: int
    around_length: int


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
