"""Compares verdicts on LoCoMo with the stage that is known for every question.

The store holds LoCoMo's facts, each taken from the turns that it cites. So the stage at
which a question's evidence is lost is known beforehand: no fact cites the turn (write);
facts cite it, and none of them is among the first k (retrieval); else it has reached the
prompt. The attribution is given only the turns that were needed. No chat model is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.attribution import earliest, furthest
from memplugin.evaluation.adapters.locomo import Conversation, LocomoSession, Question
from memplugin.evaluation.setup import StoreRequest, Stores, task_ids
from memplugin.memory.client import Memory
from memplugin.memory.diagnose import judge
from memplugin.records import Json, Need, Noun, Stage, Verdict
from memplugin.testing.fakes import FixedClock
from memplugin.testing.model import ScriptedChatModel
from memplugin.write.checks import is_not_known_verbatim
from memplugin.write.turns import numbered_turns

Reached = Literal["write", "retrieval", "prompt"]
"""How far the evidence came: lost at the write, lost at the retrieval, or in the prompt."""

CUTS = (5, 10, 20)
ORDER: tuple[Reached, ...] = ("write", "retrieval", "prompt")
CONFIG = MemoryConfig(floor=-1.0, token_budget=None)
"""No floor and no budget: the first k are shown, and nothing else decides."""

_STAGES: Mapping[Stage, Reached] = {"write": "write", "retrieval": "retrieval", "use": "prompt"}


class Answer(BaseModel):
    """The form of an answer."""

    answer: str


@dataclass(frozen=True, slots=True)
class Judged(Noun):
    """One question at one k.

    Attributes:
        known: The stage at which its evidence was first lost, all of it being needed.
        known_any: The stage at which the last of it was lost, any of it being enough.
        verdict: The verdict where all of its evidence is needed.
        verdict_any: The verdict where any of it is enough.
    """

    question: str
    category: str
    k: int
    known: Reached
    known_any: Reached
    verdict: Verdict
    verdict_any: Verdict

    @property
    def agrees(self) -> bool:
        """Whether both verdicts name the known stage."""
        return (reached(self.verdict), reached(self.verdict_any)) == (self.known, self.known_any)


@dataclass(frozen=True, slots=True)
class Split(Noun):
    """All questions at one k.

    Attributes:
        known: How many questions are known to be lost at each stage.
        verdicts: How many are, by the verdicts.
        known_any: The same as ``known``, any of a question's evidence being enough.
        verdicts_any: The same as ``verdicts``, any of the evidence being enough.
        causes: How often each cause was found.
    """

    k: int
    questions: int
    agreeing: int
    known: Mapping[Reached, int]
    verdicts: Mapping[Reached, int]
    known_any: Mapping[Reached, int]
    verdicts_any: Mapping[Reached, int]
    causes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LocomoReport(Noun):
    """The verdicts compared with what is known.

    Attributes:
        left_out: Questions whose evidence names no turn that exists.
        disagreements: Questions on which a verdict names another stage than the known one.
    """

    questions: int
    facts: int
    left_out: tuple[str, ...]
    splits: tuple[Split, ...]
    disagreements: tuple[Judged, ...]

    @property
    def holds(self) -> bool:
        """Whether every verdict names the known stage."""
        return not self.disagreements


def reached(verdict: Verdict) -> Reached | None:
    """How far the evidence came according to a verdict; None where it does not say."""
    return _STAGES.get(verdict.stage)


def verify(
    conversations: Sequence[Conversation],
    stores: Stores,
    *,
    cuts: Sequence[int] = CUTS,
    limit: int | None = None,
    done: Callable[[Judged], None] = lambda _: None,
) -> LocomoReport:
    """Runs every question at every k, and compares the verdicts with what is known.

    Args:
        conversations: From ``locomo.load``.
        stores: Where the facts are written.
        cuts: The values of k.
        limit: Questions of each conversation; None for all.
        done: Called with each question at each k.

    Returns:
        The counts at each k, and every disagreement.

    Raises:
        StoreError: a store could not be read or written.
    """
    judged: list[Judged] = []
    for conversation in conversations:
        for one in _of_conversation(conversation, stores, cuts, limit):
            judged.append(one)
            done(one)
    questions = [q for c in conversations for q in c.questions[:limit]]
    return LocomoReport(
        questions=sum(bool(q.evidence) for q in questions),
        facts=sum(len(c.facts) for c in conversations),
        left_out=tuple(q.id for q in questions if not q.evidence),
        splits=tuple(_split(k, [one for one in judged if one.k == k]) for k in cuts),
        disagreements=tuple(one for one in judged if not one.agrees),
    )


# ---------------------------------------------------------------- the store


@dataclass(frozen=True, slots=True)
class _Filled:
    """A store that holds the facts of a conversation.

    Attributes:
        turns: The ids of its turns in the ledger, by their ids in the data.
        facts: The records of the facts that cite a turn, by the id of that turn in the data.
    """

    memory: Memory
    clock: FixedClock
    turns: Mapping[str, str]
    facts: Mapping[str, frozenset[str]]


def _fill(conversation: Conversation, memory: Memory, clock: FixedClock) -> _Filled:
    turns: dict[str, str] = {}
    by_text: dict[str, str] = {}
    for session in conversation.sessions:
        clock.set(session.date)
        context = MemoryContext(conversation.id, session.id, task_id="sessions")
        messages = [{"role": "user", "content": turn.text} for turn in session.turns]
        numbered = numbered_turns(messages, context=context, now=session.date)
        turns |= {turn.id: n.id for turn, n in zip(session.turns, numbered, strict=True)}
        proposals = list(_proposals(session))
        receipts = memory.remember(
            messages, context=context, model=ScriptedChatModel([{"memories": proposals}])
        )
        for proposal, receipt in zip(proposals, receipts, strict=True):
            by_text[proposal["content"]] = receipt.record_id or ""
    cited = {turn for fact in conversation.facts for turn in fact.turns}
    facts = {
        turn: frozenset(by_text[f.text] for f in conversation.facts if turn in f.turns)
        for turn in cited
    }
    return _Filled(memory, clock, turns, facts)


def _proposals(session: LocomoSession) -> Iterator[Json]:
    places = {turn.id: place for place, turn in enumerate(session.turns)}
    for fact in session.facts:
        for turn in fact.turns:
            if turn in places:
                yield {
                    "turn_index": places[turn],
                    "quote": session.turns[places[turn]].text,
                    "polarity": "positive",
                    "content": fact.text,
                    "kind": "fact",
                    "confidence": 0.9,
                }


# ---------------------------------------------------------------- the questions


def _of_conversation(
    conversation: Conversation, stores: Stores, cuts: Sequence[int], limit: int | None
) -> Iterator[Judged]:
    clock = FixedClock(conversation.sessions[0].date)
    wanted = StoreRequest("truth", conversation.id, CONFIG, clock, task_ids(conversation.id))
    with stores.opened(wanted) as opened:
        # The gate must not reject any of the facts; a fact taken from two turns is stored
        # once.
        memory = Memory(replace(opened.backend, checks=(is_not_known_verbatim,)))
        filled = _fill(conversation, memory, clock)
        clock.set(conversation.request_at)
        for question in conversation.questions[:limit]:
            for k in cuts if question.evidence else ():
                yield _judged(conversation, question, k, filled)


def _judged(conversation: Conversation, question: Question, k: int, filled: _Filled) -> Judged:
    memory, task = filled.memory, f"{question.id}_k{k}"
    context = MemoryContext(conversation.id, task, task_id=task)
    retrieval = memory.recall(question.text, context=context, k=k)
    memory.decide(
        question.text, context=context, answer=Answer, model=_uncited(), retrieval=retrieval
    )
    memory.report(context=context, succeeded=False)
    shown = {candidate.record_id for candidate in retrieval.injected}
    known: list[Reached] = [
        _known(filled.facts.get(turn, frozenset()), shown) for turn in question.evidence
    ]
    record = memory.task_record(task, workspace_id=conversation.id)
    needs = [Need(turn_id=filled.turns[turn]) for turn in question.evidence]
    verdicts = [judge(memory.backend, record, need) for need in needs]
    return Judged(
        question=question.id,
        category=question.category,
        k=k,
        known=min(known, key=_place),
        known_any=max(known, key=_place),
        verdict=earliest(verdicts),
        verdict_any=furthest(verdicts),
    )


def _known(facts: frozenset[str], shown: set[str]) -> Reached:
    if not facts:
        return "write"
    return "prompt" if facts & shown else "retrieval"


def _place(stage: Reached) -> int:
    return ORDER.index(stage)


def _uncited() -> ScriptedChatModel:
    """A model that answers without citing anything."""
    reasoning = {"memory_reasoning": "-", "considered": "-", "cited_record_ids": list[str]()}
    return ScriptedChatModel([{**reasoning, "answer": "?"}])


def _split(k: int, judged: Sequence[Judged]) -> Split:
    return Split(
        k=k,
        questions=len(judged),
        agreeing=sum(one.agrees for one in judged),
        known=_counts(one.known for one in judged),
        verdicts=_counts(reached(one.verdict) for one in judged),
        known_any=_counts(one.known_any for one in judged),
        verdicts_any=_counts(reached(one.verdict_any) for one in judged),
        causes=dict(Counter(one.verdict.cause for one in judged).most_common()),
    )


def _counts(stages: Iterable[Reached | None]) -> dict[Reached, int]:
    counted = Counter(stages)
    return {stage: counted[stage] for stage in ORDER}
