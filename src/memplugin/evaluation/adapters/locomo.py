"""LoCoMo: long conversations, facts that were taken from them, and questions.

Each fact names the turn that it is from, and each question the turns that answer it: a
ready-made extractor's output, with which a store can be filled without a model.
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
from memplugin.evaluation.suite import NeedSpec, Request, Success, Suite, Task
from memplugin.evaluation.suite_parts import DirectRecord

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
_APART = re.compile(r"[;,\s]+")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: by whom and what."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact, and the turns that it was taken from."""

    text: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Talk:
    """One session."""

    id: str
    date: datetime
    turns: tuple[Turn, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the turns that answer it.

    Attributes:
        evidence: Of the turns that the data name, those that are there.
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
    talks: tuple[Talk, ...]
    questions: tuple[Question, ...]

    @property
    def facts(self) -> list[Fact]:
        """Those of all sessions."""
        return [fact for talk in self.talks for fact in talk.facts]

    @property
    def asked_at(self) -> datetime:
        """The day after the last session."""
        return max(talk.date for talk in self.talks) + timedelta(days=1)


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
    talks = tuple(_talks(one["conversation"], one["observation"]))
    known = frozenset(turn.id for talk in talks for turn in talk.turns)
    name = one["sample_id"]
    asked = (_question(f"{name}_q{n}", q, known) for n, q in enumerate(one["qa"], 1))
    return Conversation(name, talks, tuple(asked))


def _talks(conversation: Mapping[str, Any], observation: Mapping[str, Any]) -> Iterator[Talk]:
    numbers = sorted(
        int(m[1]) for key in conversation if (m := re.fullmatch(r"session_(\d+)", key))
    )
    for number in numbers:
        observed = observation.get(f"session_{number}_observation", {})
        yield Talk(
            id=f"session_{number}",
            date=_date(conversation[f"session_{number}_date_time"]),
            turns=tuple(Turn(t["dia_id"], _said(t)) for t in conversation[f"session_{number}"]),
            facts=tuple(_fact(one) for facts in observed.values() for one in facts),
        )


def _date(text: str) -> datetime:
    return datetime.strptime(text, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)


def _said(turn: Mapping[str, Any]) -> str:
    image = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{image}"


def _fact(given: list[Any]) -> Fact:
    text, named = given
    listed = cast(list[str], named) if isinstance(named, list) else _APART.split(named)
    return Fact(text, tuple(dict.fromkeys(listed)))


def _question(name: str, given: Mapping[str, Any], known: frozenset[str]) -> Question:
    # Some evidence names two turns in one string, or turns that are not there.
    named = (turn for text in given.get("evidence", ()) for turn in _APART.split(text))
    return Question(
        id=name,
        text=given["question"],
        evidence=tuple(dict.fromkeys(turn for turn in named if turn in known)),
        category=CATEGORIES[given["category"]],
        answer=str(given["answer"]) if "answer" in given else None,
    )


# ---------------------------------------------------------------- as a suite


def suite_of(path: Path) -> Suite:
    """LoCoMo's questions over its facts. Success is for a judging model to say.

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
    for talk in conversation.talks:
        for number, fact in enumerate(talk.facts):
            yield DirectRecord(
                key=f"{talk.id}.{number}",
                content=fact.text,
                date=talk.date,
                source=" ".join(fact.turns),
            )


def _task(conversation: Conversation, question: Question) -> Task:
    evidence = set(question.evidence)
    keys = tuple(
        f"{talk.id}.{number}"
        for talk in conversation.talks
        for number, fact in enumerate(talk.facts)
        if evidence & set(fact.turns)
    )
    right = f"It says: {question.answer}"
    if question.answer is None:
        right = "It says that this is not known, or was never said."
    return Task(
        id=question.id,
        tags={"kind": question.category},
        corpus=conversation.id,
        request=Request(text=question.text, date=conversation.asked_at, k=10),
        answer={"answer": "text"},
        need=NeedSpec(records=keys),
        success=Success(judge=right),
    )
