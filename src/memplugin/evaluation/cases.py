"""What the report and the review look at: tasks, from a run of a suite or from a store."""

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
"""Beside the results of a run: what people said of its tasks."""


@dataclass(frozen=True, slots=True)
class Case:
    """One task in one arm, and who said what of it.

    Attributes:
        needed: What should have been used, in words or ids; None when not known.
        people: What people said of it, each once.
    """

    workspace_id: str
    run: TaskRun
    needed: str | None = None
    people: tuple[Judgement, ...] = ()

    @property
    def at(self) -> datetime | None:
        """When it asked memory, or decided."""
        if self.run.record is None:
            return None
        retrieval, use = self.run.record.retrieval, self.run.record.use
        return retrieval.at if retrieval else use.at

    @property
    def reviewed(self) -> Stage | None:
        """The stage that people agree on; None when nobody looked, or they don't agree."""
        stages: set[Stage] = {judgement.stage for judgement in self.people}
        return stages.pop() if len(stages) == 1 else None

    @property
    def stage(self) -> Stage | None:
        """What counts: people's word where they agree, else the attribution's."""
        return self.reviewed or (self.run.verdict.stage if self.run.verdict else None)


# ---------------------------------------------------------------- a run


def run_cases(folder: Path) -> tuple[Header, list[Case]]:
    """The tasks of a run, in each arm.

    Raises:
        ConfigError: there are no results, or what people said can't be read.
    """
    header, runs = read_results(folder)
    people = _by_task(read_judgements(folder))
    return header, [_of_run(run, people) for run in runs]


def _of_run(run: TaskRun, people: Mapping[tuple[str, str], list[Judgement]]) -> Case:
    workspace = run.record.workspace_id if run.record else ""
    said = people[workspace, run.task_id] if run.verdict else ()
    return Case(workspace, run, people=tuple(said))


def read_judgements(folder: Path) -> list[Judgement]:
    """What people said of the tasks of a run.

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


def add_judgements(folder: Path, said: Sequence[Judgement]) -> None:
    """Keeps what people said beside the run; of the same task by the same, the last counts.

    Raises:
        ConfigError: the file can't be read or written.
    """
    kept = {(j.workspace_id, j.task_id, j.by): j for j in (*read_judgements(folder), *said)}
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
    """Every task of some workspaces, the latest first.

    The verdict of a task is the one that was kept when it was last diagnosed. One that
    was not, and that did not pass, is undetermined: nothing says what it needed.

    Raises:
        StoreError: the ledger could not be read.
    """
    found: list[Case] = []
    for workspace_id in workspace_ids:
        said = _by_task(ledger.judgements.of(workspace_id))
        for task_id in ledger.history.tasks(workspace_id):
            record = TaskRecord.from_ledger(ledger, workspace_id, task_id)
            if record.retrievals or record.use.decision_id or record.success is not None:
                found.append(_of_store(record, said[workspace_id, task_id]))
            on_task()
    return found


def _of_store(record: TaskRecord, said: Sequence[Judgement]) -> Case:
    machine = next((judgement for judgement in said if judgement.by == MACHINE), None)
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
        people=tuple(judgement for judgement in said if judgement.by != MACHINE),
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


def _by_task(said: Iterable[Judgement]) -> Mapping[tuple[str, str], list[Judgement]]:
    found: defaultdict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for judgement in said:
        found[judgement.workspace_id, judgement.task_id].append(judgement)
    return found
