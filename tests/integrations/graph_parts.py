"""What the graphs of these tests are made of."""

from __future__ import annotations

import itertools
from typing import Any, TypedDict

from pydantic import BaseModel

from memplugin import MemoryContext
from memplugin.testing import ScriptedChatModel

CONTEXT = MemoryContext(
    workspace_id="ws_8841", session_id="s_1", task_id="t_0417", scope={"trade": "pest"}
)
QUESTION = "Who should do pest control at 12 Elm St?"
PRIMEX = "Primex did good pest control at 12 Elm St."


class VendorChoice(BaseModel):
    vendor_id: str


class State(TypedDict, total=False):
    """As in the front door's example: no key for messages or receipts."""

    question: str
    memory: dict[str, Any]
    decision: dict[str, Any]


class TalkState(TypedDict, total=False):
    messages: list[Any]
    remembered: list[dict[str, Any]]


def choosing_model(vendor_id: str = "primex") -> ScriptedChatModel:
    """Decides on one vendor, however often it is asked."""
    return ScriptedChatModel(
        lambda _: {
            "memory_reasoning": "Primex is remembered.",
            "considered": "Orkin, which nobody remembers.",
            "cited_record_ids": [],
            "vendor_id": vendor_id,
        }
    )


def rewording_extractor(quote: str = "I like tea") -> ScriptedChatModel:
    """Finds one memory in the first turn, and words it differently at every call."""
    calls = itertools.count(1)

    def reply(_: Any) -> dict[str, Any]:
        number = next(calls)
        said = ["The user likes tea.", "Tea is a favourite.", "They enjoy a cup of tea."]
        memory = {
            "turn_index": 0,
            "quote": quote,
            "speech_act": "statement",
            "polarity": "positive",
            "time_phrase": None,
            "occurred_at": None,
            "content": f"{said[number % 3]} ({number})",
            "kind": "preference",
            "scope": None,
            "claim": None,
            "confidence": 0.9,
        }
        return {"memories": [memory]}

    return ScriptedChatModel(reply)
