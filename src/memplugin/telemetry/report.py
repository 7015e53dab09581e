"""What each hop says on its span, from the hop's own result."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from memplugin.records import (
    Candidate,
    Decision,
    Json,
    Outcome,
    Proposal,
    Retrieval,
    Verdict,
    WriteReceipt,
)
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy


def written(
    proposals: Sequence[Proposal],
    receipts: Sequence[WriteReceipt],
    *,
    extractor: str | None = None,
    indexed_at: datetime | None = None,
) -> Json:
    """Attributes of a write: a count for each ruling and parallel arrays."""
    counts = Counter(receipt.ruling for receipt in receipts)
    by_id = {proposal.id: proposal for proposal in proposals}
    shown = receipts[: names.MAX_CANDIDATES]
    when = indexed_at.isoformat() if indexed_at else ""
    return {
        **{key: counts.get(ruling, 0) for ruling, key in names.RULING_COUNTS.items()},
        names.RECORD_COUNT: counts["accepted"] + counts["superseded"],
        names.EXTRACTOR: extractor,
        names.PROPOSAL_IDS: [r.proposal_id for r in shown],
        names.RECORD_IDS: [r.record_id or "" for r in shown],
        names.RULINGS: [r.ruling for r in shown],
        names.REASONS: [_first_word(r.reason) for r in shown],
        names.KINDS: [by_id[r.proposal_id].kind if r.proposal_id in by_id else "" for r in shown],
        names.CONFIDENCES: [
            by_id[r.proposal_id].confidence if r.proposal_id in by_id else 0.0 for r in shown
        ],
        names.INDEXED_AT: [when if r.indexed else "" for r in shown],
    }


def searched(retrieval: Retrieval, content: ContentPolicy) -> Json:
    """Attributes of a recall: parallel arrays in rank order, at most 50 long."""
    shown = retrieval.candidates[: names.MAX_CANDIDATES]
    return {
        names.RETRIEVAL_ID: retrieval.id,
        names.POLICY: retrieval.policy,
        names.TOP_K: retrieval.k,
        names.QUERY_TEXT: content.shown(retrieval.query),
        names.FILTERS: json.dumps(_shown_filters(retrieval.filters, content)),
        names.TOTAL: retrieval.total,
        names.SHOWN: retrieval.shown,
        names.RECORD_COUNT: retrieval.shown,
        names.PENDING: retrieval.pending_index,
        names.STALE: retrieval.stale_dropped,
        names.DEGRADED: [_first_word(reason) for reason in retrieval.degraded] or None,
        names.CANDIDATE_COUNT: len(retrieval.candidates),
        names.CANDIDATE_IDS: [c.record_id for c in shown],
        names.CANDIDATE_SCORES: [c.score for c in shown],
        names.CANDIDATE_SOURCES: ["+".join(c.sources) for c in shown],
        names.CANDIDATE_INJECTED: [c.injected for c in shown],
        names.CANDIDATE_CUTS: [c.cut or "" for c in shown],
    }


def candidate_events(retrieval: Retrieval) -> Iterator[Json]:
    """Attributes of one event for each of the first candidates; people read these."""
    for candidate in retrieval.candidates[: names.MAX_EVENTS]:
        yield _candidate_event(candidate)


def _candidate_event(candidate: Candidate) -> Json:
    return {
        names.RECORD_ID: candidate.record_id,
        names.CANDIDATE_RANK: candidate.rank,
        names.CANDIDATE_SCORE: candidate.score,
        names.CANDIDATE_SHOWN: candidate.injected,
    }


def decided(decision: Decision[Any]) -> Json:
    """Attributes of a decision."""
    support = decision.chosen_support
    usage = decision.usage or {}
    return {
        names.DECISION_ID: decision.id,
        names.DECISION_STATUS: decision.status,
        names.DECISION_FLAGS: list(decision.flags),
        names.ORDER_PRESERVED: decision.order_preserved,
        names.RETRIEVAL_ID: decision.retrieval_id,
        names.CITED_IDS: list(decision.cited_record_ids),
        names.SUPPORT_ID: support.id if support else None,
        names.SUPPORT_RANK: support.rank if support else None,
        names.SUPPORT_SCORE: support.score if support else None,
        names.SUPPORT_SHOWN: support.shown if support else None,
        names.TOTAL: decision.memory_total,
        names.SHOWN: decision.memory_shown,
        names.REQUEST_MODEL: decision.model,
        names.INPUT_TOKENS: usage.get("input_tokens"),
        names.OUTPUT_TOKENS: usage.get("output_tokens"),
    }


def reported(outcome: Outcome) -> Json:
    """Attributes of an attempt's outcome."""
    return {
        names.OUTCOME_VALUE: outcome.value,
        names.OUTCOME_CONFIDENCE: outcome.confidence,
        names.OUTCOME_ATTEMPT: outcome.attempt,
        names.FAILURE_MODE: outcome.failure_mode,
        names.TASK_SUCCESS: outcome.succeeded,
    }


def finished(success: bool | None, verdict: Verdict | None) -> Json:  # noqa: FBT001 -- a value, not a switch
    """Attributes of a finished task."""
    return {
        names.TASK_SUCCESS: success,
        names.VERDICT_STAGE: verdict.stage if verdict else None,
        names.VERDICT_CAUSE: verdict.cause if verdict else None,
        names.VERDICT_RECORD: verdict.record_id if verdict else None,
        names.VERDICT_RANK: verdict.rank if verdict else None,
    }


def _first_word(reason: str | None) -> str:
    # What follows the colon may quote a text.
    return (reason or "").partition(":")[0]


def _shown_filters(filters: Json, content: ContentPolicy) -> Json:
    scope = {key: content.shown(str(value)) for key, value in filters.get("scope", {}).items()}
    return {**filters, "scope": scope}
