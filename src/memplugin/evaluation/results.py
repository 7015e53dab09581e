"""The results of a run: a file with a header, then one JSON line for each task and arm.

A line is on the disk before the next task begins, so that a run which is stopped at any
moment, even by SIGKILL, can be resumed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Self, cast

from langchain_core.callbacks import get_usage_metadata_callback
from pydantic import ValidationError

from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.memory.backend import Backend
from memplugin.records import Json, Noun, Verdict
from memplugin.text import clean_json

SCHEMA_VERSION = 1
RESULTS_FILE = "results.jsonl"

MEMORY_ON = "memory_on"
MEMORY_OFF = "memory_off"


@dataclass(frozen=True, slots=True)
class Cost(Noun):
    """The cost of one task.

    Attributes:
        answer_ms: Milliseconds from the request to the first answer, recall and decision.
        tokens_in: Tokens sent to models for the request, corrections included.
        tokens_out: Tokens of their replies.
        tokens_remembering: Tokens sent and received by the extractor in the earlier
            sessions.
        tokens_of_memory: Tokens of the memories that were shown for the first answer.
        estimated: True when the model reports no counts and they were estimated.
    """

    answer_ms: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_remembering: int = 0
    tokens_of_memory: int = 0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        """All tokens of the request, without those of the earlier sessions."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True, slots=True)
class TaskRun(Noun):
    """The result of one task in one arm.

    Attributes:
        success: Whether the first answer was right.
        corrections: How often the user corrected it, until it was right or the user gave
            up.
        record: The record of the task after the first answer, before any correction;
            with counterfactuals, where they were run.
        verdict: None in the arm without memory, where no stage can fail.
        expected: Stage and cause of the fault planted in the scripted models, ``none``
            and ``passed`` where there was none; None with other models.
        error: Why the task could not be run; a resumed run tries it again.
    """

    task_id: str
    arm: str
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    success: bool | None = None
    answer: Json | None = None
    corrections: int = 0
    cost: Cost = field(default_factory=Cost)
    record: TaskRecord | None = None
    verdict: Verdict | None = None
    expected: tuple[str, str] | None = None
    error: str | None = None

    @property
    def as_planted(self) -> bool | None:
        """Whether the verdict names the planted fault; None where either is not known."""
        if self.verdict is None or self.expected is None:
            return None
        return (self.verdict.stage, self.verdict.cause) == self.expected


@dataclass(frozen=True, slots=True)
class Header(Noun):
    """Which run a file is of; only a run with an equal header is resumed."""

    suite: str
    digest: str
    arms: tuple[str, ...]
    model: str
    embedder: str
    corrections: int = 0
    settings: Json = field(default_factory=dict[str, Any])
    schema_version: int = SCHEMA_VERSION


class Results:
    """The file of one run, open for writing. A context manager."""

    def __init__(self, file: IO[bytes], runs: list[TaskRun]) -> None:
        self._file = file
        self.runs = runs

    @classmethod
    def begin(cls, folder: Path, header: Header, *, resume: bool) -> Self:
        """Begins a file, or resumes the one that is there.

        Args:
            folder: Where the file is; it is made where it is absent.
            header: What the run is.
            resume: Whether results that are there are kept.

        Returns:
            The open file, with the results that are there.

        Raises:
            ConfigError: there are results and ``resume`` is False, or they are of another
                run.
        """
        path = folder / RESULTS_FILE
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size and not resume:
            raise ConfigError(
                f"{path} holds results: go on with them (--resume), or name another folder "
                "with --out."
            )
        there, runs, end = _readable(path)
        if there is not None and there != header:
            raise ConfigError(f"{path} {_differs(there, header)}: name another folder with --out.")
        file = path.open("r+b" if path.exists() else "w+b")
        file.truncate(end)
        file.seek(end)
        results = cls(file, [run for run in runs if run.error is None])
        if there is None:
            results._write(header.to_json())
        return results

    def append(self, run: TaskRun) -> None:
        """Adds a line; it is on the disk when this returns."""
        self._write(run.to_json())
        self.runs.append(run)

    def _write(self, line: Json) -> None:
        text = json.dumps(clean_json(line), ensure_ascii=False) + "\n"
        self._file.write(text.encode("utf-8"))
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_results(path: Path) -> tuple[Header, list[TaskRun]]:
    """Reads the results of a run; where a task was run again, its last line counts.

    Args:
        path: The file, or the folder of the run.

    Raises:
        ConfigError: there are no results.
    """
    file = path / RESULTS_FILE if path.is_dir() else path
    header, runs, _ = _readable(file)
    if header is None:
        raise ConfigError(f"{file} holds no results: make some with memplugin eval run --out DIR.")
    last = {(run.task_id, run.arm): run for run in runs}
    return header, list(last.values())


def in_suite_order(runs: Sequence[TaskRun], task_ids: Sequence[str]) -> list[TaskRun]:
    """Runs in the order of their tasks in the suite."""
    places = {task_id: place for place, task_id in enumerate(task_ids)}
    known = [run for run in runs if run.task_id in places]
    return sorted(known, key=lambda run: (places[run.task_id], run.arm != MEMORY_ON, run.arm))


def _readable(path: Path) -> tuple[Header | None, list[TaskRun], int]:
    """Header, runs, and where the last whole line ends.

    A process that was killed while it wrote has left half a line, which is dropped.
    """
    if not path.exists():
        return None, [], 0
    header: Header | None = None
    runs: list[TaskRun] = []
    end = 0
    for number, line in enumerate(_whole_lines(path), 1):
        try:
            value = cast(Json, json.loads(line))
            if header is None:
                header = Header.from_json(value)
            else:
                runs.append(TaskRun.from_json(value))
        except (ValueError, ValidationError) as error:
            raise ConfigError(
                f"{path}, line {number} is no line of a run's results: name another folder "
                "with --out, or put this file away."
            ) from error
        end += len(line)
    return header, runs, end


def _whole_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line


def _differs(there: Header, wanted: Header) -> str:
    mine, other = asdict(wanted), asdict(there)
    name = next(name for name in other if other[name] != mine[name])
    if name == "digest":
        return "is of another version of this suite"
    return f"is of another run ({name} {other[name]!r}, not {mine[name]!r})"


def without_times(run: TaskRun) -> TaskRun:
    """A run without the times it took, so that two runs can be compared."""
    return replace(run, cost=replace(run.cost, answer_ms=0.0))


@dataclass(slots=True)
class Spent:
    """The tokens that models reported in a block; counted when it ends."""

    sent: int = 0
    received: int = 0

    @property
    def total(self) -> int:
        """Tokens sent and received."""
        return self.sent + self.received


@contextmanager
def tokens_spent() -> Generator[Spent]:
    """Counts the tokens that all models report while a block lasts."""
    spent = Spent()
    with get_usage_metadata_callback() as callback:
        yield spent
    for usage in callback.usage_metadata.values():
        spent.sent += usage["input_tokens"]
        spent.received += usage["output_tokens"]


def cost_of(
    store: Backend, record: TaskRecord, spent: Spent, answer_ms: float, question: str, answer: Json
) -> Cost:
    """The cost of one answer; tokens that no model reported are estimated.

    Args:
        store: Its ledger has the messages that were sent, its config counts tokens.
        record: The record of the task, after that answer.
        spent: The tokens that models reported for it.
        answer_ms: How long it took, in milliseconds.
        question: The text of the request.
        answer: The fields of the answer; empty when there was none.

    Returns:
        The cost, without ``tokens_remembering``.

    Raises:
        StoreError: the ledger could not be read.
    """
    count = store.config.count_tokens
    shown = record.retrieval.candidates if record.retrieval else ()
    cost = Cost(
        answer_ms=answer_ms,
        tokens_in=spent.sent,
        tokens_out=spent.received,
        tokens_of_memory=sum(count(c.content or "") for c in shown if c.injected),
    )
    if spent.total:
        return cost
    decision_id = record.use.decision_id
    decision = store.ledger.decisions.get(record.workspace_id, decision_id) if decision_id else None
    sent = (
        [str(message["data"]["content"]) for message in decision.sent] if decision else [question]
    )
    reasoning = [decision.reasoning, decision.considered] if decision else []
    received = [*(text for text in reasoning if text), json.dumps(answer)]
    return replace(
        cost,
        tokens_in=sum(map(count, sent)),
        tokens_out=sum(map(count, received)),
        estimated=True,
    )


def with_tokens_of(one: Cost, other: Cost) -> Cost:
    """The cost of a first answer, with the tokens of a later one added."""
    return replace(
        one,
        tokens_in=one.tokens_in + other.tokens_in,
        tokens_out=one.tokens_out + other.tokens_out,
    )
