"""A task as a block, its record from the ledger, and the verdict on it, with exact ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from memplugin.config import MemoryContext
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_search import FoundEvidence, find_evidence
from memplugin.diagnosis.task_record import RetrievalEntry, TaskRecord, retrieval_entry
from memplugin.errors import ConfigError
from memplugin.memory.backend import Backend
from memplugin.memory.recall import checked_request, explain
from memplugin.records import MACHINE, Explanation, Judgement, Need, Retrieval, Verdict
from memplugin.telemetry import names
from memplugin.telemetry.attributes import finished
from memplugin.text import clean_json


def judge(backend: Backend, record: TaskRecord, need: Need) -> Verdict:
    """Names the stage, given the task's record, and keeps that for reports.

    Args:
        backend: The store.
        record: The task's.
        need: What should have been used.

    Returns:
        The verdict.
    """
    need = Need.from_json(clean_json(need.to_json()))
    verdict = attribute(record, need, task_evidence(backend, record, need))
    if verdict.cause != "no_need":  # a verdict of before, with a need, says more
        backend.ledger.judgements.save([_judgement(backend, record, need, verdict)])
    return replace(verdict, task_id=record.task_id)


def _judgement(backend: Backend, record: TaskRecord, need: Need, verdict: Verdict) -> Judgement:
    return Judgement(
        workspace_id=record.workspace_id,
        task_id=record.task_id,
        by=MACHINE,
        stage=verdict.stage,
        cause=verdict.cause,
        record_id=verdict.record_id,
        rank=verdict.rank,
        evidence=verdict.evidence,
        need=need,
        at=backend.clock.now(),
    )


def publish(backend: Backend, record: TaskRecord, verdict: Verdict | None) -> None:
    """Shows a task's outcome and verdict on a span of its own, under the task's id.

    Args:
        backend: The store.
        record: The task's.
        verdict: None when there is none.
    """
    context = MemoryContext(
        workspace_id=record.workspace_id,
        session_id=record.sessions[-1] if record.sessions else record.task_id,
        task_id=record.task_id,
        arm=record.arm,
    )
    with backend.tracing.hop(names.TASK, context) as hop:
        hop.set(finished(record.success, verdict, at=backend.clock.now()))


def task_record(backend: Backend, workspace_id: str, task_id: str) -> TaskRecord:
    """Builds a task's record from the ledger.

    Args:
        backend: The store.
        workspace_id: The workspace.
        task_id: The task.

    Returns:
        The record.

    Raises:
        ConfigError: the workspace has no such task.
    """
    record = TaskRecord.from_ledger(backend.ledger, workspace_id, task_id)
    if not record.sessions:
        raise ConfigError(
            f"workspace {workspace_id!r} has no task {task_id!r}: check both ids "
            "(`memplugin doctor` lists workspaces)."
        )
    return record


def task_evidence(backend: Backend, record: TaskRecord, need: Need) -> FoundEvidence:
    """What the store holds about a need, and where it stood for the task's retrieval.

    Args:
        backend: The store.
        record: The task's.
        need: What should have been used.

    Returns:
        Records, proposals and turns; and an explanation for each record that the retrieval did not
        bring.
    """
    found = find_evidence(backend.ledger, record.workspace_id, need)
    if record.retrieval is None:
        return found
    seen = {candidate.record_id for candidate in record.retrieval.candidates}
    missed = [w.record_id for w in found.writes if w.record_id and w.record_id not in seen]
    explanations = [
        _explain(
            backend,
            record.workspace_id,
            record.retrieval.session,
            record.task_id,
            record.retrieval,
            record_id,
        )
        for record_id in missed
    ]
    return replace(found, explanations=tuple(explanations))


def explain_retrieval(backend: Backend, retrieval: Retrieval, record_id: str) -> Explanation:
    """Where a record stood for a retrieval.

    Args:
        backend: The store.
        retrieval: The retrieval.
        record_id: The record.

    Returns:
        Its rank, or what excluded it.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    entry = retrieval_entry(retrieval)
    return _explain(
        backend, retrieval.workspace_id, retrieval.session_id, retrieval.task_id, entry, record_id
    )


def _explain(
    backend: Backend,
    workspace_id: str,
    session_id: str,
    task_id: str,
    retrieval: RetrievalEntry,
    record_id: str,
) -> Explanation:
    context = MemoryContext(
        workspace_id=workspace_id,
        session_id=session_id,
        task_id=task_id,
        scope=cast(dict[str, Any], retrieval.filters.get("scope") or {}),
    )
    request = checked_request(
        backend,
        retrieval.query or "",
        context,
        retrieval.k,
        cast(list[str] | None, retrieval.filters.get("kind")),
        # The version that ranked it, where it is still there.
        retrieval.policy
        if retrieval.policy in backend.policies
        else retrieval.policy.split("@")[0],
    )
    return explain(backend, request, record_id, retrieval.at)


@dataclass(slots=True)
class Task:
    """A task that is being worked on.

    Attributes:
        verdict: Set by ``diagnose``; shown on the task's span when the block ends.
    """

    backend: Backend = field(repr=False)
    workspace_id: str
    task_id: str
    arm: str
    verdict: Verdict | None = None

    def context(
        self,
        session_id: str,
        *,
        scope: Mapping[str, str] | None = None,
        user_id: str | None = None,
        attempt: int = 1,
    ) -> MemoryContext:
        """The context of one session of this task.

        Args:
            session_id: The session.
            scope: What the request is about.
            user_id: Whose it is.
            attempt: Which attempt at the task, from 1.

        Returns:
            The context, to give to every call.
        """
        return MemoryContext(
            workspace_id=self.workspace_id,
            session_id=session_id,
            task_id=self.task_id,
            user_id=user_id,
            arm=self.arm,
            scope=scope or {},
            attempt=attempt,
        )

    def record(self) -> TaskRecord:
        """What the task's hops have left behind so far."""
        return TaskRecord.from_ledger(self.backend.ledger, self.workspace_id, self.task_id)

    def diagnose(self, need: Need) -> Verdict:
        """Names the stage at which the task failed."""
        self.verdict = judge(self.backend, self.record(), need)
        return self.verdict
