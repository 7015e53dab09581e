"""Memory-Benchmark-1: runs of another memory system, imported as task records.

Each test has the memories that were needed, those that were retrieved, the answer, and the
label that the benchmark's own judge gave a failure; each profile has the store as it was in
the end.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memplugin.diagnosis.task_record import (
    CandidateEntry,
    RetrievalEntry,
    TaskRecord,
    UseEntry,
    WriteEntry,
)
from memplugin.errors import ConfigError
from memplugin.evaluation.adapters.places import DataSet
from memplugin.records import Json

MEMORYBENCH1 = DataSet(
    "Memory-Benchmark-1",
    "MEMPLUGIN_MEMORYBENCH1",
    ("memorybench1_langmem_traces.json",),
    "https://github.com/Jenverse/Memory-Benchmark-1 (MIT by its README)",
)

WRITTEN = datetime(2026, 2, 1, tzinfo=UTC)
_ASKED = WRITTEN + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Trace:
    """One test of one profile, in our shape.

    Attributes:
        required: What was needed, in the benchmark's words.
        rating: ``correct``, ``partially_correct`` or ``incorrect``.
        labels: Why it failed, by their judge.
    """

    record: TaskRecord
    required: tuple[str, ...]
    category: str
    rating: str
    labels: tuple[str, ...]
    explanation: str


def load(path: Path) -> tuple[str, list[Trace]]:
    """Reads the published file: the system's name, and its tests.

    Raises:
        ConfigError: it is another file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return data["system_name"], [t for p in data["profile_results"] for t in _traces(p)]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is not Memory-Benchmark-1's data ({error!r}): {MEMORYBENCH1.absent}"
        ) from error


def _traces(profile: Json) -> Iterator[Trace]:
    writes = tuple(_write(memory) for memory in profile["all_memories_after"])
    for test in profile["test_results"]:
        yield Trace(
            record=_record(profile["user_id"], test, writes),
            required=tuple(test["required_memories"]),
            category=test["category"],
            rating=test["evaluation"]["rating"],
            labels=tuple(test["evaluation"]["failure_modes"]),
            explanation=test["evaluation"]["explanation"],
        )


def _write(memory: Json) -> WriteEntry:
    return WriteEntry(
        session=f"s_{memory['metadata']['session_id']}",
        record_id=memory["id"],
        kind=None,
        content=memory["content"],
        gate="accepted",
        reason=None,
        extractor_confidence=None,
        indexed_at=WRITTEN,
        proposal_id=f"p_{memory['id']}",
        written_at=WRITTEN,
        status="active",
    )


def _record(workspace: str, test: Json, writes: tuple[WriteEntry, ...]) -> TaskRecord:
    ids = {write.content: write.record_id for write in writes}
    found = test["retrieved_memories"]
    retrieval = RetrievalEntry(
        id=f"r_{test['test_id']}",
        session="s_test",
        query=test["query"],
        filters={"workspace_id": workspace, "kind": None, "scope": {}},
        k=len(found),
        policy="langmem",
        total=len(writes),
        shown=len(found),
        pending_index=0,
        at=_ASKED,
        candidates=tuple(
            CandidateEntry(rank, ids.get(content) or f"unknown_{rank}", 0.0, True, content)
            for rank, content in enumerate(found, 1)
        ),
    )
    return TaskRecord(
        task_id=test["test_id"],
        workspace_id=workspace,
        arm="memory_on",
        writes=writes,
        retrieval=retrieval,
        use=UseEntry(
            decision_id=f"d_{test['test_id']}",
            retrieval_id=retrieval.id,
            status="decided",
            answer={"answer": test["system_answer"]},
            at=_ASKED,
        ),
        success=test["evaluation"]["rating"] == "correct",
        retrievals=(retrieval,),
        sessions=("s_test",),
    )
