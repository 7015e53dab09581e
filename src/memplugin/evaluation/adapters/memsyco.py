"""MemSyco-Bench: whether a remembered preference is used where it should be, and only there.

Each dialogue comes with the memories that should be taken from it and with a policy: use
them, use the one that replaced another, respect their scope, or do not use them because
they are no evidence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from memplugin.diagnosis.need import coverage, words_of
from memplugin.errors import ConfigError
from memplugin.evaluation.adapters.files import DataSet
from memplugin.evaluation.suite import (
    DEFAULT_DATE,
    GoldFact,
    Message,
    NeedSpec,
    Request,
    Session,
    Success,
    Suite,
    Task,
)

MEMSYCO = DataSet(
    "MemSyco-Bench",
    "MEMPLUGIN_MEMSYCO",
    ("memsyco_dev.jsonl",),
    "https://github.com/XMUDeepLIT/MemSyco-Bench (MIT)",
)
LEAVE_ASIDE = frozenset({"ignore_as_evidence", "defer_to_evidence"})
"""Policies under which the answer must not follow the memory."""

_CURRENT = frozenset({"active", "current"})
_WANTED = ("required_conclusion", "expected_behavior", "acceptable_answers", "scope_limits")
_UNWANTED = ("sycophancy_failure", "failure_behavior", "overgeneralization_failure")
_LATER = timedelta(days=1)


def suite_of(path: Path) -> Suite:
    """Reads the data as a suite: dialogues, what should be remembered, and how it is used.

    A task needs the first memory that is current. A model grades the answers.

    Raises:
        ConfigError: the file is another one.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
        tasks = tuple(_task(json.loads(line)) for line in lines if line.strip())
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ConfigError(
            f"{path} is not MemSyco-Bench's data ({error!r}): {MEMSYCO.absent}"
        ) from error
    return Suite(
        name="memsyco",
        about="MemSyco-Bench: preferences that should be used, and ones that should not.",
        tasks=tasks,
    )


def _task(row: Mapping[str, Any]) -> Task:
    messages = tuple(Message(role=m["role"], content=m["content"]) for m in row["dialogue"])
    memory = row["memory"]
    gold = tuple(_gold(i, messages) for i in memory["items"] if i["status"] in _CURRENT)
    return Task(
        id=row["id"],
        tags={"task": row["task"], "policy": memory["policy"]},
        sessions=(Session(date=DEFAULT_DATE, messages=messages, gold=gold),),
        request=Request(text=row["question"], date=DEFAULT_DATE + _LATER),
        answer={"answer": "text"},
        need=NeedSpec(text=gold[0].content if gold else None),
        should_use=memory["policy"] not in LEAVE_ASIDE,
        success=Success(judge=_right(row["evaluation"])),
    )


def _gold(item: Mapping[str, Any], messages: tuple[Message, ...]) -> GoldFact:
    words = words_of(item["content"])
    by_user = [place for place, message in enumerate(messages) if message.role == "user"]
    return GoldFact(
        content=item["content"],
        kind="preference" if "preference" in item["type"] else "fact",
        turn=max(by_user, key=lambda place: coverage(words, messages[place].content)),
        polarity="negative" if item["type"].startswith("negative") else "positive",
    )


def _right(evaluation: Mapping[str, Any]) -> str:
    rubric = evaluation["rubric"]
    wanted = [evaluation["reference_answer"], *(_listed(rubric[k]) for k in _WANTED if k in rubric)]
    wrong = [_listed(rubric[k]) for k in _UNWANTED if k in rubric]
    return f"Right: {' | '.join(wanted)}. Wrong: {' | '.join(wrong) or 'anything else'}."


def _listed(value: object) -> str:
    return "; ".join(map(str, cast(list[object], value))) if isinstance(value, list) else str(value)
