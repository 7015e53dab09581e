"""The record of a task from spans: the same that the ledger gives, as far as spans have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from memplugin.diagnosis.task_record import (
    CandidateEntry,
    CounterfactualEntry,
    RetrievalEntry,
    TaskRecord,
    UseEntry,
    flip_of,
    used_retrieval,
)
from memplugin.diagnosis.writes_from_spans import (
    TracedWrites,
    at,
    item,
    json_list,
    json_object,
    shows_texts,
    whole_text,
    wrote_something,
)
from memplugin.records import Bearing, Json, Override, Support
from memplugin.telemetry import names
from memplugin.telemetry.attributes import NO_P_VALUE
from memplugin.telemetry.readers.model import ReadSpan

FORGOTTEN = "[forgotten]"
"""Replaces a forgotten text, as in the ledger."""


def workspaces_of(spans: Iterable[ReadSpan], task_id: str) -> list[str]:
    """The workspaces in which a task left a span."""
    found = (span.text(names.WORKSPACE_ID) for span in spans if _is_of(span, task_id))
    return sorted({workspace for workspace in found if workspace})


def record_from_spans(
    spans: Iterable[ReadSpan], workspace_id: str, task_id: str
) -> TaskRecord | None:
    """Builds the record of a task from its spans and from those that wrote what it recalled.

    It has texts only in the content mode ``full``, and up to the limits of an attribute. Of a
    recall with more than 50 candidates it has the first 50 and all that were shown.

    Args:
        spans: The spans that were read, in any order.
        workspace_id: Spans of other workspaces are left out.
        task_id: The task.

    Returns:
        The record; None when none of the spans is of that task.
    """
    here = [span for span in spans if span.text(names.WORKSPACE_ID) == workspace_id]
    mine = sorted((span for span in here if _is_of(span, task_id)), key=lambda s: (at(s), s.start))
    if not mine:
        return None
    traced = TracedWrites.on(here)
    retrievals = tuple(_retrieval(span, traced) for span in _each(mine, names.SEARCH))
    seen = {c.record_id for r in retrievals for c in r.candidates}
    decisions = _each(mine, names.USE)
    outcomes = [span for span in mine if span.name == names.OUTCOME.span_name]
    tried = [span for span in mine if span.name == names.LEAVE_OUT.span_name]
    use = _use(decisions[-1], traced, tried) if decisions else UseEntry()
    return TaskRecord(
        task_id=task_id,
        workspace_id=workspace_id,
        arm=(outcomes[-1].text(names.ARM) if outcomes else None) or "memory_on",
        writes=traced.entries(
            w for w in traced.writes.values() if w.task_id == task_id or w.record_id in seen
        ),
        retrieval=used_retrieval(retrievals, use.retrieval_id),
        use=use,
        success=outcomes[-1].flag(names.TASK_SUCCESS) if outcomes else None,
        retrievals=retrievals,
        sessions=_sessions(mine),
    )


def _is_of(span: ReadSpan, task_id: str) -> bool:
    return span.text(names.TASK_ID) == task_id


_ID = {names.SEARCH.span_name: names.RETRIEVAL_ID, names.USE.span_name: names.DECISION_ID}


def _each(spans: Iterable[ReadSpan], operation: names.Operation) -> list[ReadSpan]:
    """Spans of one operation that have a result; a span rebuilt from the ledger counts once."""
    key = _ID[operation.span_name]
    first: dict[str, ReadSpan] = {}
    for span in spans:
        if span.name == operation.span_name and (id_ := span.text(key)):
            first.setdefault(id_, span)
    return list(first.values())


def _sessions(spans: Sequence[ReadSpan]) -> tuple[str, ...]:
    left_rows = (names.SEARCH.span_name, names.USE.span_name, names.OUTCOME.span_name)
    found = (
        span.text(names.SESSION_ID)
        for span in spans
        if span.name in left_rows or (span.name == names.UPSERT.span_name and wrote_something(span))
    )
    return tuple(dict.fromkeys(session for session in found if session))


def _retrieval(span: ReadSpan, traced: TracedWrites) -> RetrievalEntry:
    return RetrievalEntry(
        id=span.text(names.RETRIEVAL_ID) or "",
        session=span.text(names.SESSION_ID) or "",
        query=whole_text(span, span.text(names.QUERY_TEXT)),
        filters=json_object(span.text(names.FILTERS)) or {},
        k=span.whole(names.TOP_K) or 0,
        policy=span.text(names.POLICY) or "",
        total=span.whole(names.TOTAL) or 0,
        shown=span.whole(names.SHOWN) or 0,
        pending_index=span.whole(names.PENDING) or 0,
        at=at(span),
        candidates=tuple(_candidates(span, traced)),
    )


def _candidates(span: ReadSpan, traced: TracedWrites) -> Iterable[CandidateEntry]:
    ranks, scores = span.numbers(names.CANDIDATE_RANKS), span.numbers(names.CANDIDATE_SCORES)
    injected = span.flags(names.CANDIDATE_INJECTED)
    sources, cuts = span.texts(names.CANDIDATE_SOURCES), span.texts(names.CANDIDATE_CUTS)
    parts, contents = span.texts(names.CANDIDATE_PARTS), span.texts(names.CANDIDATE_CONTENTS)
    for place, record_id in enumerate(span.texts(names.CANDIDATE_IDS)):
        content = whole_text(span, item(contents, place))
        if content is not None and traced.forgotten(record_id):
            content = FORGOTTEN
        yield CandidateEntry(
            rank=int(item(ranks, place) or place + 1),
            record_id=record_id,
            score=item(scores, place) or 0.0,
            injected=bool(item(injected, place)),
            content=content,
            cut=item(cuts, place) or None,
            sources=tuple((item(sources, place) or "").split("+")),
            parts=json_object(item(parts, place)) or {},
        )


def _use(span: ReadSpan, traced: TracedWrites, tried: Iterable[ReadSpan]) -> UseEntry:
    bearing = tuple(_counterfactuals(span, tried))
    return UseEntry(
        cited_record_ids=span.texts(names.CITED_IDS),
        decision_id=span.text(names.DECISION_ID),
        retrieval_id=span.text(names.RETRIEVAL_ID),
        status=span.text(names.DECISION_STATUS),
        answer=_answer(span),
        flags=span.texts(names.DECISION_FLAGS),
        chosen_support=_support(span),
        order_preserved=span.flag(names.ORDER_PRESERVED),
        at=at(span),
        contradicted_record_ids=span.texts(names.CONTRADICTED_IDS),
        overrides=tuple(_overrides(span, traced)),
        counterfactual_flip=flip_of(bearing),
        counterfactuals=bearing,
    )


def _counterfactuals(
    decision: ReadSpan, tried: Iterable[ReadSpan]
) -> Iterable[CounterfactualEntry]:
    """The last verdict on each record that was left out of this decision."""
    last: dict[str, CounterfactualEntry] = {}
    for span in tried:
        if span.text(names.DECISION_ID) != decision.text(names.DECISION_ID):
            continue
        verdicts = span.texts(names.LEFT_OUT_VERDICTS)
        p_values = span.numbers(names.LEFT_OUT_P_VALUES)
        for place, record_id in enumerate(span.texts(names.LEFT_OUT_IDS)):
            p_value = item(p_values, place)
            last[record_id] = CounterfactualEntry(
                record_id,
                cast(Bearing, item(verdicts, place)),
                None if p_value in (None, NO_P_VALUE) else p_value,
            )
    return last.values()


def _overrides(span: ReadSpan, traced: TracedWrites) -> Iterable[Override]:
    for shown in json_list(span.text(names.OVERRIDES)):
        if not shows_texts(span):
            shown |= {"answer": None, "claimed": None}
        if traced.forgotten(shown["record_id"]):
            shown["claimed"] = None
        yield Override(**shown)


def _answer(span: ReadSpan) -> Json | None:
    return json_object(span.text(names.ANSWER)) if shows_texts(span) else None


def _support(span: ReadSpan) -> Support | None:
    record_id: Any = span.text(names.SUPPORT_ID)
    if record_id is None:
        return None
    return Support(
        id=record_id,
        rank=span.whole(names.SUPPORT_RANK) or 0,
        score=span.number(names.SUPPORT_SCORE) or 0.0,
        shown=bool(span.flag(names.SUPPORT_SHOWN)),
    )
