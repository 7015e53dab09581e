"""Audit, eviction and calibration of a workspace's records."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.audit import (
    Audit,
    Calibration,
    calibration,
    contradictions,
    duplicates,
    misleading,
    never_shown,
)
from memplugin.diagnosis.statistics import require_scipy
from memplugin.errors import ConfigError, StoreError
from memplugin.learning.utility import evictions
from memplugin.memory.backend import Backend, log
from memplugin.memory.counterfactual import Trial, counterfactual
from memplugin.memory.index import try_drain
from memplugin.memory.model_call import Steps
from memplugin.records import Eviction, Followed, MemoryRecord, Status
from memplugin.telemetry import names
from memplugin.telemetry.spans import Hop

MOST_FAR_APART = 1_000
"""Rows on which judge and cosine disagree: enough to see what goes wrong."""

_CHUNK = 512
_DUPLICATE = 0.95
"""Cosine from which two records are listed as duplicates of each other."""

_NEIGHBOURS = 8


def audit(backend: Backend, workspace_id: str) -> Audit:
    """Looks through a workspace."""
    ledger, config = backend.ledger, backend.config.learn
    active = [entry.record_id for entry in ledger.search.changes(workspace_id, 0) if entry.active]
    records = list(ledger.records.get_many(workspace_id, active).values())
    near, notes = _near(backend, workspace_id, records)
    return Audit(
        workspace_id=workspace_id,
        records=len(records),
        misleading=misleading(records, ledger.credit.totals(workspace_id, config.weights), config),
        far_apart=tuple(
            ledger.follow_scores.disagreements(workspace_id, config.far_apart, MOST_FAR_APART)
        ),
        never_shown=never_shown(records, ledger.follow_scores.ever_shown(workspace_id)),
        duplicates=duplicates(records, near),
        contradictions=contradictions(records),
        notes=notes,
    )


def _near(
    backend: Backend, workspace_id: str, records: Sequence[MemoryRecord]
) -> tuple[list[tuple[str, str, float]], tuple[str, ...]]:
    try:
        return list(_pairs(backend, workspace_id, [record.id for record in records])), ()
    except Exception as error:  # noqa: BLE001 -- an index that is down is one section less
        log.warning("the audit did not look for duplicates: %s", error)
        return [], (f"duplicates were not looked for: {type(error).__name__}",)


def _pairs(
    backend: Backend, workspace_id: str, record_ids: Sequence[str]
) -> Iterator[tuple[str, str, float]]:
    for start in range(0, len(record_ids), _CHUNK):
        vectors = backend.index.fetch(workspace_id, record_ids[start : start + _CHUNK])
        matrix = np.asarray(list(vectors.values()), np.float32)
        similar = backend.search.similar(workspace_id, matrix, _NEIGHBOURS, _DUPLICATE)
        for record_id, hits in zip(vectors, similar, strict=True):
            yield from ((record_id, other, cosine) for other, cosine in hits)


def evict(backend: Backend, workspace_id: str, *, dry_run: bool) -> list[Eviction]:
    """Retires the records of a workspace that credit says should go.

    Args:
        backend: The store.
        workspace_id: The workspace.
        dry_run: Only says which ones.

    Returns:
        The records, with the reason for each.
    """
    sums = backend.ledger.credit.totals(workspace_id, backend.config.learn.weights)
    records = backend.ledger.records.get_many(workspace_id, sums)
    due = evictions(records.values(), sums, backend.config)
    if dry_run:
        return due
    for eviction in due:
        record = records[eviction.record_id]
        # Under the task that wrote it: its trace shows what became of the record.
        context = MemoryContext(workspace_id, record.source_session, record.task_id)
        with backend.tracing.hop(names.DELETE, context) as hop:
            _set_status(backend, record, "evicted", hop)
    return [replace(eviction, done=True) for eviction in due]


def restore(backend: Backend, record_id: str, context: MemoryContext) -> MemoryRecord:
    """Takes an eviction back.

    Args:
        backend: The store.
        record_id: The record.
        context: Its workspace counts.

    Returns:
        The record, active again.

    Raises:
        RecordNotFound: no such record in this workspace.
        StoreError: it is retired for another reason, or not at all.
    """
    record = backend.get_record(context.workspace_id, record_id)
    if record.status != "evicted":
        raise StoreError(
            f"{record_id} is {record.status}: only a record that is evicted can be taken back."
        )
    with backend.tracing.hop(names.UPSERT, context) as hop:
        restored = _set_status(backend, record, "active", hop)
    if restored.indexed_at is None:
        try_drain(backend)
    return restored


def _set_status(backend: Backend, record: MemoryRecord, status: Status, hop: Hop) -> MemoryRecord:
    now = backend.clock.now()
    hop.set(
        {
            names.AT: now.isoformat(),
            names.RECORD_ID: record.id,
            names.RECORD_COUNT: 1,
            names.RECORD_STATUS: status,
        }
    )
    return backend.ledger.records.set_status(record.workspace_id, record.id, status, now)


def calibrate(
    backend: Backend,
    workspace_id: str,
    model: BaseChatModel,
    sample: int,
    trial: Trial,
    *,
    seed: int,
) -> Steps[Calibration]:
    """Runs what has not been run yet, and compares.

    Args:
        backend: The store.
        workspace_id: The workspace.
        model: Decides again.
        sample: How many scored records.
        trial: How each is tried.
        seed: Of the sample.

    Returns:
        How far judge and cosine agree with the counterfactuals.

    Raises:
        ConfigError: nothing is scored, or the sample is empty.
    """
    require_scipy()  # before any run is paid for
    if sample < 1:
        raise ConfigError(f"sample is {sample}: give at least 1.")
    scored = backend.ledger.follow_scores.followed(workspace_id)
    if not scored:
        raise ConfigError(
            f"workspace {workspace_id!r} has no scored record that was shown to a stored decision: "
            "run `memplugin learn` first; old decisions may have been pruned."
        )
    drawn = random.Random(seed).sample(scored, min(sample, len(scored)))  # noqa: S311 -- no secret
    for decision_id, record_ids in _to_run(backend, workspace_id, drawn).items():
        context = MemoryContext(workspace_id, decision_id)  # the decision names its own session
        wanted = replace(trial, record_ids=record_ids)
        yield from counterfactual(backend, decision_id, context, model, wanted)
    return calibration(
        drawn,
        backend.ledger.counterfactuals.of(workspace_id),
        of=len(scored),
        close_from=backend.config.learn.weights.close_from,
    )


def _to_run(backend: Backend, workspace_id: str, drawn: Sequence[Followed]) -> dict[str, list[str]]:
    done = {
        (one.decision_id, one.record_id) for one in backend.ledger.counterfactuals.of(workspace_id)
    }
    missing: dict[str, list[str]] = defaultdict(list)
    for row in drawn:
        if row.key not in done and row.record_id not in missing[row.decision_id]:
            missing[row.decision_id].append(row.record_id)
    return {decision_id: ids for decision_id, ids in missing.items() if ids}
