"""Our nouns as attributes of spans.

One function for each kind of span. Values of more than one text stand in an attribute as
JSON that is never cut in the middle.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic_core import to_jsonable_python

from memplugin.claims import contradicted_ids
from memplugin.records import (
    Candidate,
    Counterfactual,
    Decision,
    Evidence,
    Json,
    MemoryRecord,
    Outcome,
    Override,
    Proposal,
    Retrieval,
    Verdict,
    WriteReceipt,
)
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy
from memplugin.telemetry.names import MAX_STRING_BYTES, MAX_TEXTS_BYTES

_dumped = json.JSONEncoder(separators=(",", ":")).encode  # ASCII: a character is a byte


def shown_fields(fields: Mapping[str, Any], content: ContentPolicy) -> dict[str, Any]:
    """Fields with their values as the content mode has them; None stands for a value left out."""
    if content.mode == "full":
        return dict(fields)
    # A model makes up keys, too.
    return {content.label(key) or "": content.shown(str(value)) for key, value in fields.items()}


def fields_json(fields: Mapping[str, Any], content: ContentPolicy) -> str:
    """The same as one JSON text; the values go, and then the keys, when it gets too long."""
    shown = shown_fields(fields, content)
    return whole_json(shown) or whole_json(dict.fromkeys(shown)) or ""


def whole_json(value: Any) -> str | None:
    """A JSON text that fits into an attribute; None when it is too long."""
    text = _dumped(value)
    return text if len(text) <= MAX_STRING_BYTES else None


def texts_that_fit(texts: Sequence[str], content: ContentPolicy) -> list[str] | None:
    """The first texts, with empty ones for the rest, where the content mode shows any.

    A batch of spans that is too large is lost whole, so all texts of a span together have
    a limit too. A keyed hash says nothing that the record's id does not say.
    """
    if content.mode not in ("truncate", "full"):
        return None
    left = MAX_TEXTS_BYTES
    shown: list[str] = []
    for text in texts:
        one = content.shown(text) or ""
        left -= len(one.encode())
        shown.append(one if left >= 0 else "")
    return shown


def whole_list(items: Sequence[Any]) -> str:
    """The first items, as many as fit into an attribute, as a JSON array."""
    shown = ""
    for item in items:
        longer = f"{shown},{_dumped(item)}" if shown else _dumped(item)
        if len(longer) + 2 > MAX_STRING_BYTES:
            break
        shown = longer
    return f"[{shown}]"


def written(
    proposals: Sequence[Proposal],
    receipts: Sequence[WriteReceipt],
    content: ContentPolicy,
    *,
    at: datetime,
    turns: int | None = None,
    extractor: str | None = None,
    indexed_at: datetime | None = None,
) -> Json:
    """Attributes of a write: a count for each ruling and parallel arrays, at most 50 long.

    Args:
        proposals: What was proposed; none for what was read before.
        receipts: What became of each.
        content: How texts are shown.
        at: When, by the store's clock.
        turns: How many turns were read for the first time; None for a plain write.
        extractor: Version of the extractor.
        indexed_at: When the index took the new records.

    Returns:
        Each attribute's name and value; None for one that is left out.
    """
    counts = Counter(receipt.ruling for receipt in receipts)
    shown = receipts[: names.MAX_CANDIDATES]
    records = {receipt.record_id for receipt in receipts if receipt.record_id}
    when = (indexed_at or at).isoformat()
    return {
        names.AT: at.isoformat(),
        **{key: counts.get(ruling, 0) for ruling, key in names.RULING_COUNTS.items()},
        names.RECORD_COUNT: counts["accepted"] + counts["superseded"],
        names.RECORD_ID: records.pop() if len(records) == 1 else None,
        names.EXTRACTOR: extractor,
        names.TURNS: turns,
        names.PROPOSAL_COUNT: len(receipts),
        names.PROPOSAL_IDS: [r.proposal_id for r in shown],
        names.RECORD_IDS: [r.record_id or "" for r in shown],
        names.REPLACED_IDS: [r.replaced_id or "" for r in shown],
        names.RULINGS: [r.ruling for r in shown],
        names.REASONS: [_reason(r.reason, content) for r in shown],
        names.INDEXED_AT: [when if r.indexed else "" for r in shown],
        **_proposed(proposals, shown, content),
    }


def believed(record: MemoryRecord, seen: Evidence | None = None) -> Json:
    """Attributes of a record that was observed, pinned or unpinned, beside those of a write."""
    return {
        names.RECORD_ID: record.id,
        names.OBSERVED_SUPPORTS: seen.supports if seen else None,
        names.OBSERVED_WEIGHT: seen.amount if seen else None,
        names.BELIEF_CONFIDENCE: record.confidence,
        names.BELIEF_EVIDENCE: record.evidence_count,
        names.BELIEF_PINNED: record.pinned,
    }


def _proposed(
    proposals: Sequence[Proposal], receipts: Sequence[WriteReceipt], content: ContentPolicy
) -> Json:
    by_id = {proposal.id: proposal for proposal in proposals}
    known = [by_id.get(receipt.proposal_id) for receipt in receipts]
    return {
        names.KINDS: [content.label(p.kind) or "" if p else "" for p in known],
        names.CONFIDENCES: [p.confidence if p else 0.0 for p in known],
        names.SCOPES: [fields_json(p.scope, content) if p else "" for p in known],
        names.CLAIMS: [fields_json(p.claim, content) if p and p.claim else "" for p in known],
        names.CONTENTS: texts_that_fit([p.content if p else "" for p in known], content),
        names.RECORDS: _records(
            [
                {"id": receipt.record_id, "content": proposal.content}
                for receipt, proposal in zip(receipts, known, strict=True)
                if proposal and receipt.ruling in ("accepted", "superseded")
            ],
            content,
        ),
    }


def searched(retrieval: Retrieval, content: ContentPolicy) -> Json:
    """Attributes of a recall: parallel arrays in rank order, at most 50 long."""
    return {
        names.AT: retrieval.created_at.isoformat(),
        names.RETRIEVAL_ID: retrieval.id,
        names.POLICY: retrieval.policy,
        names.TOP_K: retrieval.k,
        names.QUERY_TEXT: content.shown(retrieval.query),
        names.FILTERS: _filters(retrieval.filters, content),
        names.TOTAL: retrieval.total,
        names.SHOWN: retrieval.shown,
        names.RECORD_COUNT: retrieval.shown,
        names.PENDING: retrieval.pending_index,
        names.STALE: retrieval.stale_dropped,
        names.DEGRADED: [_first_word(reason) for reason in retrieval.degraded] or None,
        names.CANDIDATE_COUNT: len(retrieval.candidates),
        **_candidates(_that_matter(retrieval.candidates), content),
        names.RECORDS: _records(
            [
                {"id": c.record_id, "content": c.content, "score": c.score}
                for c in retrieval.injected
            ],
            content,
        ),
    }


def _candidates(candidates: Sequence[Candidate], content: ContentPolicy) -> Json:
    return {
        names.CANDIDATE_IDS: [c.record_id for c in candidates],
        names.CANDIDATE_RANKS: [c.rank for c in candidates],
        names.CANDIDATE_SCORES: [c.score for c in candidates],
        names.CANDIDATE_PARTS: [whole_json(dict(c.parts)) or "" for c in candidates],
        names.CANDIDATE_SOURCES: ["+".join(c.sources) for c in candidates],
        names.CANDIDATE_INJECTED: [c.injected for c in candidates],
        names.CANDIDATE_CUTS: [c.cut or "" for c in candidates],
        names.CANDIDATE_WRITTEN_BY: [c.traceparent or "" for c in candidates],
        names.CANDIDATE_CONTENTS: texts_that_fit([c.content for c in candidates], content),
    }


def _that_matter(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """The first 50; what was shown is among them however low it ranks."""
    first = sorted(candidates, key=lambda c: (not c.injected, c.rank))[: names.MAX_CANDIDATES]
    return sorted(first, key=lambda c: c.rank)


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


def decided(
    decision: Decision[Any], candidates: Sequence[Candidate], content: ContentPolicy
) -> Json:
    """Attributes of a decision.

    Args:
        decision: With the answer as the caller's model, or as JSON.
        candidates: Of the retrieval that fed it.
        content: How texts are shown.

    Returns:
        Each attribute's name and value; None for one that is left out.
    """
    answer: Json = to_jsonable_python(decision.answer) or {}
    support = decision.chosen_support
    usage = decision.usage or {}
    return {
        names.AT: decision.created_at.isoformat(),
        names.DECISION_ID: decision.id,
        names.DECISION_STATUS: decision.status,
        names.DECISION_FLAGS: list(decision.flags),
        names.ORDER_PRESERVED: decision.order_preserved,
        names.RETRIEVAL_ID: decision.retrieval_id,
        names.ANSWER: fields_json(answer, content) if answer else None,
        names.CITED_IDS: [content.record_id(cited) or "" for cited in decision.cited_record_ids],
        names.CONTRADICTED_IDS: list(contradicted_ids(candidates, answer)),
        names.OVERRIDE_IDS: list(dict.fromkeys(o.record_id for o in decision.overrides)) or None,
        names.OVERRIDES: _overrides(decision.overrides, content),
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


def _overrides(overrides: Sequence[Override], content: ContentPolicy) -> str | None:
    if not overrides:
        return None
    return whole_list([_override(override, content) for override in overrides])


def _override(override: Override, content: ContentPolicy) -> Json:
    if content.mode == "full":
        return override.to_json()
    return {
        **override.to_json(),
        "field": content.label(override.field),
        "answer": content.shown(str(override.answer)),
        "claimed": content.shown(str(override.claimed)),
        "scope": shown_fields(override.scope, content),
    }


def reported(outcome: Outcome, content: ContentPolicy) -> Json:
    """Attributes of an attempt's outcome."""
    return {
        names.AT: outcome.created_at.isoformat(),
        names.OUTCOME_VALUE: outcome.value,
        names.OUTCOME_CONFIDENCE: outcome.confidence,
        names.OUTCOME_ATTEMPT: outcome.attempt,
        names.FAILURE_MODE: content.label(outcome.failure_mode) if outcome.failure_mode else None,
        names.TASK_SUCCESS: outcome.succeeded,
    }


def finished(
    success: bool | None,  # noqa: FBT001 -- a value, not a switch
    verdict: Verdict | None,
    *,
    at: datetime,
) -> Json:
    """Attributes of a finished task.

    Args:
        success: How its last attempt ended; None when nothing was reported.
        verdict: The verdict on it, if one was given.
        at: When it ended, by the store's clock.

    Returns:
        Each attribute's name and value; None for one that is left out.
    """
    return {
        names.AT: at.isoformat(),
        names.TASK_SUCCESS: success,
        names.VERDICT_STAGE: verdict.stage if verdict else None,
        names.VERDICT_CAUSE: verdict.cause if verdict else None,
        names.VERDICT_RECORD: verdict.record_id if verdict else None,
        names.VERDICT_RANK: verdict.rank if verdict else None,
    }


NO_P_VALUE = -1.0
"""Stands in an array, which can't leave one out."""


def left_out(found: Sequence[Counterfactual], *, at: datetime) -> Json:
    """Attributes of counterfactuals of one decision, at most 50 of them."""
    shown = found[: names.MAX_CANDIDATES]
    return {
        names.AT: at.isoformat(),
        names.DECISION_ID: found[0].decision_id if found else None,
        names.LEFT_OUT_IDS: [one.record_id for one in shown],
        names.LEFT_OUT_VERDICTS: [one.verdict for one in shown],
        names.LEFT_OUT_P_VALUES: [
            NO_P_VALUE if one.p_value is None else one.p_value for one in shown
        ],
    }


def _reason(reason: str | None, content: ContentPolicy) -> str:
    if not reason or content.mode == "full":
        return reason or ""
    return content.label(_first_word(reason)) or ""


def _first_word(reason: str) -> str:
    # What follows the colon may quote a text.
    return reason.partition(":")[0]


def _filters(filters: Json, content: ContentPolicy) -> str:
    kinds = filters.get("kind")
    scope = shown_fields(filters.get("scope") or {}, content)
    shown = {
        **filters,
        "kind": [content.label(kind) or "" for kind in kinds] if kinds is not None else None,
        "scope": scope,
    }
    return whole_json(shown) or whole_json({**shown, "scope": dict.fromkeys(scope)}) or ""


def _records(records: Sequence[Json], content: ContentPolicy) -> str | None:
    """The standard's opt-in attribute: stored texts as they are."""
    return whole_list(records) if records and content.mode == "full" else None
