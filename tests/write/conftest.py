from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from memplugin.chat.reply import StructuredReply
from memplugin.config import MemoryContext
from memplugin.records import MemoryRecord, Proposal

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOON


@pytest.fixture
def context() -> MemoryContext:
    return MemoryContext(workspace_id="ws_8841", session_id="s_1")


@pytest.fixture
def propose() -> Callable[..., Proposal]:
    """Makes an extracted proposal whose quote is its own words."""

    def make(content: str = "The user likes tea.", **fields: Any) -> Proposal:
        values: dict[str, Any] = {
            "id": "p_1",
            "operation": "remember",
            "content": content,
            "kind": "preference",
            "scope": {},
            "claim": None,
            "confidence": 0.9,
            "occurred_at": NOON,
            "quote": content,
            "said_in": content,
        }
        return Proposal(**{**values, **fields})

    return make


@pytest.fixture
def record() -> Callable[..., MemoryRecord]:
    def make(content: str = "The user likes tea.", **fields: Any) -> MemoryRecord:
        values: dict[str, Any] = {
            "id": "m_old",
            "workspace_id": "ws_8841",
            "kind": "preference",
            "content": content,
            "scope": {},
            "claim": None,
            "status": "active",
            "confidence": 0.9,
            "pinned": False,
            "evidence_count": 1,
            "occurred_at": NOON,
            "created_at": NOON,
            "source_session": "s_0",
            "task_id": None,
            "seq": 1,
        }
        return MemoryRecord(**{**values, **fields})

    return make


@pytest.fixture
def reply() -> Callable[..., StructuredReply]:
    """A model's reply; each argument is one memory, filled up to the whole schema."""

    def make(*memories: Any) -> StructuredReply:
        whole = {
            "turn_index": 0,
            "quote": "",
            "speech_act": "statement",
            "polarity": "positive",
            "time_phrase": None,
            "occurred_at": None,
            "content": "The user likes tea.",
            "kind": "preference",
            "scope": None,
            "claim": None,
            "confidence": 0.9,
        }
        items = [{**whole, **m} if isinstance(m, dict) else m for m in memories]
        return StructuredReply("ok", values={"memories": items})

    return make
