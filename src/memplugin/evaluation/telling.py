"""What was said before the request: records are written, sessions are remembered."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.evaluation.suite import DirectRecord, Session
from memplugin.memory.front import Memory
from memplugin.records import WriteReceipt
from memplugin.testing.fakes import FixedClock


def write_records(
    memory: Memory, records: Iterable[DirectRecord], context: MemoryContext
) -> dict[str, str]:
    """Writes records as they are; returns the ids of those that have a key.

    Raises:
        ConfigError: one with a key was not stored, so that nothing can need it.
    """
    listed = list(records)
    ids: dict[str, str] = {}
    for user in dict.fromkeys(record.user for record in listed):
        of_user = [record for record in listed if record.user == user]
        written = [(record, content) for record in of_user for content in record.contents]
        receipts = memory.write_many(
            [_item(record, content) for record, content in written],
            context=replace(context, user_id=user),
        )
        for (record, _), receipt in zip(written, receipts, strict=True):
            if record.key:
                ids[record.key] = _stored(record.key, receipt, context)
    return ids


def _item(record: DirectRecord, content: str) -> dict[str, Any]:
    return {
        "content": content,
        "kind": record.kind,
        "scope": record.scope,
        "claim": record.claim,
        "confidence": record.confidence,
        "pinned": record.pinned,
        "occurred_at": record.date,
        "source": record.source,
        "around": record.around,
    }


def _stored(key: str, receipt: WriteReceipt, context: MemoryContext) -> str:
    if receipt.record_id is None:
        raise ConfigError(
            f"record {key!r} of task {context.task!r} was {receipt.ruling} ({receipt.reason}): "
            "change the record."
        )
    return receipt.record_id


def remember_session(
    memory: Memory,
    session: Session,
    context: MemoryContext,
    extractor: BaseChatModel,
    clock: FixedClock,
) -> list[WriteReceipt]:
    """Has the extractor read one session, on the day on which it was."""
    if session.date:
        clock.set(session.date)
    return memory.remember(
        [{"role": m.role, "content": m.content} for m in session.messages],
        context=context,
        model=extractor,
    )


def session_ids(sessions: Iterable[Session]) -> list[str]:
    """The ids of a task's sessions: their own, else ``s_1``, ``s_2`` …."""
    return [session.id or f"s_{place}" for place, session in enumerate(sessions, 1)]
