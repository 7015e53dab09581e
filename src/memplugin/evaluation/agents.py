"""Agents that answer the requests of a suite, and scripted models for them.

Your own agent, for example a compiled graph, is a function of this signature::

    def my_agent(request: AgentRequest) -> Json | None:
        state = graph.invoke({"question": request.question}, context=request.context)
        return state["decision"]["answer"]
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.need import carries
from memplugin.errors import ConfigError, StoreError
from memplugin.evaluation.grading import ask
from memplugin.evaluation.setup import recall_request, turn_index
from memplugin.evaluation.suite import (
    DeciderScript,
    GoldFact,
    Misreading,
    Request,
    Session,
    Suite,
    Task,
)
from memplugin.memory.client import Memory
from memplugin.ports import Vectors
from memplugin.records import Json, Retrieval
from memplugin.testing.fakes import InMemoryIndex
from memplugin.testing.model import Scripted, ScriptedChatModel


@dataclass(frozen=True, slots=True)
class Models:
    """The chat models of a run.

    Attributes:
        judge: Grades the answers to tasks that are graded by a model.
    """

    extractor: BaseChatModel
    decider: BaseChatModel
    judge: BaseChatModel | None = None


@dataclass(frozen=True, slots=True)
class AgentRequest:
    """One request, with what an agent needs to answer it.

    Attributes:
        request: The request as the suite has it.
        question: Its text, with the corrections of the user so far.
        answer: The form of the answer.
        model: The model that should answer.
    """

    memory: Memory
    context: MemoryContext
    request: Request
    question: str
    answer: type[BaseModel]
    model: BaseChatModel

    def recall(self) -> Retrieval:
        """Recalls with the query, k, kinds and policy of the request."""
        return recall_request(self.memory, self.request, self.context)


Agent = Callable[[AgentRequest], Json | None]
"""Returns the fields of an answer, or None when there was none."""


def recall_and_decide(request: AgentRequest) -> Json | None:
    """Recalls and decides through memplugin, so that both are recorded."""
    decision = request.memory.decide(
        request.question,
        context=request.context,
        answer=request.answer,
        model=request.model,
        retrieval=request.recall(),
    )
    return decision.answer.model_dump(mode="json") if decision.answer else None


def recall_and_answer(request: AgentRequest) -> Json | None:
    """Recalls, and asks the model directly: how the memories are used is not recorded."""
    return _ask(request, f"{request.recall().text}\n\n{request.question}")


def answer_only(request: AgentRequest) -> Json | None:
    """Asks the model without a recall: the recall node is missing on this path."""
    return _ask(request, request.question)


AGENTS: Mapping[str, Agent] = {
    "recall_and_decide": recall_and_decide,
    "recall_and_answer": recall_and_answer,
    "answer_only": answer_only,
}


def _ask(request: AgentRequest, text: str) -> Json | None:
    prompt = "Answer the request as one JSON object."
    answer, _ = ask(request.model, request.answer, prompt, text)
    return answer.model_dump(mode="json") if answer else None


# ---------------------------------------------------------------- scripted models

_SHOWN = re.compile(r'<memory id="([^"]+)"[^>]*>([^<]*)</memory>')
_CORRECTED = "That was wrong."
_NOT_FOLLOWED = ("ignored", "overridden")
_FILLERS: Mapping[str, Any] = {"text": "-", "integer": 0, "number": 0.0, "boolean": False}


def check_scripted(suite: Suite) -> None:
    """Checks that the scripted models know what to answer in every task.

    Raises:
        ConfigError: a task neither says which answer is right nor what to answer.
    """
    for task in suite.tasks:
        if task.success.exact is None and not (task.decider and task.decider.then):
            raise ConfigError(
                f"task {task.id!r} can't be scripted: give it success.exact or decider.then, or "
                "run the suite with a model (--model PROVIDER:NAME)."
            )


def scripted_models(task: Task) -> Models:
    """The scripted models of one task."""
    return Models(extractor=scripted_extractor(task), decider=scripted_decider(task))


def expected_verdict(task: Task) -> tuple[str, str]:
    """Stage and cause of the fault planted in a task; ``none`` and ``passed`` without one."""
    planted = task.planted
    return (planted.stage, planted.cause) if planted else ("none", "passed")


def with_planted_index(task: Task, memory: Memory) -> Memory:
    """The store, with an index that fails where the planted fault is ``not_indexed``."""
    if task.planted is None or task.planted.cause != "not_indexed":
        return memory
    return Memory(replace(memory.backend, index=_DownIndex()))


class _DownIndex(InMemoryIndex):
    """An index to which nothing can be written."""

    def upsert(self, workspace_id: str, keys: Sequence[str], vectors: Vectors) -> None:
        raise StoreError("the index is down: as planted.")


def scripted_extractor(task: Task) -> ScriptedChatModel:
    """A model that proposes the gold facts of each session, or what ``misread`` says."""
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


def scripted_decider(task: Task) -> ScriptedChatModel:
    """A model that follows and cites the memory that the task needs, where it is shown."""
    script = task.decider or DeciderScript()
    right: Json = {**(script.then or task.success.exact or {})}
    otherwise: Json = {**(script.otherwise or right)}
    cause = task.planted.cause if task.planted else None
    relevant = _relevant(task, script)

    def reply(messages: list[BaseMessage]) -> Scripted:
        request = str(messages[-1].text)
        shown = [(i, html.unescape(text)) for i, text in _SHOWN.findall(request)]
        followed = [record_id for record_id, text in shown if relevant(text)][:1]
        if _CORRECTED in request:
            return _answer(task, right, [])
        if cause == "no_answer":
            return _no_reply(script.fails, '{"memory_reasoning": "The memo')
        if cause in _NOT_FOLLOWED or not followed:
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
