"""Verdicts on Memory-Benchmark-1's runs, beside the labels of the benchmark's own judge.

What was said in the sessions is not in the data: that a needed memory was said, is the
benchmark's word. The labels are a model's word too, so that a disagreement is to be read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memplugin.diagnosis.attribution import attribute, earliest, furthest
from memplugin.diagnosis.census import Census
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.diagnosis.wording import carries
from memplugin.evaluation.adapters.memorybench1 import WRITTEN, Trace
from memplugin.evaluation.intervals import Estimate, share
from memplugin.ports import Embedder
from memplugin.records import Need, Noun, Stage, Turn, Verdict

CLOSE = 0.6
"""Cosine of a needed memory and a sentence of a stored one from which it says the same."""

EXPLAINED_BY: Mapping[str, frozenset[Stage]] = {
    "missing_memory": frozenset({"write", "retrieval"}),
    "stale_memory": frozenset({"write", "retrieval", "use"}),
    "hallucinated_memory": frozenset({"use"}),
}
"""Which stages may have failed under each of their labels. A stale answer may come from any
of them: the update was not stored, not shown, or shown and passed over."""

_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Compared(Noun):
    """A failed test: their labels, and the verdict."""

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
    """All tests: their labels against the verdicts.

    Attributes:
        agreement: The share of failed tests whose verdict explains a label.
        table: Label, then ``stage/cause``, to the number of tests.
        passing_unshown: Tests that passed although a needed memory was not among those
            retrieved: a pass does not show that memory works.
        first_shown: Tests whose retrieved memories are the first of the store, in its
            order, whatever was asked.
    """

    system: str
    tests: int
    passed: int
    agreement: Estimate
    table: Mapping[str, Mapping[str, int]]
    compared: tuple[Compared, ...]
    passing_unshown: int
    first_shown: int

    @property
    def holds(self) -> bool:
        """Always: their labels are a model's word, and no truth to be held to."""
        return True

    @property
    def disagreements(self) -> tuple[Compared, ...]:
        """The failed tests whose verdict explains none of their labels."""
        return tuple(one for one in self.compared if not one.agrees)


def compare(system: str, traces: Sequence[Trace], embedder: Embedder) -> TracesReport:
    """Attributes every test, and holds the verdicts against their labels.

    Raises:
        ConfigError: SciPy is not installed.
        EmbedderError: the embedder gave no vector.
    """
    sayings = _Sayings(embedder)
    failed = [trace for trace in traces if not trace.record.success]
    compared = tuple(
        Compared(
            task_id=trace.record.task_id,
            category=trace.category,
            query=(trace.record.retrieval.query if trace.record.retrieval else None) or "",
            labels=trace.labels,
            verdict=_verdict(trace, sayings),
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
        passing_unshown=sum(_unshown(trace, sayings) for trace in passed),
        first_shown=sum(_first_shown(trace.record) for trace in traces),
    )


@dataclass(slots=True)
class _Sayings:
    """Which memories say what is required: by their words, else by one sentence's meaning."""

    embedder: Embedder
    _vectors: dict[str, NDArray[np.float32]] = field(default_factory=dict[str, NDArray[np.float32]])

    def of(self, required: str, contents: Sequence[str]) -> list[str]:
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


def _verdict(trace: Trace, sayings: _Sayings) -> Verdict:
    """All that is required is needed, and any memory that says it will do."""
    record = trace.record
    if not trace.required:
        return attribute(record, Need(), Census())
    return earliest(_verdict_on(required, record, sayings) for required in trace.required)


def _verdict_on(required: str, record: TaskRecord, sayings: _Sayings) -> Verdict:
    contents = {w.content: w for w in record.writes if w.content}
    saying = [contents[content] for content in sayings.of(required, list(contents))]
    if not saying:
        # That it was said is the benchmark's word, in whose sessions it stands.
        turn = Turn("t_said", "s_told", "user", required, WRITTEN)
        return attribute(record, Need(turn_id=turn.id), Census(turns=(turn,)))
    return furthest(
        attribute(record, Need(record_ids=(w.record_id or "",)), Census(writes=(w,)))
        for w in saying
    )


def _unshown(trace: Trace, sayings: _Sayings) -> bool:
    shown = (
        [c.content or "" for c in trace.record.retrieval.candidates]
        if trace.record.retrieval
        else []
    )
    return any(not sayings.of(required, shown) for required in trace.required)


def _first_shown(record: TaskRecord) -> bool:
    shown = [c.content for c in record.retrieval.candidates] if record.retrieval else []
    return shown == [write.content for write in record.writes[: len(shown)]]


def _table(compared: Sequence[Compared]) -> dict[str, dict[str, int]]:
    counts = Counter(
        (label, f"{one.verdict.stage}/{one.verdict.cause}")
        for one in compared
        for label in one.labels
    )
    labels = dict.fromkeys(label for label, _ in counts)
    return {label: {c: n for (of, c), n in counts.most_common() if of == label} for label in labels}
