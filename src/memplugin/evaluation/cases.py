"""What the report and the review look at: tasks, from a run of a suite or from a store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.evaluation.results import Cost, Header, TaskRun, read_results
from memplugin.ports import Ledger
from memplugin.records import MACHINE, Json, Judgement, Need, Stage, Verdict

JUDGEMENTS_FILE = "judgements.jsonl"
"""Beside the results of a run: what people said of its tasks."""


@dataclass(frozen=True, slots=True)
class Case:
    """One task in one arm.

    Attributes:
        verdict: None in an arm without memory.
        load_bearing: Records without which the answer is another; None when not tried.
        needed: What should have been used, in words or ids; None when not known.
        people: What people said of it, each once.
    """

    task_id: str
    workspace_id: str
    arm: str
    success: bool | None
    record: TaskRecord | None
    verdict: Verdict | None
    load_bearing: tuple[str, ...] | None = None
    needed: str | None = None
    people: tuple[Judgement, ...] = ()
    answer: Json | None = None
    corrections: int = 0
    cost: Cost | None = None
    error: str | None = None

    @property
    def at(self) -> datetime | None:
        """When it asked memory, or decided."""
        if self.record is None:
            return None
        retrieval, use = self.record.retrieval, self.record.use
        return retrieval.at if retrieval else use.at

    @property
    def reviewed(self) -> Stage | None:
        """The stage that people agree on; None when nobody looked, or they don't agree."""
        stages: set[Stage] = {judgement.stage for judgement in self.people}
        return stages.pop() if len(stages) == 1 else None

    @property
    def stage(self) -> Stage | None:
        """What counts: people's word where they agree, else the attribution's."""
        return self.reviewed or (self.verdict.stage if self.verdict else None)


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
    return Case(
        task_id=run.task_id,
        workspace_id=workspace,
        arm=run.arm,
        success=run.success,
        record=run.record,
        verdict=run.verdict,
        load_bearing=_tried(run.record),
        people=tuple(people[workspace, run.task_id]) if run.verdict else (),
        answer=run.answer,
        corrections=run.corrections,
        cost=run.cost,
        error=run.error,
    )


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
    ledger: Ledger,
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
        said = _by_task(ledger.judgements(workspace_id))
        for task_id in ledger.tasks(workspace_id):
            record = TaskRecord.from_ledger(ledger, workspace_id, task_id)
            if record.retrievals or record.use.decision_id or record.success is not None:
                found.append(_of_store(record, said[workspace_id, task_id]))
            on_task()
    return found


def _of_store(record: TaskRecord, said: Sequence[Judgement]) -> Case:
    machine = next((judgement for judgement in said if judgement.by == MACHINE), None)
    need = (machine.need if machine else None) or Need()
    return Case(
        task_id=record.task_id,
        workspace_id=record.workspace_id,
        arm=record.arm,
        success=record.success,
        record=record,
        verdict=_verdict(machine) if machine else attribute(record, need),
        load_bearing=_tried(record),
        needed=need.text or ", ".join(need.record_ids) or None,
        people=tuple(judgement for judgement in said if judgement.by != MACHINE),
        answer=record.use.answer,
    )


def _verdict(machine: Judgement) -> Verdict:
    return Verdict(
        stage=machine.stage,
        cause=machine.cause or "",
        record_id=machine.record_id,
        rank=machine.rank,
        evidence=machine.evidence,
        task_id=machine.task_id,
    )


def _tried(record: TaskRecord | None) -> tuple[str, ...] | None:
    """The load-bearing records, when every shown record was tried."""
    if record is None or record.retrieval is None:
        return None
    verdicts = {one.record_id: one.verdict for one in record.use.counterfactuals}
    shown = [c.record_id for c in record.retrieval.candidates if c.injected]
    if not verdicts or any(verdicts.get(record_id) is None for record_id in shown):
        return None
    return tuple(i for i in shown if verdicts[i] == "load_bearing")


def _by_task(said: Iterable[Judgement]) -> Mapping[tuple[str, str], list[Judgement]]:
    found: defaultdict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for judgement in said:
        found[judgement.workspace_id, judgement.task_id].append(judgement)
    return found


def with_people(cases: Sequence[Case], said: Sequence[Judgement]) -> list[Case]:
    """The cases with what people said of them instead of what they had."""
    people = _by_task(said)
    return [replace(case, people=tuple(people[case.workspace_id, case.task_id])) for case in cases]
