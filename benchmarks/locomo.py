"""LoCoMo's turns as they are stored here, and the questions whose evidence turns are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from memplugin.evaluation.adapters import locomo
from memplugin.evaluation.adapters.locomo import CATEGORIES, LOCOMO

__all__ = ["ABSENT", "CATEGORIES", "VARIABLE", "Conversation", "Question", "Turn", "find", "load"]

VARIABLE = LOCOMO.variable
ABSENT = LOCOMO.absent
find = LOCOMO.find


@dataclass(frozen=True)
class Turn:
    """One turn as it is stored: its date, speaker and text, and the turns around it."""

    id: str
    content: str
    around: str


@dataclass(frozen=True)
class Question:
    """A question and the turns that answer it."""

    text: str
    evidence: frozenset[str]
    category: str


@dataclass(frozen=True)
class Conversation:
    """One conversation, and the questions that it answers."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def load(path: Path) -> list[Conversation]:
    """Reads the published file or a part of it; questions without evidence are left out."""
    return [
        Conversation(
            id=one.id,
            turns=tuple(turn for session in one.sessions for turn in _turns(session)),
            questions=tuple(
                Question(q.text, frozenset(q.evidence), q.category)
                for q in one.questions
                if q.evidence
            ),
        )
        for one in locomo.load(path)
    ]


def _turns(session: locomo.LocomoSession) -> Iterator[Turn]:
    texts = [turn.text for turn in session.turns]
    date = f"[{session.date_text}]"
    for place, turn in enumerate(session.turns):
        around = "\n".join(texts[max(0, place - 1) : place + 2])
        yield Turn(turn.id, f"{date} {turn.text}", f"{date} {around}")
