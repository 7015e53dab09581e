"""Memory-Benchmark-1: runs of another memory system, compared with our verdicts on them.

Each test has the memories that were needed, those that were retrieved, the answer, and the
labels that the benchmark gives a failure; each profile has the final contents of the store.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memplugin.diagnosis.attribution import attribute, earliest, furthest
from memplugin.diagnosis.evidence_search import FoundEvidence
from memplugin.diagnosis.need import carries
from memplugin.diagnosis.statistics import Estimate, share
from memplugin.diagnosis.task_record import (
    CandidateEntry,
    RetrievalEntry,
    TaskRecord,
    UseEntry,
    WriteEntry,
)
from memplugin.errors import ConfigError
from memplugin.evaluation.adapters.files import DataSet
from memplugin.ports import Embedder
from memplugin.records import Json, Need, Noun, Stage, Turn, Verdict

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
    """One test of one profile, as a task record.

    Attributes:
        required: What was needed, in the words of the benchmark.
        rating: ``correct``, ``partially_correct`` or ``incorrect``.
        labels: Why it failed, according to the benchmark.
    """

    record: TaskRecord
    required: tuple[str, ...]
    category: str
    rating: str
    labels: tuple[str, ...]
    explanation: str


def load(path: Path) -> tuple[str, list[Trace]]:
    """Reads the published file: the name of the system, and its tests.

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


# ---------------------------------------------------------------- their labels and our verdicts

CLOSE = 0.6
"""Cosine from which a sentence of a stored memory says what is needed."""

EXPLAINED_BY: Mapping[str, frozenset[Stage]] = {
    "missing_memory": frozenset({"write", "retrieval"}),
    "stale_memory": frozenset({"write", "retrieval", "use"}),
    "hallucinated_memory": frozenset({"use"}),
}
"""Which stages may have failed under each label. A stale answer may come from any of them:
the update was not stored, not shown, or shown and not used."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class ComparedVerdict(Noun):
    """A failed test, its labels, and the verdict on it."""

    task_id: str
    category: str
    query: str
    labels: tuple[str, ...]
    verdict: Verdict
    explanation: str

    @property
    def agrees(self) -> bool:
        """Whether the verdict's stage explains one of the labels."""
        return any(self.verdict.stage in EXPLAINED_BY.get(label, ()) for label in self.labels)


@dataclass(frozen=True, slots=True)
class TracesReport(Noun):
    """The labels of all tests compared with the verdicts.

    Attributes:
        agreement: The share of failed tests whose verdict explains a label.
        table: The number of tests by label, then by ``stage/cause``.
        passing_unshown: How many tests passed although a needed memory was not
            retrieved: a pass does not show that memory works.
        first_shown: How many tests retrieved just the first memories of the store, in its
            order, so that the query had no influence.
    """

    system: str
    tests: int
    passed: int
    agreement: Estimate
    table: Mapping[str, Mapping[str, int]]
    compared: tuple[ComparedVerdict, ...]
    passing_unshown: int
    first_shown: int

    @property
    def holds(self) -> bool:
        """Always true: the labels come from a model and are not certain."""
        return True

    @property
    def disagreements(self) -> tuple[ComparedVerdict, ...]:
        """The failed tests whose verdict explains none of the labels."""
        return tuple(one for one in self.compared if not one.agrees)


def compare(system: str, traces: Sequence[Trace], embedder: Embedder) -> TracesReport:
    """Attributes every test, and compares the verdicts with the labels.

    Args:
        system: The name of the system whose runs they are.
        traces: Its tests, from ``load``.
        embedder: Decides which memories say what was needed, where the words do not.

    Returns:
        The comparison.

    Raises:
        ConfigError: SciPy is not installed.
        EmbedderError: the embedder gave no vector.
    """
    comparer = _Comparer(embedder)
    failed = [trace for trace in traces if not trace.record.success]
    compared = tuple(
        ComparedVerdict(
            task_id=trace.record.task_id,
            category=trace.category,
            query=(trace.record.retrieval.query if trace.record.retrieval else None) or "",
            labels=trace.labels,
            verdict=_verdict(trace, comparer),
            explanation=trace.explanation,
        )
        for trace in failed
    )
    passed = [trace for trace in traces if trace.record.success]
    return TracesReport(
        system=system,
        tests=len(traces),
        passed=len(passed),
        agreement=share(sum(one.agrees for one in compared), len(compared)),
        table=_table(compared),
        compared=compared,
        passing_unshown=sum(_unshown(trace, comparer) for trace in passed),
        first_shown=sum(_first_shown(trace.record) for trace in traces),
    )


@dataclass(slots=True)
class _Comparer:
    """Finds memories that say what is required: by their words, else by one sentence's vector."""

    embedder: Embedder
    _vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])

    def saying(self, required: str, contents: Sequence[str]) -> list[str]:
        return [c for c in contents if carries(required, c)] or [
            c for c in contents if self._close(required, c)
        ]

    def _close(self, required: str, content: str) -> bool:
        wanted = self._vector(required)
        sentences = _SENTENCE.split(content)
        return any(float(wanted @ self._vector(sentence)) >= CLOSE for sentence in sentences)

    def _vector(self, text: str) -> NDArray[np.float32]:
        if text not in self._vectors:
            self._vectors[text] = self.embedder.embed([text])[0]
        return self._vectors[text]


def _verdict(trace: Trace, comparer: _Comparer) -> Verdict:
    """The verdict on a test that needs all that is required, from any memory that says it."""
    record = trace.record
    if not trace.required:
        return attribute(record, Need(), FoundEvidence())
    return earliest(_verdict_on(required, record, comparer) for required in trace.required)


def _verdict_on(required: str, record: TaskRecord, comparer: _Comparer) -> Verdict:
    contents = {w.content: w for w in record.writes if w.content}
    saying = [contents[content] for content in comparer.saying(required, list(contents))]
    if not saying:
        # The sessions of the benchmark are not in the data; that they say it is assumed.
        turn = Turn("t_required", "s_earlier", "user", required, WRITTEN)
        return attribute(record, Need(turn_id=turn.id), FoundEvidence(turns=(turn,)))
    return furthest(
        attribute(record, Need(record_ids=(w.record_id or "",)), FoundEvidence(writes=(w,)))
        for w in saying
    )


def _unshown(trace: Trace, comparer: _Comparer) -> bool:
    shown = (
        [c.content or "" for c in trace.record.retrieval.candidates]
        if trace.record.retrieval
        else []
    )
    return any(not comparer.saying(required, shown) for required in trace.required)


def _first_shown(record: TaskRecord) -> bool:
    shown = [c.content for c in record.retrieval.candidates] if record.retrieval else []
    return shown == [write.content for write in record.writes[: len(shown)]]


def _table(compared: Sequence[ComparedVerdict]) -> dict[str, dict[str, int]]:
    counts = Counter(
        (label, f"{one.verdict.stage}/{one.verdict.cause}")
        for one in compared
        for label in one.labels
    )
    labels = dict.fromkeys(label for label, _ in counts)
    return {label: {c: n for (of, c), n in counts.most_common() if of == label} for label in labels}
