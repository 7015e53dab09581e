"""What a suite is made of: tasks, each with what is said, what is asked, and what is right.

A suite is data. Nothing here runs anything: ``loading`` reads it from a file, ``harness``
runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from memplugin.config import MemoryConfig, checked_scope
from memplugin.evaluation.answers import AnswerShape, answer_model
from memplugin.evaluation.scripts import DeciderScript, Planted, ScriptedProposal
from memplugin.records import Json, Need
from memplugin.text import canonical_json, digest

LATER = timedelta(weeks=3)
"""How long after the last session a request comes that has no date of its own."""

DEFAULT_DATE = datetime.fromisoformat("2026-03-02T09:00:00+00:00")

Path = Literal["recall_and_decide", "answer_only", "recall_and_answer"]
"""Which hops a request goes through; see ``agents``."""

ScopeMap = Annotated[dict[str, str], AfterValidator(checked_scope)]


class Part(BaseModel):
    """A piece of a suite: unknown keys are errors, so that a typo is not silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Message(Part):
    """One thing that is said; ``{user: …}`` is short for a role and a content.

    Attributes:
        phrasing: How it is said, for the write suite: ``question``, ``hypothetical`` …;
            None takes the session's.
    """

    role: Literal["user", "assistant", "tool", "system"]
    content: str = Field(min_length=1)
    phrasing: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "role" in given:
            return given  # pyright: ignore[reportUnknownVariableType] -- checked by the fields
        said: dict[str, Any] = {str(k): v for k, v in given.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] -- of a file
        roles = [role for role in ("user", "assistant", "tool", "system") if role in said]
        if len(roles) != 1:
            return said
        return {**said, "role": roles[0], "content": said.pop(roles[0])}


class GoldFact(Part):
    """Something that should be remembered of a session.

    Attributes:
        turn: Number of the message that says it, from 0.
        quote: Its words; None for the whole message.
        by: The annotators who wrote it down; empty when it is everybody's.
    """

    content: str = Field(min_length=1)
    kind: str = "fact"
    turn: int = Field(default=0, ge=0)
    quote: str | None = None
    polarity: Literal["positive", "negative"] = "positive"
    scope: ScopeMap = Field(default_factory=dict)
    claim: dict[str, str | int | float | bool] | None = None
    time_phrase: str | None = None
    occurred_at: str | None = None
    by: tuple[str, ...] = ()


class Session(Part):
    """One conversation.

    Attributes:
        gold: What should be remembered of it; the scripted extractor proposes just that.
        annotators: Who has annotated it, where several have.
        misread: What a faulty extractor makes of it instead: other proposals, or no
            usable reply. Only the scripted model reads this.
    """

    id: str | None = None
    date: AwareDatetime | None = None
    user: str | None = None
    phrasing: str | None = None
    messages: tuple[Message, ...] = Field(min_length=1)
    gold: tuple[GoldFact, ...] = ()
    annotators: tuple[str, ...] = ()
    misread: tuple[ScriptedProposal, ...] | Literal["refused", "truncated", "down"] | None = None

    @model_validator(mode="after")
    def _turns_are_there(self) -> Self:
        for place, fact in enumerate(self.gold):
            if fact.turn >= len(self.messages):
                raise ValueError(
                    f"gold[{place}].turn is {fact.turn}, and there are {len(self.messages)} "
                    "messages: count them from 0"
                )
            if unknown := set(fact.by) - set(self.annotators):
                raise ValueError(
                    f"gold[{place}].by names {', '.join(sorted(unknown))}: list every "
                    "annotator in annotators"
                )
        return self


class DirectRecord(Part):
    """A record that is written as it is, before the first session.

    Attributes:
        key: By which ``need`` names it.
        repeat: How many of it; ``{n}`` in the content is the number, from 1.
        forgotten: Whether it is forgotten again before the request.
    """

    key: str | None = None
    content: str = Field(min_length=1)
    kind: str = "fact"
    scope: ScopeMap = Field(default_factory=dict)
    claim: dict[str, str | int | float | bool] | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    pinned: bool = False
    date: AwareDatetime | None = None
    user: str | None = None
    source: str | None = None
    around: str | None = None
    repeat: int = Field(default=1, ge=1, le=10_000)
    forgotten: bool = False

    @property
    def contents(self) -> list[str]:
        """Its content, as often as it is repeated."""
        if self.repeat == 1:
            return [self.content]
        return [self.content.replace("{n}", str(n)) for n in range(1, self.repeat + 1)]


class Request(Part):
    """What is asked in the end.

    Attributes:
        query: What is looked up in memory; None for the text.
        date: None for three weeks after the last session.
    """

    text: str = Field(min_length=1)
    query: str | None = None
    scope: ScopeMap = Field(default_factory=dict)
    user: str | None = None
    date: AwareDatetime | None = None
    k: int = Field(default=3, ge=1)
    kinds: tuple[str, ...] | None = None
    policy: str | None = None
    path: Path = "recall_and_decide"


class NeedSpec(Part):
    """What the request needs from memory: keys of records, a text or a claim."""

    records: tuple[str, ...] = ()
    text: str | None = None
    claim: dict[str, str | int | float | bool] | None = None

    def to_need(self, ids: Mapping[str, str | None], *, should_use: bool) -> Need:
        """As ``diagnose`` wants it, the keys replaced by the records' ids."""
        named = tuple(id_ for key in self.records if (id_ := ids.get(key)))
        return Need(record_ids=named, text=self.text, claim=self.claim, should_use=should_use)


class Success(Part):
    """How an answer is judged: by exactly one of these.

    Attributes:
        exact: Values that fields of the answer must have.
        regex: Patterns that must be found in fields of the answer.
        function: ``package.module:function`` of the answer and the task, to a bool.
        judge: What a judging model is to look for.
    """

    exact: dict[str, str | int | float | bool | None] | None = None
    regex: dict[str, str] | None = None
    function: str | None = Field(default=None, alias="callable", pattern=r"^[\w.]+:[\w.]+$")
    judge: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [n for n in ("exact", "regex", "function", "judge") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of exact, regex, callable and judge")
        return self


class Task(Part):
    """One task: what was said in some sessions, a request in a later one, and what is right.

    Attributes:
        tags: For breakdowns: ``kind``, ``phrasing``, ``fault`` or one's own.
        corpus: Name of a set of records that several tasks share, and one workspace with
            it; None gives the task a workspace of its own.
        answer: Field to its choices, or to ``text``, ``integer``, ``number``, ``boolean``.
        should_use: False when the right thing is to leave the memory aside.
        correction: What a user says who got a wrong answer; None for what is needed.
        settings: Fields of ``MemoryConfig`` for this task.
        planted: The fault that the scripted models have in this task.
        decider: What the scripted model answers.
    """

    id: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    tags: dict[str, str] = Field(default_factory=dict)
    corpus: str | None = None
    sessions: tuple[Session, ...] = ()
    records: tuple[DirectRecord, ...] = ()
    request: Request
    answer: AnswerShape
    need: NeedSpec = NeedSpec()
    should_use: bool = True
    success: Success
    correction: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    planted: Planted | None = None
    decider: DeciderScript | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        answer_model(self.answer)
        self.config(MemoryConfig())
        for name in ("exact", "regex"):
            if unknown := set(getattr(self.success, name) or ()) - set(self.answer):
                raise ValueError(
                    f"success.{name} has {', '.join(sorted(unknown))}, which answer has not"
                )
        keys = [record.key for record in self.records if record.key]
        if len(set(keys)) < len(keys):
            raise ValueError("two of records have the same key")
        if not self.corpus and (unknown := set(self.need.records) - set(keys)):
            raise ValueError(f"need.records has {', '.join(sorted(unknown))}: no record has it")
        return self

    def config(self, base: MemoryConfig) -> MemoryConfig:
        """The settings of this task on top of others.

        Raises:
            ValueError: there is no such setting, or it can't have that value.
        """
        known = set(MemoryConfig.__dataclass_fields__)
        if unknown := set(self.settings) - known:
            raise ValueError(f"settings has {', '.join(sorted(unknown))}: there is no such setting")
        values = {name: getattr(base, name) for name in known} | self.settings
        try:
            return MemoryConfig(**values)
        except TypeError as error:
            raise ValueError(f"settings: {error}") from error

    @property
    def begins(self) -> datetime:
        """When its first session is, or was."""
        dates = [session.date for session in self.sessions if session.date]
        return min(dates, default=DEFAULT_DATE)

    @property
    def asks_at(self) -> datetime:
        """When the request comes."""
        if self.request.date:
            return self.request.date
        dates = [session.date for session in self.sessions if session.date]
        return max(dates, default=DEFAULT_DATE) + LATER


class Suite(Part):
    """Tasks that are run and reported together.

    Attributes:
        corpora: Sets of records that several tasks share, by name.
        settings: Fields of ``MemoryConfig`` for every task that does not set them itself.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,100}$")
    about: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    corpora: dict[str, tuple[DirectRecord, ...]] = Field(default_factory=dict)
    tasks: tuple[Task, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _ids_and_corpora(self) -> Self:
        seen: set[str] = set()
        for task in self.tasks:
            if task.id in seen:
                raise ValueError(f"two tasks are called {task.id!r}: an id names one task")
            seen.add(task.id)
            if task.corpus is None:
                continue
            keys = {r.key for r in self.corpora.get(task.corpus, ())}
            if task.corpus not in self.corpora:
                raise ValueError(f"task {task.id!r} has the corpus {task.corpus!r}: there is none")
            keys |= {r.key for r in task.records}
            if unknown := set(task.need.records) - keys:
                raise ValueError(
                    f"task {task.id!r}: need.records has {', '.join(sorted(unknown))}: no record "
                    f"of corpus {task.corpus!r} has it"
                )
        return self

    @property
    def digest(self) -> str:
        """Another suite has another one."""
        content: Json = self.model_dump(mode="json", by_alias=True)
        return digest(canonical_json(content), length=16)
