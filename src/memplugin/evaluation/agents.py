"""How a request is answered: the hops it goes through.

An agent of one's own, a compiled graph say, is a function of one signature::

    def my_agent(asked: Asked) -> Json | None:
        state = graph.invoke({"question": asked.question}, context=asked.context)
        return state["decision"]["answer"]
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, ValidationError

from memplugin.chat.errors import read_failure
from memplugin.chat.reply import read_reply, structured
from memplugin.config import MemoryContext
from memplugin.diagnosis.need import carries
from memplugin.errors import ConfigError, StoreError
from memplugin.evaluation.conversation import turn_index
from memplugin.evaluation.suite import Request, Suite, Task
from memplugin.evaluation.suite_parts import DeciderScript, GoldFact, Misreading, Session
from memplugin.memory.client import Memory
from memplugin.ports import Vectors
from memplugin.records import Json, Retrieval
from memplugin.testing.fakes import InMemoryIndex
from memplugin.testing.model import Scripted, ScriptedChatModel


@dataclass(frozen=True, slots=True)
class Models:
    """The chat models of a run; all the caller's.

    Attributes:
        judge: For tasks that are judged by a model.
    """

    extractor: BaseChatModel
    decider: BaseChatModel
    judge: BaseChatModel | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, with what is there to answer it.

    Attributes:
        question: The request's text, with the user's corrections so far.
        answer: The model of the answer.
    """

    memory: Memory
    context: MemoryContext
    request: Request
    question: str
    answer: type[BaseModel]
    model: BaseChatModel

    def recall(self) -> Retrieval:
        """The recall that the request asks for."""
        return self.memory.recall(
            self.request.query or self.request.text,
            context=self.context,
            k=self.request.k,
            kinds=self.request.kinds,
            policy=self.request.policy,
        )


Agent = Callable[[Asked], Json | None]
"""Gives the fields of an answer, or None when there was none."""


def recall_and_decide(asked: Asked) -> Json | None:
    """Both hops, as they should be: the decision is recorded."""
    decision = asked.memory.decide(
        asked.question,
        context=asked.context,
        answer=asked.answer,
        model=asked.model,
        retrieval=asked.recall(),
    )
    return decision.answer.model_dump(mode="json") if decision.answer else None


def recall_and_answer(asked: Asked) -> Json | None:
    """Recalls, and asks the model by itself: nobody can see how the memories were used."""
    return _ask(asked, f"{asked.recall().text}\n\n{asked.question}")


def answer_only(asked: Asked) -> Json | None:
    """Asks the model without looking into memory: the recall node is missing on this path."""
    return _ask(asked, asked.question)


AGENTS: Mapping[str, Agent] = {
    "recall_and_decide": recall_and_decide,
    "recall_and_answer": recall_and_answer,
    "answer_only": answer_only,
}


def _ask(asked: Asked, text: str) -> Json | None:
    messages: list[BaseMessage] = [
        SystemMessage("Answer the request as one JSON object."),
        HumanMessage(text),
    ]
    prepared: Any = structured(asked.model, asked.answer, {})
    try:
        reply = read_reply(prepared.invoke(messages))
    except Exception as error:  # noqa: BLE001 -- any provider's error is a reply with a status
        reply = read_failure(error)
    try:
        return asked.answer.model_validate(reply.values or {}).model_dump(mode="json")
    except ValidationError:
        return None


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
    return Memory(replace(memory.backend, index=_DownIndex()))


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
