"""Keeps how an attempt ended, and forgets records."""

from __future__ import annotations

import math

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.learning.utility import grade
from memplugin.memory.backend import Backend, log
from memplugin.memory.index import CHUNK, remove
from memplugin.records import MemoryRecord, Outcome
from memplugin.telemetry import names
from memplugin.telemetry.attributes import reported
from memplugin.text import clean, digest


def report(
    backend: Backend,
    context: MemoryContext,
    *,
    succeeded: bool,
    failure_mode: str | None,
    action: str | None,
    confidence: float,
) -> Outcome:
    """Keeps how an attempt ended; reporting the attempt again replaces it.

    Args:
        backend: The store.
        context: Whose attempt it is.
        succeeded: Whether it passed.
        failure_mode: How it failed, in a word.
        action: What the agent did.
        confidence: Of the report, 0 to 1.

    Returns:
        The outcome, with its value.

    Raises:
        ConfigError: confidence is not between 0 and 1.
    """
    if not (math.isfinite(confidence) and 0.0 <= confidence <= 1.0):
        raise ConfigError(f"confidence is {confidence}: give a number from 0 to 1.")
    key = (context.workspace_id, context.task, context.session_id, str(context.attempt))
    mode = clean(failure_mode) if failure_mode else None
    with backend.tracing.hop(names.OUTCOME, context) as hop:
        backend.begin(context, hop)
        outcome = Outcome(
            id="a_" + digest(*key),
            workspace_id=context.workspace_id,
            task_id=context.task,
            session_id=context.session_id,
            attempt=context.attempt,
            succeeded=succeeded,
            value=grade(
                succeeded=succeeded,
                attempt=context.attempt,
                failure_mode=mode,
                grades=backend.config.learn.grades,
            ),
            confidence=confidence,
            failure_mode=mode,
            action=clean(action) if action else None,
            arm=context.arm,
            created_at=backend.clock.now(),
        )
        backend.ledger.outcomes.save(outcome, hop.ref)
        hop.set(lambda: reported(outcome, backend.tracing.content))
    return outcome


def forget(backend: Backend, context: MemoryContext, record_id: str, reason: str) -> MemoryRecord:
    """Leaves a tombstone without content, in the ledger first and then in the index.

    Args:
        backend: The store.
        context: Its workspace counts.
        record_id: The record.
        reason: Why; it is kept.

    Returns:
        The tombstone.

    Raises:
        RecordNotFound: no such record in this workspace.
    """
    record_id = clean(record_id)
    with backend.tracing.hop(names.DELETE, context) as hop:
        backend.begin(context, hop)
        now = backend.clock.now()
        shown = backend.tracing.content.record_id(record_id)
        hop.set({names.AT: now.isoformat(), names.RECORD_ID: shown, names.RECORD_COUNT: 1})
        record = backend.ledger.erasure.forget(context.workspace_id, record_id, clean(reason), now)
        try:
            remove(backend, context.workspace_id, _gone(backend, context.workspace_id, record_id))
        except Exception as error:  # noqa: BLE001 -- it stays in the outbox, and no longer counts
            log.warning("forgotten; its vector is deleted at the next flush: %s", error)
    return record


def _gone(backend: Backend, workspace_id: str, record_id: str) -> list[str]:
    """The forgotten record, and those that had to go with it since they quote it."""
    waiting = backend.ledger.records.outbox(CHUNK)
    others = {r.id for r in waiting if r.workspace_id == workspace_id and r.status == "forgotten"}
    return sorted(others | {record_id})
