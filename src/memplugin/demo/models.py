"""The scripted models of the stories: they do what their prompt says, and nothing more."""

from __future__ import annotations

import re
from typing import Any

from langchain_core.messages import BaseMessage

from memplugin.demo.board_pack import ASSERTIONS_ONLY, INSTRUCTION
from memplugin.testing.model import ScriptedChatModel

_NET = re.compile(r'<memory id="([^"]+)"[^>]*>[^<]*net of tax', re.IGNORECASE)
_TURN = re.compile(r'"turn_index": ?(\d+)[^\n]*' + re.escape(INSTRUCTION))


def extractor() -> ScriptedChatModel:
    """Obeys its prompt: where that says to leave questions out, it leaves the instruction out."""

    def reply(messages: list[BaseMessage]) -> dict[str, Any]:
        prompt, said = str(messages[0].text), str(messages[-1].text)
        turn = _TURN.search(said)
        if turn is None or ASSERTIONS_ONLY.strip() in prompt:
            return {"memories": []}
        return {"memories": [_preference(int(turn.group(1)))]}

    return ScriptedChatModel(reply)


def _preference(turn_index: int) -> dict[str, Any]:
    return {
        "quote": INSTRUCTION,
        "speech_act": "request",
        "content": "Revenue is reported net of tax.",
        "kind": "preference",
        "polarity": "positive",
        "scope": [],
        "claim": [],
        "confidence": 0.81,
        "occurred_at": None,
        "time_phrase": None,
        "turn_index": turn_index,
    }


def decider() -> ScriptedChatModel:
    """Follows a memory about tax when one is shown, and reports gross otherwise."""

    def reply(messages: list[BaseMessage]) -> dict[str, Any]:
        shown = _NET.search(str(messages[-1].text))
        basis = "net of tax" if shown else "gross"
        reason = f"{shown.group(1)} asks for net of tax." if shown else "No memory is about tax."
        return {
            "memory_reasoning": reason,
            "considered": "gross" if shown else "net of tax: nothing asks for it",
            "cited_record_ids": [shown.group(1)] if shown else [],
            "basis": basis,
            "title": f"Revenue by region, {basis}",
        }

    return ScriptedChatModel(reply)
