"""Writes from spans: proposals and the records they made, with helpers to read spans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, cast

from memplugin.diagnosis.task_record import WriteEntry
from memplugin.records import Json, StoredProposal
from memplugin.telemetry import names
from memplugin.telemetry.readers.model import ReadSpan

_MADE = ("accepted", "superseded")


def at(span: ReadSpan) -> datetime:
    """The time by the clock of the store; by that of the span where it is not given."""
    given = span.text(names.AT)
    return datetime.fromisoformat(given) if given else datetime.fromtimestamp(span.start / 1e9, UTC)


def shows_texts(span: ReadSpan) -> bool:
    """Whether texts are on the span as they are, neither hashed nor left out."""
    return span.text(names.CONTENT_MODE) == "full"


def whole_text(span: ReadSpan, text: str | None) -> str | None:
    """A complete text; None for a hash, or a text that was cut at the limit."""
    # A cut is between characters: up to three bytes short of the limit.
    if not text or not shows_texts(span) or len(text.encode()) > names.MAX_STRING_BYTES - 4:
        return None
    return text


def item(values: Sequence[Any], place: int) -> Any:
    """One value of an array; None where the array is shorter or was dropped."""
    return values[place] if place < len(values) else None


def json_object(text: str | None) -> Json | None:
    """A JSON object on a span; None when there is none."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return None
    return cast(Json, value) if isinstance(value, dict) else None


def json_list(text: str | None) -> list[Json]:
    """A JSON list of objects on a span; empty when there is none."""
    try:
        value = json.loads(text or "")
    except ValueError:
        return []
    return cast(list[Json], value) if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class TracedWrite:
    """One proposal, as the span of its write has it.

    Attributes:
        indexed_at: None while it waited for the index.
        scope: Values as the content mode has them; None for a value left out.
    """

    proposal_id: str
    task_id: str
    session: str
    at: datetime
    ruling: str
    reason: str | None
    record_id: str | None
    replaced_id: str | None
    kind: str | None
    confidence: float | None
    indexed_at: datetime | None
    scope: Json
    claim: Json | None
    content: str | None

    def erased(self) -> TracedWrite:
        """The write of a forgotten record: without its text, and out of the index."""
        content = None if self.content is None else ""
        return replace(self, content=content, claim=None, indexed_at=None)

    def as_stored(self) -> StoredProposal:
        """The proposal as the ledger would return it, without what spans do not have."""
        return StoredProposal(
            id=self.proposal_id,
            task_id=self.task_id,
            session_id=self.session,
            turn_id=None,
            operation="",
            content=self.content,
            kind=self.kind,
            confidence=self.confidence,
            quote=None,
            ruling=self.ruling,
            reason=self.reason,
            record_id=self.record_id,
            replaced_id=self.replaced_id,
            extractor=None,
            created_at=self.at,
        )


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a record, as far as spans have it."""

    made: TracedWrite | None = None
    status: str = "active"
    retired_at: datetime | None = None
    replaced_by: str | None = None


@dataclass(slots=True)
class TracedWrites:
    """Every proposal on some spans, each once, and the states of the records."""

    writes: dict[str, TracedWrite] = field(default_factory=dict[str, TracedWrite])
    _states: dict[str, _State] = field(default_factory=dict[str, _State])

    @classmethod
    def on(cls, spans: Iterable[ReadSpan]) -> TracedWrites:
        """Reads the spans of one workspace."""
        found = cls()
        for span in sorted(spans, key=at):
            if span.name == names.UPSERT.span_name:
                for write in _writes_on(span):
                    found._add(write)
            if record_id := span.text(names.RECORD_ID):
                if status := span.text(names.RECORD_STATUS):
                    retired_at = None if status == "active" else at(span)
                    found._change(record_id, status=status, retired_at=retired_at)
                elif span.name == names.DELETE.span_name:
                    found._forget(record_id, at(span))
        return found

    def entries(self, writes: Iterable[TracedWrite]) -> tuple[WriteEntry, ...]:
        """Joins proposals with their records, in the order of time."""
        ordered = sorted(writes, key=lambda w: (w.at, w.proposal_id))
        return tuple(self._entry(write) for write in ordered)

    def of_record(self, record_id: str) -> WriteEntry | None:
        """The write that made a record, or the first that names it."""
        made = self._states.get(record_id, _State()).made
        named = made or next((w for w in self.writes.values() if w.record_id == record_id), None)
        return self._entry(named) if named else None

    def forgotten(self, record_id: str) -> bool:
        """Whether its text was erased."""
        return self._states.get(record_id, _State()).status == "forgotten"

    def _add(self, write: TracedWrite) -> None:
        # A retry or a resume repeats the same proposals: the first counts.
        if write.proposal_id in self.writes:
            return
        self.writes[write.proposal_id] = write
        if write.ruling in _MADE and write.record_id:
            self._change(write.record_id, made=write)
        if write.replaced_id:
            self._change(
                write.replaced_id,
                status="superseded",
                retired_at=write.at,
                replaced_by=write.record_id,
            )

    def _forget(self, record_id: str, when: datetime) -> None:
        earlier = self._states.get(record_id, _State()).retired_at
        self._change(record_id, status="forgotten", retired_at=earlier or when)

    def _change(self, record_id: str, **state: Any) -> None:
        self._states[record_id] = replace(self._states.get(record_id, _State()), **state)

    def _entry(self, write: TracedWrite) -> WriteEntry:
        state = self._states.get(write.record_id or "", _State())
        record = state.made or write
        if state.status == "forgotten":
            record = record.erased()
        return WriteEntry(
            session=write.session,
            record_id=write.record_id,
            kind=record.kind,
            content=record.content,
            gate=write.ruling,
            reason=write.reason,
            extractor_confidence=write.confidence,
            indexed_at=record.indexed_at,
            proposal_id=write.proposal_id,
            written_at=record.at,
            task_id=write.task_id,
            scope=record.scope if write.record_id else {},
            claim=record.claim if write.record_id else None,
            status=state.status if write.record_id else None,
            retired_at=state.retired_at,
            replaced_by=state.replaced_by,
        )


def wrote_something(span: ReadSpan) -> bool:
    """False where all turns had been read before, and where only an observation was made."""
    if span.text(names.EXTRACTOR) is None:
        return span.whole(names.PROPOSAL_COUNT) != 0
    return span.whole(names.TURNS) != 0


def _writes_on(span: ReadSpan) -> Iterable[TracedWrite]:
    if not wrote_something(span):
        return
    when = at(span)
    columns = {
        key: span.texts(key)
        for key in (
            names.RECORD_IDS,
            names.REPLACED_IDS,
            names.RULINGS,
            names.REASONS,
            names.KINDS,
            names.INDEXED_AT,
            names.SCOPES,
            names.CLAIMS,
            names.CONTENTS,
        )
    }
    confidences = span.numbers(names.CONFIDENCES)
    for place, proposal_id in enumerate(span.texts(names.PROPOSAL_IDS)):
        text = {key: item(values, place) or None for key, values in columns.items()}
        indexed_at, kind = text[names.INDEXED_AT], text[names.KINDS]
        yield TracedWrite(
            proposal_id=proposal_id,
            task_id=span.text(names.TASK_ID) or "",
            session=span.text(names.SESSION_ID) or "",
            at=when,
            ruling=text[names.RULINGS] or "",
            reason=text[names.REASONS],
            record_id=text[names.RECORD_IDS],
            replaced_id=text[names.REPLACED_IDS],
            kind=kind,
            # A failed extraction proposed nothing that could have one.
            confidence=item(confidences, place) if kind else None,
            indexed_at=datetime.fromisoformat(indexed_at) if indexed_at else None,
            scope=json_object(text[names.SCOPES]) or {},
            claim=json_object(text[names.CLAIMS]),
            content=_content(span, text[names.CONTENTS], text[names.REASONS]),
        )


def _content(span: ReadSpan, text: str | None, reason: str | None) -> str | None:
    # A text that was forgotten must not come back through a proposal of it that was rejected.
    return None if (reason or "").startswith("tombstoned") else whole_text(span, text)
