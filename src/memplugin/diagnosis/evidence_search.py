"""Searches a store for what it holds about a text: records, proposals and turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memplugin.diagnosis.need import carries, coverage, words_of
from memplugin.diagnosis.task_record import WriteEntry, write_entry
from memplugin.ports import LedgerReader
from memplugin.records import Explanation, MemoryRecord, Need, Noun, StoredProposal, Turn
from memplugin.text import clean, normalised

SEARCHED_ROWS = 200
"""How many rows of each table a search reads, the newest first."""

RELATED_AT = 0.3
"""The share of the needed words from which a record is about the same thing."""


@dataclass(frozen=True, slots=True)
class FoundEvidence(Noun):
    """What the store holds about something that should have been used.

    Attributes:
        writes: The writes of the records found, whatever the status of these.
        rejected: Proposals that say it and made no record, failed ones included.
        turns: Turns that say it.
        distorted: Writes of records taken from those turns that do not say it.
        turns_kept: False when the store keeps no text of turns.
        explanations: For each record found, its rank in the retrieval of the task, or why
            it had none.
        traced: Whether it was taken from spans, which have no turns, and no exact ranks
            beyond the candidates.
        texts_known: False when texts are hashed or left out.
    """

    writes: tuple[WriteEntry, ...] = ()
    rejected: tuple[StoredProposal, ...] = ()
    turns: tuple[Turn, ...] = ()
    distorted: tuple[WriteEntry, ...] = ()
    turns_kept: bool = True
    explanations: tuple[Explanation, ...] = field(default=())
    traced: bool = False
    texts_known: bool = True


def find_evidence(ledger: LedgerReader, workspace_id: str, need: Need) -> FoundEvidence:
    """Finds what the store holds about a need.

    It searches by ids where they are given, else by the turn, else by the claim, else by text.

    Args:
        ledger: The ledger that is read.
        workspace_id: The workspace that is searched.
        need: What should have been used.

    Returns:
        What was found; without ``explanations``.

    Raises:
        StoreError: the ledger could not be read.
    """
    if need.turn_id and not need.record_ids:
        return _of_turn(ledger, workspace_id, need.turn_id, need)
    records = _records(ledger, workspace_id, need)
    text = need.text or (records[0].content if records else "")
    words = words_of(text)
    turns = _turns(ledger, workspace_id, text, words) if words else []
    rejected = _rejected(ledger, workspace_id, text, words, turns) if words else []
    distorted = [
        record
        for record in (_taken_from(ledger, workspace_id, words, turns) if words else [])
        if record not in records and not carries(text, record.content)
    ]
    return FoundEvidence(
        writes=_entries(ledger, workspace_id, records),
        rejected=tuple(rejected),
        turns=tuple(turns),
        distorted=_entries(ledger, workspace_id, distorted),
        turns_kept=ledger.history.turns_kept(workspace_id, None),
    )


def _of_turn(ledger: LedgerReader, workspace_id: str, turn_id: str, need: Need) -> FoundEvidence:
    """What was made from one turn; with a text in the need, from what the text says of it."""
    turn = ledger.history.turn(workspace_id, turn_id)
    proposals = ledger.history.proposals_of_turn(workspace_id, turn_id)
    made = {p.record_id for p in proposals if p.record_id}
    taken = list(ledger.records.get_many(workspace_id, made).values())
    says = [r for r in taken if not need.text or carries(need.text, r.content)]
    words = words_of(need.text or "")
    return FoundEvidence(
        writes=_entries(ledger, workspace_id, says),
        rejected=tuple(
            p
            for p in proposals
            if p.ruling in ("rejected", "failed")
            and (not need.text or not p.content or coverage(words, p.content) >= RELATED_AT)
        ),
        turns=(turn,) if turn else (),
        distorted=_entries(
            ledger,
            workspace_id,
            [r for r in taken if r not in says and coverage(words, r.content) >= RELATED_AT],
        ),
        turns_kept=ledger.history.turns_kept(workspace_id, None),
    )


def _records(ledger: LedgerReader, workspace_id: str, need: Need) -> list[MemoryRecord]:
    if need.record_ids:
        found = ledger.records.get_many(workspace_id, need.record_ids)
        return [found[i] for i in need.record_ids if i in found]
    if need.claim:
        claimed = ledger.history.find_claims(workspace_id, sorted(need.claim), SEARCHED_ROWS)
        return [r for r in claimed if dict(r.claim or {}) == dict(need.claim)]
    text = need.text or ""
    words = words_of(text)
    if not words:
        return []
    found_by_word = ledger.history.find_records(workspace_id, words, SEARCHED_ROWS)
    carrying = [r for r in found_by_word if carries(text, r.content)]
    # Active ones first; among equals the one that says most of it.
    return sorted(
        carrying, key=lambda r: (r.status != "active", -coverage(words, r.content), r.id)
    )[:1]


def _turns(ledger: LedgerReader, workspace_id: str, text: str, words: Sequence[str]) -> list[Turn]:
    found = ledger.history.find_turns(workspace_id, words, SEARCHED_ROWS)
    return [t for t in found if t.role == "user" and carries(text, t.text or "")]


def _rejected(
    ledger: LedgerReader, workspace_id: str, text: str, words: Sequence[str], turns: Sequence[Turn]
) -> list[StoredProposal]:
    turn_ids = {turn.id for turn in turns}
    return [
        p
        for p in ledger.history.find_proposals(workspace_id, words, SEARCHED_ROWS)
        if p.ruling in ("rejected", "failed")
        # A failed extraction has no content: it is known by its turns.
        and (carries(text, p.content) if p.content else p.turn_id in turn_ids)
    ]


def _taken_from(
    ledger: LedgerReader, workspace_id: str, words: Sequence[str], turns: Sequence[Turn]
) -> list[MemoryRecord]:
    made = {
        p.record_id
        for turn in turns
        for p in ledger.history.proposals_of_turn(workspace_id, turn.id)
        if p.record_id
    }
    # A turn may say two things: a record about the other one distorts nothing.
    records = ledger.records.get_many(workspace_id, made).values()
    return [r for r in records if coverage(words, r.content) >= RELATED_AT]


def _entries(
    ledger: LedgerReader, workspace_id: str, records: Sequence[MemoryRecord]
) -> tuple[WriteEntry, ...]:
    made = ledger.history.proposals_of(workspace_id, [record.id for record in records])
    first = {p.record_id: p for p in reversed(made)}
    return tuple(write_entry(first[r.id], r) for r in records if r.id in first)


# ---------------------------------------------------------------- mentions of a text

MENTIONS_AT = 0.5
"""The share of the words from which a text mentions them: two of three, two of four."""

_MADE_ITS_RECORD = ("accepted", "superseded")


@dataclass(frozen=True, slots=True)
class Mentions(Noun):
    """Rows that mention a text, the closest first.

    Attributes:
        records: Records of any status but forgotten, whose content is gone.
        proposals: Those that made no record of their own: rejected, failed or attached.
        turns: Turns of any role.
        turns_kept: False when the workspace holds no text of turns.
    """

    workspace_id: str
    text: str
    records: tuple[MemoryRecord, ...] = ()
    proposals: tuple[StoredProposal, ...] = ()
    turns: tuple[Turn, ...] = ()
    turns_kept: bool = True

    @property
    def found(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.records or self.proposals or self.turns)


def find_mentions(ledger: LedgerReader, workspace_id: str, text: str) -> Mentions:
    """Searches a workspace for a text, literally and by its words.

    A row counts when it contains the text, or at least half of its words (stemmed, without
    stop words). Whether it is negated does not matter: a record that says the opposite is
    worth seeing.

    Args:
        ledger: The ledger that is read.
        workspace_id: The workspace that is searched.
        text: What to search for.

    Returns:
        The rows found.

    Raises:
        StoreError: the ledger could not be read.
    """
    query = _Query(clean(text))
    records = ledger.history.find_records(workspace_id, query.words, SEARCHED_ROWS)
    turns = ledger.history.find_turns(workspace_id, query.words, SEARCHED_ROWS)
    mentioning = sorted(
        (t for t in turns if query.share_in(t.text)), key=lambda t: -query.share_in(t.text)
    )
    return Mentions(
        workspace_id=workspace_id,
        text=text,
        records=tuple(
            sorted(
                (r for r in records if query.share_in(r.content)),
                key=lambda r: (r.status != "active", -query.share_in(r.content)),
            )
        ),
        proposals=tuple(_proposals(ledger, workspace_id, query, mentioning)),
        turns=tuple(mentioning),
        turns_kept=ledger.history.turns_kept(workspace_id, None),
    )


class _Query:
    """A text that is searched for."""

    def __init__(self, text: str) -> None:
        self._whole = normalised(text)
        self._meaning = words_of(text)
        # A text of stop words only ("about us") is searched for literally.
        self.words: Sequence[str] = self._meaning or re.findall(r"\w+", self._whole)

    def share_in(self, text: str | None) -> float:
        """The share of it that a text mentions; 0 below ``MENTIONS_AT``."""
        if not (text and self._whole):
            return 0.0
        if self._whole in normalised(text):
            return 1.0
        share = coverage(self._meaning, text)
        return share if share >= MENTIONS_AT else 0.0


def _proposals(
    ledger: LedgerReader, workspace_id: str, query: _Query, turns: Sequence[Turn]
) -> list[StoredProposal]:
    by_text = ledger.history.find_proposals(workspace_id, query.words, SEARCHED_ROWS)
    found = {p.id: p for p in by_text if max(query.share_in(p.content), query.share_in(p.quote))}
    for turn in turns:
        # A failed extraction has no content: it is known by the turns it did not read.
        taken = ledger.history.proposals_of_turn(workspace_id, turn.id)
        found |= {p.id: p for p in taken if p.ruling == "failed"}
    unmade = (p for p in found.values() if p.ruling not in _MADE_ITS_RECORD)
    return sorted(unmade, key=lambda p: p.created_at, reverse=True)
