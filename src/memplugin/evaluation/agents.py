"""How a request is answered: the hops it goes through.

An agent of one's own, a compiled graph say, is a function of one signature::

    def my_agent(asked: Asked) -> Json | None:
        state = graph.invoke({"question": asked.question}, context=asked.context)
        return state["decision"]["answer"]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from pydantic import BaseModel, ValidationError

from memplugin.config import MemoryContext
from memplugin.evaluation.suite import Request
from memplugin.failure import read_failure
from memplugin.memory.front import Memory
from memplugin.records import Json, Retrieval
from memplugin.reply import read_reply, structured


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
