"""Reading back: a task's record, the census, and the verdict, with exact ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from memplugin.config import MemoryContext
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.census import Census, look_up
from memplugin.diagnosis.task_record import RetrievalEntry, TaskRecord, retrieval_entry
from memplugin.errors import ConfigError
from memplugin.memory.recalling import explain, request
from memplugin.memory.store import Store
from memplugin.records import MACHINE, Explanation, Judgement, Need, Retrieval, Verdict
from memplugin.telemetry import names
from memplugin.telemetry.report import finished
from memplugin.text import clean_json


def diagnose(store: Store, workspace_id: str, task_id: str, need: Need) -> Verdict:
    """Names the stage at which a task failed.

    Raises:
        ConfigError: the workspace has no such task.
    """
    return judge(store, task_record(store, workspace_id, task_id), need)


def judge(store: Store, record: TaskRecord, need: Need) -> Verdict:
    """Names the stage, given the task's record, and keeps that for reports."""
    need = Need.from_json(clean_json(need.to_json()))
    verdict = attribute(record, need, census(store, record, need))
    if verdict.cause != "no_need":  # a verdict of before, with a need, says more
        store.ledger.save_judgements([_judgement(store, record, need, verdict)])
    return replace(verdict, task_id=record.task_id)


def _judgement(store: Store, record: TaskRecord, need: Need, verdict: Verdict) -> Judgement:
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
        at=store.clock.now(),
    )


def publish(store: Store, record: TaskRecord, verdict: Verdict | None) -> None:
    """Shows a task's outcome and verdict on a span of its own, under the task's id."""
    context = MemoryContext(
        workspace_id=record.workspace_id,
        session_id=record.sessions[-1] if record.sessions else record.task_id,
        task_id=record.task_id,
        arm=record.arm,
    )
    with store.tracing.hop(names.TASK, context) as hop:
        hop.set(finished(record.success, verdict, at=store.clock.now()))


def task_record(store: Store, workspace_id: str, task_id: str) -> TaskRecord:
    """Builds a task's record from the ledger.

    Raises:
        ConfigError: the workspace has no such task.
    """
    record = TaskRecord.from_ledger(store.ledger, workspace_id, task_id)
    if not record.sessions:
        raise ConfigError(
            f"workspace {workspace_id!r} has no task {task_id!r}: check both ids "
            "(`memplugin doctor` lists workspaces)."
        )
    return record


def census(store: Store, record: TaskRecord, need: Need) -> Census:
    """What the store holds about a need, and where it stood for the task's retrieval."""
    found = look_up(store.ledger, record.workspace_id, need)
    if record.retrieval is None:
        return found
    seen = {candidate.record_id for candidate in record.retrieval.candidates}
    missed = [w.record_id for w in found.writes if w.record_id and w.record_id not in seen]
    explanations = [
        _explain(
            store,
            record.workspace_id,
            record.retrieval.session,
            record.task_id,
            record.retrieval,
            record_id,
        )
        for record_id in missed
    ]
    return replace(found, explanations=tuple(explanations))


def explain_retrieval(store: Store, retrieval: Retrieval, record_id: str) -> Explanation:
    """Where a record stood for a retrieval.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    entry = retrieval_entry(retrieval)
    return _explain(
        store, retrieval.workspace_id, retrieval.session_id, retrieval.task_id, entry, record_id
    )


def _explain(
    store: Store,
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
    asked = request(
        store,
        retrieval.query or "",
        context,
        retrieval.k,
        cast(list[str] | None, retrieval.filters.get("kind")),
        # The version that ranked it, where it is still there.
        retrieval.policy if retrieval.policy in store.policies else retrieval.policy.split("@")[0],
    )
    return explain(store, asked, record_id, retrieval.at)
