"""Evidence from spans: what they say about something that should have been used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from memplugin.diagnosis.evidence_search import FoundEvidence
from memplugin.diagnosis.need import carries, coverage, words_of
from memplugin.diagnosis.task_record import RetrievalEntry, TaskRecord, WriteEntry
from memplugin.diagnosis.writes_from_spans import TracedWrites, shows_texts
from memplugin.records import Explanation, Need, StoredProposal
from memplugin.telemetry import names
from memplugin.telemetry.readers.model import ReadSpan


def evidence_from_spans(spans: Iterable[ReadSpan], record: TaskRecord, need: Need) -> FoundEvidence:
    """Finds what spans say about a need: by ids in every content mode, by texts in ``full``.

    Args:
        spans: Spans of the task, and those that wrote what it recalled.
        record: The record of the task, from ``record_from_spans``.
        need: What should have been used.

    Returns:
        What was found; spans have no turns.
    """
    here = [span for span in spans if span.text(names.WORKSPACE_ID) == record.workspace_id]
    traced = TracedWrites.on(here)
    found = [_as_indexed(entry, record.retrieval) for entry in _found(traced, record, need)]
    return FoundEvidence(
        writes=tuple(found),
        rejected=tuple(_rejected(traced, need.text or "")),
        turns_kept=False,
        explanations=tuple(_explanations(found, record, here)),
        traced=True,
        texts_known=all(shows_texts(span) for span in here if span.name in _WITH_TEXTS),
    )


_WITH_TEXTS = (names.UPSERT.span_name, names.SEARCH.span_name)


def _found(traced: TracedWrites, record: TaskRecord, need: Need) -> list[WriteEntry]:
    if need.record_ids:
        known = (_of_record(traced, record, record_id) for record_id in need.record_ids)
        return [entry for entry in known if entry]
    named = dict.fromkeys(w.record_id for w in traced.writes.values() if w.record_id)
    stored = [entry for record_id in named if (entry := traced.of_record(record_id))]
    if need.claim:
        return [e for e in stored if dict(e.claim or {}) == dict(need.claim)]
    text = need.text or ""
    saying = [entry for entry in stored if entry.content and carries(text, entry.content)]
    return sorted(saying, key=lambda e: _best_first(e, text))[:1]


def _best_first(entry: WriteEntry, text: str) -> tuple[bool, float, str]:
    covered = coverage(words_of(text), entry.content or "")
    return entry.status != "active", -covered, entry.record_id or ""


def _of_record(traced: TracedWrites, record: TaskRecord, record_id: str) -> WriteEntry | None:
    """The write of a record; a candidate without one was stored and active all the same."""
    if entry := traced.of_record(record_id):
        return entry
    retrieval = record.retrieval
    candidates = retrieval.candidates if retrieval else ()
    candidate = next((c for c in candidates if c.record_id == record_id), None)
    if candidate is None or retrieval is None:
        return None
    return WriteEntry(
        session="",
        record_id=record_id,
        kind=None,
        content=candidate.content,
        gate="not_traced",
        reason=None,
        extractor_confidence=None,
        indexed_at=None,
        proposal_id="",
        written_at=retrieval.at,
        status="active",
    )


def _rejected(traced: TracedWrites, text: str) -> Iterator[StoredProposal]:
    for write in traced.writes.values():
        if write.ruling in ("rejected", "failed") and carries(text, write.content or ""):
            yield write.as_stored()


def _as_indexed(entry: WriteEntry, retrieval: RetrievalEntry | None) -> WriteEntry:
    """The write as indexed, where nothing waited for the index at the time of the recall."""
    if entry.indexed_at or retrieval is None or retrieval.pending_index:
        return entry
    return replace(entry, indexed_at=retrieval.at)


# ---------------------------------------------------------------- records that were no candidates


def _explanations(
    entries: Sequence[WriteEntry], record: TaskRecord, spans: Sequence[ReadSpan]
) -> Iterator[Explanation]:
    retrieval = record.retrieval
    if retrieval is None:
        return
    seen = {candidate.record_id for candidate in retrieval.candidates}
    complete = _has_every_candidate(retrieval, spans)
    for entry in entries:
        if entry.record_id and entry.record_id not in seen:
            excluded = _excluded_by(entry, retrieval, every_candidate=complete)
            yield Explanation(entry.record_id, None, retrieval.total, excluded)


def _has_every_candidate(retrieval: RetrievalEntry, spans: Iterable[ReadSpan]) -> bool:
    """Whether the span of a retrieval has all of its candidates."""
    counts = (
        span.whole(names.CANDIDATE_COUNT)
        for span in spans
        if span.name == names.SEARCH.span_name and span.text(names.RETRIEVAL_ID) == retrieval.id
    )
    return next(counts, None) == len(retrieval.candidates)


def _excluded_by(
    entry: WriteEntry, retrieval: RetrievalEntry, *, every_candidate: bool
) -> str | None:
    """The filter that excluded a record; ``unknown`` when spans do not tell."""
    kinds = retrieval.filters.get("kind")
    if kinds is not None and entry.kind not in kinds:
        return "kinds"
    requested = retrieval.filters.get("scope")
    if requested is not None and (applies := _applies(entry.scope, requested)) is not None:
        return None if applies else "scope"
    # In the mode ``none`` values of scopes are left out. Where every record that the filters
    # admit is a candidate, a record that is no candidate was not admitted.
    admitted = [c for c in retrieval.candidates if c.cut != "inapplicable_scope"]
    return "scope" if every_candidate and len(admitted) >= retrieval.total else "unknown"


def _applies(scope: Mapping[str, str | None], requested: Mapping[str, str | None]) -> bool | None:
    """Whether a scope applies; None when values that decide it are left out."""
    if not scope.keys() <= requested.keys():
        return False
    pairs = [(value, requested[key]) for key, value in scope.items()]
    if any(None not in pair and pair[0] != pair[1] for pair in pairs):
        return False
    return None if any(None in pair for pair in pairs) else True
