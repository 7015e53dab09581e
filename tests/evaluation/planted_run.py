"""A run's results, put together by hand: eighty tasks with memory, and the same without."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memplugin.diagnosis.stages import verdict_of
from memplugin.diagnosis.task_record import (
    CandidateEntry,
    CounterfactualEntry,
    RetrievalEntry,
    TaskRecord,
    UseEntry,
    WriteEntry,
)
from memplugin.evaluation.results import Cost, Header, TaskRun
from memplugin.records import Stage

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)> & \"quoted\" 'text'"
LONG = "Überlänge" * 30 + " https://example.org/" + "a" * 200

PLAN: tuple[tuple[Stage, str, int, int | None], ...] = (
    ("write", "never_proposed", 6, None),
    ("write", "rejected", 3, None),
    ("retrieval", "below_cutoff", 7, 7),
    ("retrieval", "beyond_depth", 2, 64),
    ("use", "ignored", 4, 1),
    ("use", "misapplied", 2, 2),
    ("undetermined", "no_need", 1, None),
    ("none", "passed", 55, None),
)
"""Stage, cause, how many tasks, and the rank of the needed record."""


def header() -> Header:
    return Header("planted", "0" * 16, ("memory_on", "memory_off"), "scripted", "hashing-64")


def runs() -> Iterator[TaskRun]:
    """The tasks of ``PLAN``, in both arms."""
    draw = random.Random(7)
    number = 0
    for stage, cause, times, rank in PLAN:
        for _ in range(times):
            number += 1
            yield from _task(number, stage, cause, rank, draw)


def write(folder: Path) -> Path:
    """Writes the run into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [header().to_json(), *(run.to_json() for run in runs())]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "results.jsonl").write_text(text, encoding="utf-8")
    return folder


def _task(
    number: int, stage: Stage, cause: str, rank: int | None, draw: random.Random
) -> Iterator[TaskRun]:
    task_id, passed = f"t_{number:04}", stage == "none"
    without = draw.random() < 0.45
    record = _record(task_id, number, passed=passed, rank=rank, draw=draw)
    needed = "m_needed" if rank else None
    verdict = verdict_of(stage, cause, "as it was planted", record_id=needed, rank=rank)
    yield TaskRun(
        task_id=task_id,
        arm="memory_on",
        success=passed,
        answer={"basis": "net" if passed else "gross"},
        cost=Cost(answer_ms=draw.gauss(420, 60), tokens_in=900, tokens_out=80),
        record=record,
        verdict=verdict,
    )
    yield TaskRun(
        task_id=task_id,
        arm="memory_off",
        success=without,
        answer={"basis": "net" if without else "gross"},
        corrections=0 if without else 1,
        cost=Cost(answer_ms=draw.gauss(300, 60), tokens_in=draw.randint(500, 800), tokens_out=80),
    )


def _record(
    task_id: str, number: int, *, passed: bool, rank: int | None, draw: random.Random
) -> TaskRecord:
    at = START + timedelta(hours=9 * number)
    ids = [f"m_{number}_{place}" for place in range(1, 10)]
    if rank and rank <= len(ids):
        ids[rank - 1] = "m_needed"
    shown = draw.randint(1, 3)
    candidates = tuple(
        CandidateEntry(
            rank=place,
            record_id=record_id,
            score=1 - place / 10,
            injected=place <= shown,
            content=HOSTILE if place == 1 else (LONG if place == 2 else f"memory {record_id}"),
            cut=None if place <= shown else "below_cutoff",
        )
        for place, record_id in enumerate(ids, 1)
    )
    bearing = set(draw.sample(ids[:shown], draw.randint(0, shown))) if passed else set()
    return TaskRecord(
        task_id=task_id,
        workspace_id="ws_1",
        arm="memory_on",
        writes=(
            WriteEntry("s_1", ids[0], "preference", HOSTILE, "accepted", None, 0.8, at, "p_1", at),
            WriteEntry("s_1", None, "fact", "so so", "rejected", "low", 0.2, None, "p_2", at),
        ),
        retrieval=RetrievalEntry(
            id=f"r_{number}",
            session="s_2",
            query=f"Which basis for pack {number}? {HOSTILE}",
            filters={"workspace_id": "ws_1", "kind": None, "scope": {}},
            k=3,
            policy="balanced@1",
            total=40,
            shown=shown,
            pending_index=0,
            at=at,
            candidates=candidates,
        ),
        use=UseEntry(
            cited_record_ids=(ids[0],),
            decision_id=f"d_{number}",
            status="decided",
            answer={"basis": "net" if passed else "gross"},
            counterfactuals=tuple(
                CounterfactualEntry(i, "load_bearing" if i in bearing else "not", 0.01)
                for i in ids[:shown]
                if passed
            ),
        ),
        success=passed,
        sessions=("s_1", "s_2"),
    )
