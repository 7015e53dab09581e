"""Small suites, and runs of them with scripted models in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from memplugin.evaluation import agents
from memplugin.evaluation.load import suite_of
from memplugin.evaluation.results import Header, Results, TaskRun
from memplugin.evaluation.run import Lab, run_suite
from memplugin.evaluation.setup import InMemory
from memplugin.evaluation.suite import Suite
from memplugin.testing import HashingEmbedder

WIDE = HashingEmbedder(1024)
"""Two words hardly ever share a place, so that cosines are shares of words."""


def door(number: int, **changed: Any) -> dict[str, Any]:
    """A task: one record has the code of one door, and the request asks for it."""
    return {
        "id": f"door-{number}",
        "records": [{"key": "code", "content": f"The code of door {number} is {number}."}],
        "request": {"text": f"What is the code of door {number}?"},
        "answer": {"code": "integer"},
        "need": {"records": ["code"]},
        "success": {"exact": {"code": number}},
        "decider": {"follows": "the code", "otherwise": {"code": -1}},
        **changed,
    }


def session(text: str, *gold: Mapping[str, Any] | str, **fields: Any) -> dict[str, Any]:
    """A session of one message, and what should be remembered of it."""
    facts = [{"content": fact} if isinstance(fact, str) else fact for fact in gold]
    return {"messages": [{"user": text}], "gold": facts, **fields}


def suite(*tasks: Mapping[str, Any], **fields: Any) -> Suite:
    """A suite of plain values."""
    return suite_of({"name": "made", **fields, "tasks": list(tasks)}, source="made.yaml")


def header_of(made: Suite, arms: tuple[str, ...] = ("memory_on",)) -> Header:
    """The header of a scripted run of it."""
    return Header(made.name, made.digest, arms, "scripted", WIDE.name)


@contextmanager
def lab(**changed: Any) -> Iterator[Lab]:
    """A lab with scripted models and stores in memory."""
    with InMemory(WIDE) as stores:
        made = Lab(
            stores=stores,
            models=agents.scripted_models,
            expect=agents.expected_verdict,
            prepare=agents.with_planted_index,
            timer=lambda: 0.0,
        )
        yield replace(made, **changed)


def run(
    folder: Path,
    made: Suite,
    *,
    arms: tuple[str, ...] = ("memory_on",),
    resume: bool = False,
    done: Callable[[TaskRun], None] = lambda _: None,
    **changed: Any,
) -> list[TaskRun]:
    """Runs a suite; its results are in the folder."""
    with (
        lab(**changed) as laboratory,
        Results.begin(folder, header_of(made, arms), resume=resume) as results,
    ):
        return run_suite(made, laboratory, results, arms=arms, done=done)
