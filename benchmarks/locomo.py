"""LoCoMo: turns of long conversations, and questions whose evidence turns are known."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VARIABLE = "MEMPLUGIN_LOCOMO"
PLACES = (
    Path(__file__).parents[2] / "shared" / "data" / "locomo_dev.json",
    Path(__file__).parents[2] / "shared" / "data" / "locomo10.json",
)
ABSENT = (
    f"LoCoMo is not here: set {VARIABLE} to the file `data/locomo10.json` of "
    "https://github.com/snap-research/locomo (CC BY-NC 4.0, not to be shipped), or put it into "
    "../shared/data/."
)
CATEGORIES = {
    1: "multi-hop",
    2: "temporal",
    3: "open-domain",
    4: "single-hop",
    5: "adversarial",
}


@dataclass(frozen=True)
class Turn:
    """One turn as it is stored: who said it and when, with what was said around it."""

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
    """One conversation and its questions."""

    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]


def find(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where the data is; None where it is not."""
    named = environment.get(VARIABLE)
    candidates = (Path(named),) if named else PLACES
    return next((path for path in candidates if path.is_file()), None)


def load(path: Path) -> list[Conversation]:
    """Reads the published file or a part of it."""
    return [_conversation(one) for one in json.loads(path.read_text(encoding="utf-8"))]


def _conversation(one: Mapping[str, Any]) -> Conversation:
    turns = tuple(_turns(one["conversation"]))
    questions = tuple(_questions(one["qa"], frozenset(turn.id for turn in turns)))
    return Conversation(one["sample_id"], turns, questions)


def _turns(conversation: Mapping[str, Any]) -> Iterator[Turn]:
    named = (re.fullmatch(r"session_(\d+)", key) for key in conversation)
    numbers = sorted(int(name[1]) for name in named if name)
    for number in numbers:
        date = conversation.get(f"session_{number}_date_time", "")
        turns = conversation[f"session_{number}"]
        said = [_said(turn) for turn in turns]
        for place, turn in enumerate(turns):
            around = "\n".join(said[max(0, place - 1) : place + 2])
            yield Turn(turn["dia_id"], f"[{date}] {said[place]}", f"[{date}] {around}")


def _said(turn: Mapping[str, Any]) -> str:
    image = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{image}"


def _questions(asked: list[Mapping[str, Any]], known: frozenset[str]) -> Iterator[Question]:
    for one in asked:
        # Some evidence names two turns in one string, or turns that are not there.
        named = {id_ for text in one.get("evidence", ()) for id_ in re.split(r"[;\s]+", text)}
        if evidence := known & named:
            yield Question(one["question"], frozenset(evidence), CATEGORIES[one["category"]])
