"""The tasks that a report or a review is about, read from the results of a run or a store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.stages import NEXT_STEPS
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.evaluation.results import Header, TaskRun, read_results
from memplugin.records import MACHINE, Judgement, Need, Stage, Verdict
from memplugin.storage.sql.ledger import SqlLedger

JUDGEMENTS_FILE = "judgements.jsonl"
"""The file, beside the results of a run, with the judgements of annotators."""


@dataclass(frozen=True, slots=True)
class Case:
    """One task in one arm, with the judgements on it.

    Attributes:
        needed: What should have been used, in words or ids; None when not known.
        people: The last judgement of each annotator.
    """

    workspace_id: str
    run: TaskRun
    needed: str | None = None
    people: tuple[Judgement, ...] = ()

    @property
    def at(self) -> datetime | None:
        """The time of its recall, else of its decision."""
        if self.run.record is None:
            return None
        retrieval, use = self.run.record.retrieval, self.run.record.use
        return retrieval.at if retrieval else use.at

    @property
    def reviewed(self) -> Stage | None:
        """The stage that the annotators agree on; None where there are none, or they disagree."""
        stages: set[Stage] = {judgement.stage for judgement in self.people}
        return stages.pop() if len(stages) == 1 else None

    @property
    def stage(self) -> Stage | None:
        """The stage that counts: the annotators' where they agree, else the attribution's."""
        return self.reviewed or (self.run.verdict.stage if self.run.verdict else None)


# ---------------------------------------------------------------- a run


def run_cases(folder: Path) -> tuple[Header, list[Case]]:
    """The tasks of a run, in each arm.

    Raises:
        ConfigError: there are no results, or the judgements can't be read.
    """
    header, runs = read_results(folder)
    people = _by_task(read_judgements(folder))
    return header, [_of_run(run, people) for run in runs]


def _of_run(run: TaskRun, people: Mapping[tuple[str, str], list[Judgement]]) -> Case:
    workspace = run.record.workspace_id if run.record else ""
    judgements = people[workspace, run.task_id] if run.verdict else ()
    return Case(workspace, run, people=tuple(judgements))


def read_judgements(folder: Path) -> list[Judgement]:
    """Reads the judgements of annotators on the tasks of a run.

    Raises:
        ConfigError: the file can't be read.
    """
    file = folder / JUDGEMENTS_FILE
    if not file.exists():
        return []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return [Judgement.from_json(json.loads(line)) for line in lines]
    except (OSError, ValueError, ValidationError) as error:
        raise ConfigError(
            f"{file} holds no judgements ({type(error).__name__}): put it away and import the "
            "annotations again (memplugin review import)."
        ) from error


def add_judgements(folder: Path, judgements: Sequence[Judgement]) -> None:
    """Stores judgements beside a run; the last one of an annotator on a task replaces others.

    Raises:
        ConfigError: the file can't be read or written.
    """
    kept = {(j.workspace_id, j.task_id, j.by): j for j in (*read_judgements(folder), *judgements)}
    text = "".join(json.dumps(j.to_json(), ensure_ascii=False) + "\n" for j in kept.values())
    new = folder / f"{JUDGEMENTS_FILE}.new"
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(folder / JUDGEMENTS_FILE)  # whole or not at all
    except OSError as error:
        raise ConfigError(f"{new} can't be written: {error}. Check the folder.") from error


# ---------------------------------------------------------------- a store


def store_cases(
    ledger: SqlLedger,
    workspace_ids: Iterable[str],
    on_task: Callable[[], None] = lambda: None,
) -> list[Case]:
    """Reads every task of some workspaces, the latest first.

    The verdict of a task is the one that was stored when it was last diagnosed. A task that
    was never diagnosed and did not pass is undetermined: what it needed is not known.

    Args:
        ledger: The ledger of the store.
        workspace_ids: The workspaces.
        on_task: Called with each task, those without a recall or an outcome too.

    Returns:
        The tasks with a recall, a decision or an outcome.

    Raises:
        StoreError: the ledger could not be read.
    """
    found: list[Case] = []
    for workspace_id in workspace_ids:
        judgements = _by_task(ledger.judgements.of(workspace_id))
        for task_id in ledger.history.tasks(workspace_id):
            record = TaskRecord.from_ledger(ledger, workspace_id, task_id)
            if record.retrievals or record.use.decision_id or record.success is not None:
                found.append(_of_store(record, judgements[workspace_id, task_id]))
            on_task()
    return found


def _of_store(record: TaskRecord, judgements: Sequence[Judgement]) -> Case:
    machine = next((one for one in judgements if one.by == MACHINE), None)
    need = (machine.need if machine else None) or Need()
    return Case(
        workspace_id=record.workspace_id,
        run=TaskRun(
            task_id=record.task_id,
            arm=record.arm,
            success=record.success,
            answer=record.use.answer,
            record=record,
            verdict=_verdict(machine) if machine else attribute(record, need),
        ),
        needed=need.text or ", ".join(need.record_ids) or None,
        people=tuple(one for one in judgements if one.by != MACHINE),
    )


def _verdict(machine: Judgement) -> Verdict:
    return Verdict(
        stage=machine.stage,
        cause=machine.cause or "",
        record_id=machine.record_id,
        rank=machine.rank,
        evidence=machine.evidence,
        next_step=NEXT_STEPS.get((machine.stage, machine.cause or ""), ""),
        task_id=machine.task_id,
    )


def _by_task(judgements: Iterable[Judgement]) -> Mapping[tuple[str, str], list[Judgement]]:
    found: defaultdict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        found[judgement.workspace_id, judgement.task_id].append(judgement)
    return found
