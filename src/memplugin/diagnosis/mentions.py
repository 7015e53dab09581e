"""Everything a workspace holds that mentions a text: records, proposals and turns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memplugin.diagnosis.census import LOOKED_THROUGH
from memplugin.diagnosis.wording import coverage, words_of
from memplugin.ports import Ledger, StoredProposal
from memplugin.records import MemoryRecord, Noun, Turn
from memplugin.text import clean, normalised

MENTIONS_AT = 0.5
"""Share of the words from which a text mentions them: two of three, two of four."""

_MADE_ITS_RECORD = ("accepted", "superseded")


@dataclass(frozen=True, slots=True)
class Mentions(Noun):
    """What mentions a text, the closest first.

    Attributes:
        records: Of any status but forgotten, whose content is gone.
        proposals: Those that made no record of their own: rejected, failed or attached.
        turns: Of any role.
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


def mentions(ledger: Ledger, workspace_id: str, text: str) -> Mentions:
    """Looks for a text in a workspace, as it stands and by its words.

    A row counts that contains the text, or at least half of its words (stemmed, without
    those that carry no meaning). Whether it is negated does not matter: a record that
    says the opposite is worth seeing.

    Raises:
        StoreError: the ledger could not be read.
    """
    asked = _Asked(clean(text))
    records = ledger.find_records(workspace_id, asked.words, LOOKED_THROUGH)
    turns = ledger.find_turns(workspace_id, asked.words, LOOKED_THROUGH)
    said = sorted((t for t in turns if asked.of(t.text)), key=lambda t: -asked.of(t.text))
    return Mentions(
        workspace_id=workspace_id,
        text=text,
        records=tuple(
            sorted(
                (r for r in records if asked.of(r.content)),
                key=lambda r: (r.status != "active", -asked.of(r.content)),
            )
        ),
        proposals=tuple(_proposals(ledger, workspace_id, asked, said)),
        turns=tuple(said),
        turns_kept=ledger.turns_kept(workspace_id, None),
    )


class _Asked:
    """What is looked for."""

    def __init__(self, text: str) -> None:
        self._whole = normalised(text)
        self._meaning = words_of(text)
        # A text of small words only ("about us") is looked for as it stands.
        self.words: Sequence[str] = self._meaning or re.findall(r"\w+", self._whole)

    def of(self, text: str | None) -> float:
        """How much of it a text mentions, 0 for less than counts."""
        if not (text and self._whole):
            return 0.0
        if self._whole in normalised(text):
            return 1.0
        share = coverage(self._meaning, text)
        return share if share >= MENTIONS_AT else 0.0


def _proposals(
    ledger: Ledger, workspace_id: str, asked: _Asked, said: Sequence[Turn]
) -> list[StoredProposal]:
    by_text = ledger.find_proposals(workspace_id, asked.words, LOOKED_THROUGH)
    found = {p.id: p for p in by_text if max(asked.of(p.content), asked.of(p.quote))}
    for turn in said:
        # A failed extraction has no content: it is known by the turns it did not read.
        taken = ledger.proposals_of_turn(workspace_id, turn.id)
        found |= {p.id: p for p in taken if p.ruling == "failed"}
    unmade = (p for p in found.values() if p.ruling not in _MADE_ITS_RECORD)
    return sorted(unmade, key=lambda p: p.created_at, reverse=True)
