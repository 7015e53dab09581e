"""Scripted models for a suite: they do right, except where a task has a planted fault.

A fault really happens: the extractor leaves something out or gets it wrong, the index is
down, the decider passes a memory over. Nothing here says what the verdict will be.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage

from memplugin.diagnosis.wording import carries
from memplugin.errors import ConfigError, StoreError
from memplugin.evaluation.parts import DeciderScript, GoldFact, Misreading
from memplugin.evaluation.playing import Models
from memplugin.evaluation.suite import Suite, Task
from memplugin.evaluation.telling import turn_index
from memplugin.evaluation.told import Session
from memplugin.memory.front import Memory
from memplugin.ports import Vectors
from memplugin.records import Json
from memplugin.testing.fakes import InMemoryIndex
from memplugin.testing.model import Scripted, ScriptedChatModel

_SHOWN = re.compile(r'<memory id="([^"]+)"[^>]*>([^<]*)</memory>')
_CORRECTED = "That was wrong."
_PASSES_OVER = ("ignored", "overridden")
_FILLERS: Mapping[str, Any] = {"text": "-", "integer": 0, "number": 0.0, "boolean": False}


def check(suite: Suite) -> None:
    """Looks whether the scripted models know what to answer in every task.

    Raises:
        ConfigError: a task neither says which answer is right nor what to answer.
    """
    for task in suite.tasks:
        if task.success.exact is None and not (task.decider and task.decider.then):
            raise ConfigError(
                f"task {task.id!r} can't be scripted: give it success.exact or decider.then, or "
                "run the suite with a model (--model PROVIDER:NAME)."
            )


def models(task: Task) -> Models:
    """The scripted models of one task."""
    return Models(extractor=extractor(task), decider=decider(task))


def expected(task: Task) -> tuple[str, str]:
    """The verdict that a task's planted fault should get; that of a pass without one."""
    planted = task.planted
    return (planted.stage, planted.cause) if planted else ("none", "passed")


def rig(task: Task, memory: Memory) -> Memory:
    """Takes the index down, where the fault is that it did not hold the record yet."""
    if task.planted is None or task.planted.cause != "not_indexed":
        return memory
    return Memory(replace(memory.store, index=_DownIndex()))


class _DownIndex(InMemoryIndex):
    """Takes nothing."""

    def upsert(self, workspace_id: str, keys: Sequence[str], vectors: Vectors) -> None:
        raise StoreError("the index is down: as planted.")


# ---------------------------------------------------------------- the extractor


def extractor(task: Task) -> ScriptedChatModel:
    """Proposes the gold facts of each session, or what the session says it misreads."""
    return ScriptedChatModel([_reading(session) for session in task.sessions])


def _reading(session: Session) -> Scripted:
    match session.misread:
        case "refused" | "truncated" | "down":
            return _no_reply(session.misread, '{"memories": [{"content": "The us')
        case None:
            return {"memories": [_proposal(session, fact) for fact in session.gold]}
        case _:
            return {"memories": [_proposal(session, wrong) for wrong in session.misread]}


def _proposal(session: Session, fact: GoldFact) -> Json:
    message = session.messages[fact.turn]
    return {
        "turn_index": turn_index(session, fact.turn),
        "quote": fact.quote or message.content,
        "speech_act": message.phrasing or session.phrasing or "statement",
        "polarity": fact.polarity,
        "time_phrase": fact.time_phrase,
        "occurred_at": fact.occurred_at,
        "content": fact.content,
        "kind": fact.kind,
        "scope": [{"key": key, "value": value} for key, value in fact.scope.items()],
        "claim": [{"key": key, "value": value} for key, value in (fact.claim or {}).items()],
        "confidence": fact.confidence if isinstance(fact, Misreading) else 0.9,
    }


# ---------------------------------------------------------------- the decider


def decider(task: Task) -> ScriptedChatModel:
    """Follows and cites the memory that the task needs where it is shown."""
    script = task.decider or DeciderScript()
    right: Json = {**(script.then or task.success.exact or {})}
    otherwise: Json = {**(script.otherwise or right)}
    cause = task.planted.cause if task.planted else None
    relevant = _relevant(task, script)

    def reply(messages: list[BaseMessage]) -> Scripted:
        asked = str(messages[-1].text)
        shown = [(i, html.unescape(text)) for i, text in _SHOWN.findall(asked)]
        followed = [record_id for record_id, text in shown if relevant(text)][:1]
        if _CORRECTED in asked:
            return _answer(task, right, [])
        if cause == "no_answer":
            return _no_reply(script.fails, '{"memory_reasoning": "The memo')
        if cause in _PASSES_OVER or not followed:
            return _answer(task, otherwise, [])
        return _answer(task, otherwise if cause == "misapplied" else right, followed)

    return ScriptedChatModel(reply)


def _relevant(task: Task, script: DeciderScript) -> Callable[[str], bool]:
    if script.follows is not None:
        pattern = re.compile(script.follows, re.IGNORECASE)
        return lambda text: pattern.search(text) is not None
    needed = task.need.text
    return lambda text: needed is not None and carries(needed, text)


def _answer(task: Task, values: Mapping[str, Any], cited: list[str]) -> Json:
    filled = {
        name: _FILLERS[shape] if isinstance(shape, str) else shape[0]
        for name, shape in task.answer.items()
    }
    return {
        "memory_reasoning": f"{cited[0]} bears on this." if cited else "No memory is followed.",
        "considered": "nothing else",
        "cited_record_ids": cited,
        **filled,
        **values,
    }


def _no_reply(how: str, begun: str) -> Scripted:
    match how:
        case "refused":
            return AIMessage("", additional_kwargs={"refusal": "I can't help with that."})
        case "truncated":
            return AIMessage(begun, response_metadata={"finish_reason": "length"})
        case "down":
            return ConnectionError("the provider is down")
        case _:
            return "Let me think about that for a while."
