"""What was there before the request: sessions, and records written as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryContext
from memplugin.errors import ConfigError
from memplugin.evaluation.suite import DEFAULT_DATE
from memplugin.evaluation.suite_parts import DirectRecord, Session
from memplugin.memory.client import Memory
from memplugin.records import WriteReceipt
from memplugin.testing.fakes import FixedClock
from memplugin.text import without_memory_blocks
from memplugin.write.turns import numbered_turns


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
    return memory.remember(_messages(session), context=context, model=extractor)


def turn_index(session: Session, message: int) -> int:
    """The number of a message among the turns.

    The application's own words and recalled memories are no turns.
    """
    return sum(
        m.role != "system" and bool(without_memory_blocks(m.content).strip())
        for m in session.messages[:message]
    )


def turn_id(session: Session, message: int, context: MemoryContext) -> str:
    """The id that a message's turn has in the ledger."""
    turns = numbered_turns(_messages(session), context=context, now=DEFAULT_DATE)
    return turns[turn_index(session, message)].id


def _messages(session: Session) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in session.messages]
