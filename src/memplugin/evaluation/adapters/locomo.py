"""LoCoMo: long conversations, facts that were taken from them, and questions.

Each fact names the turn that it is from, and each question the turns that answer it. The
facts stand for the output of an extractor, so that a store can be filled without a model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from memplugin.errors import ConfigError
from memplugin.evaluation.adapters.files import DataSet
from memplugin.evaluation.suite import DirectRecord, NeedSpec, Request, Success, Suite, Task

LOCOMO = DataSet(
    "LoCoMo",
    "MEMPLUGIN_LOCOMO",
    ("locomo10.json", "locomo_dev.json"),
    "https://github.com/snap-research/locomo (CC BY-NC 4.0, not to be shipped)",
)
CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}
_SEPARATOR = re.compile(r"[;,\s]+")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: its text begins with the name of the speaker."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, and the turns that it was taken from."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LocomoSession:
    """One session.

    Attributes:
        date_text: Its date as the data have it; empty where they have none.
    """

    id: str
    date_text: str
    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...]

    @property
    def date(self) -> datetime:
        """Its date, in UTC.

        Raises:
            ValueError: the data have no such date.
        """
        return datetime.strptime(self.date_text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that answer it.

    Attributes:
        evidence: Those of the turns named by the data that exist.
        answer: None for an adversarial question, which has none.
    """

    id: str
    text: str
    evidence: tuple[str, ...]
    category: str
    answer: str | None


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation over many sessions."""

    id: str
    sessions: tuple[LocomoSession, ...]
    questions: tuple[Question, ...]

    @property
    def facts(self) -> list[Fact]:
        """The facts of all sessions."""
        return [fact for session in self.sessions for fact in session.facts]

    @property
    def request_at(self) -> datetime:
        """The date of the questions: the day after the last session."""
        return max(session.date for session in self.sessions) + timedelta(days=1)


def load(path: Path) -> list[Conversation]:
    """Reads the published file or a part of it.

    Raises:
        ConfigError: it is another file.
    """
    try:
        return [_conversation(one) for one in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not LoCoMo's data ({error!r}): {LOCOMO.absent}") from error


def _conversation(one: Mapping[str, Any]) -> Conversation:
    sessions = tuple(_sessions(one["conversation"], one.get("observation", {})))
    known = frozenset(turn.id for session in sessions for turn in session.turns)
    name = one["sample_id"]
    questions = (_question(f"{name}_q{n}", q, known) for n, q in enumerate(one["qa"], 1))
    return Conversation(name, sessions, tuple(questions))


def _sessions(
    conversation: Mapping[str, Any], observation: Mapping[str, Any]
) -> Iterator[LocomoSession]:
    numbers = sorted(
        int(m[1]) for key in conversation if (m := re.fullmatch(r"session_(\d+)", key))
    )
    for number in numbers:
        observed = observation.get(f"session_{number}_observation", {})
        yield LocomoSession(
            id=f"session_{number}",
            date_text=conversation.get(f"session_{number}_date_time", ""),
            turns=tuple(Turn(t["dia_id"], _text(t)) for t in conversation[f"session_{number}"]),
            facts=tuple(_fact(one) for facts in observed.values() for one in facts),
        )


def _text(turn: Mapping[str, Any]) -> str:
    image = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{image}"


def _fact(given: list[Any]) -> Fact:
    text, named = given
    listed = cast(list[str], named) if isinstance(named, list) else _SEPARATOR.split(named)
    return Fact(text, tuple(dict.fromkeys(listed)))


def _question(name: str, given: Mapping[str, Any], known: frozenset[str]) -> Question:
    # Some evidence names two turns in one string, or turns that are not there.
    named = (turn for text in given.get("evidence", ()) for turn in _SEPARATOR.split(text))
    return Question(
        id=name,
        text=given["question"],
        evidence=tuple(dict.fromkeys(turn for turn in named if turn in known)),
        category=CATEGORIES[given["category"]],
        answer=str(given["answer"]) if "answer" in given else None,
    )


# ---------------------------------------------------------------- as a suite


def suite_of(path: Path) -> Suite:
    """LoCoMo's questions over its facts. A model grades the answers.

    Raises:
        ConfigError: the file is another one.
    """
    conversations = load(path)
    return Suite(
        name="locomo",
        about="LoCoMo's questions, over the facts that were taken from its conversations.",
        corpora={c.id: tuple(_records(c)) for c in conversations},
        tasks=tuple(_task(c, q) for c in conversations for q in c.questions),
    )


def _records(conversation: Conversation) -> Iterator[DirectRecord]:
    for session in conversation.sessions:
        for number, fact in enumerate(session.facts):
            yield DirectRecord(
                key=f"{session.id}.{number}",
                content=fact.text,
                date=session.date,
                source=" ".join(fact.turns),
            )


def _task(conversation: Conversation, question: Question) -> Task:
    evidence = set(question.evidence)
    keys = tuple(
        f"{session.id}.{number}"
        for session in conversation.sessions
        for number, fact in enumerate(session.facts)
        if evidence & set(fact.turns)
    )
    right = f"It says: {question.answer}"
    if question.answer is None:
        right = "It says that this is not known, or was never said."
    return Task(
        id=question.id,
        tags={"kind": question.category},
        corpus=conversation.id,
        request=Request(text=question.text, date=conversation.request_at, k=10),
        answer={"answer": "text"},
        need=NeedSpec(records=keys),
        success=Success(judge=right),
    )
