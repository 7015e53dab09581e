"""Hand-made replies and candidates."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Literal

from langchain_core.messages import AIMessage
from pydantic import BaseModel, Field

from memplugin.records import Candidate, Retrieval


class VendorChoice(BaseModel):
    """Which vendor to send."""

    vendor_id: Literal["primex", "dever"] = Field(description="The vendor's id")
    urgent: bool = False


NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)

GOOD: dict[str, Any] = {
    "memory_reasoning": 'm_1 says "Primex handles all pest issues"',
    "considered": "dever, by name only",
    "cited_record_ids": ["m_1"],
    "vendor_id": "primex",
    "urgent": None,
}


def call(args: dict[str, Any] | None = None, **metadata: Any) -> AIMessage:
    """A reply by tool call."""
    values = GOOD if args is None else args
    return AIMessage(
        "",
        tool_calls=[{"name": "VendorChoiceDecision", "args": values, "id": "call_1"}],
        response_metadata=metadata,
    )


def said(content: Any, **metadata: Any) -> AIMessage:
    """A reply in text; anything that is no text becomes JSON."""
    text = content if isinstance(content, str | list) else json.dumps(content)
    return AIMessage(text, response_metadata=metadata)


def candidate(record_id: str, content: str = "", **changes: Any) -> Candidate:
    fields: dict[str, Any] = {
        "record_id": record_id,
        "content": content,
        "kind": "fact",
        "scope": {},
        "claim": None,
        "confidence": 0.81,
        "pinned": False,
        "occurred_at": NOON,
        "rank": 1,
        "score": 0.5,
        "parts": {"dense": 0.5},
        "sources": ("dense",),
        "injected": True,
    }
    return Candidate(**{**fields, **changes})


def retrieval(*candidates: Candidate, text: str = "") -> Retrieval:
    return Retrieval(
        id="r_1",
        workspace_id="ws",
        task_id="t",
        session_id="s",
        query="who?",
        filters={},
        k=3,
        policy="balanced@1",
        candidates=candidates,
        total=22,
        shown=sum(c.injected for c in candidates),
        pending_index=0,
        stale_dropped=0,
        text=text,
        created_at=NOON,
    )
