"""What a suite is made of: tasks, their sessions and records, and how answers are graded.

Read from YAML or JSONL by ``load``. Every class here is one mapping of such a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any, Literal, Self, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    create_model,
    model_validator,
)

from memplugin.config import MemoryConfig, checked_scope
from memplugin.records import Need
from memplugin.text import canonical_json, digest
from memplugin.use.schema import decision_schema

DEFAULT_DATE = datetime(2026, 3, 2, 9, tzinfo=UTC)
"""The date of a session that has none."""

REQUEST_DELAY = timedelta(weeks=3)
"""How long after the last session a request comes that has no date of its own."""

_ID = r"^[A-Za-z0-9_-]{1,100}$"

Scalar = str | int | float | bool
ScopeMap = Annotated[dict[str, str], AfterValidator(checked_scope)]
ClaimMap = dict[str, Scalar]


class Part(BaseModel):
    """A part of a suite. Unknown keys are errors: a typo must not be silently ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


# ---------------------------------------------------------------- the shape of an answer

FieldShape = (
    Literal["text", "integer", "number", "boolean"]
    | Annotated[tuple[str, ...], Field(min_length=1)]
)
"""A type, or the choices there are."""

_TYPES: dict[str, Any] = {"text": str, "integer": int, "number": float, "boolean": bool}


def _checked_shape(shape: dict[str, FieldShape]) -> dict[str, FieldShape]:
    decision_schema(answer_model(shape))
    return shape


AnswerShape = Annotated[dict[str, FieldShape], Field(min_length=1), AfterValidator(_checked_shape)]
"""The fields of an answer, in the order in which they are to be decided."""


def answer_model(shape: dict[str, FieldShape]) -> type[BaseModel]:
    """The Pydantic model of an answer; the same class for the same shape."""
    return _cached_model(canonical_json(shape), tuple(shape.items()))


@lru_cache(maxsize=256)
def _cached_model(_key: str, fields: tuple[tuple[str, FieldShape], ...]) -> type[BaseModel]:
    create: Any = create_model  # typed for its own options; here every argument is a field
    return create("Answer", **{name: (_type(shape), ...) for name, shape in fields})


def _type(shape: FieldShape) -> Any:
    if isinstance(shape, str):
        return _TYPES[shape]
    return cast(Any, Literal[shape])


# ---------------------------------------------------------------- before the request


class GoldFact(Part):
    """Something that should be remembered from a session.

    Attributes:
        turn: The number of the message that says it, from 0.
        quote: Its words; None for the whole message.
        by: The annotators who noted it; empty means all of them.
    """

    content: str = Field(min_length=1)
    kind: str = "fact"
    turn: int = Field(default=0, ge=0)
    quote: str | None = None
    polarity: Literal["positive", "negative"] = "positive"
    scope: ScopeMap = Field(default_factory=dict)
    claim: ClaimMap | None = None
    time_phrase: str | None = None
    occurred_at: str | None = None
    by: tuple[str, ...] = ()


class Misreading(GoldFact):
    """What a faulty extractor proposes instead of a gold fact."""

    confidence: float = Field(default=0.9, ge=0, le=1)


_ROLES = ("user", "assistant", "tool", "system")


class Message(Part):
    """One message; ``{user: …}`` is short for a role and a content.

    Attributes:
        phrasing: How it is put, for the write suite: ``question``, ``hypothetical`` …;
            None takes the phrasing of the session.
    """

    role: Literal["user", "assistant", "tool", "system"]
    content: str = Field(min_length=1)
    phrasing: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        values = dict[str, Any](given)  # pyright: ignore[reportUnknownArgumentType] -- of a file
        roles = [role for role in _ROLES if role in values]
        if "role" in values or len(roles) != 1:
            return values
        return {"role": roles[0], "content": values.pop(roles[0]), **values}


class Session(Part):
    """One conversation.

    Attributes:
        gold: What should be remembered from it; the scripted extractor proposes just that.
        annotators: The people who annotated it, where there are several.
        misread: What a faulty extractor proposes instead, or how it fails to give a usable
            reply. Only the scripted model reads this.
    """

    id: str | None = None
    date: AwareDatetime | None = None
    user: str | None = None
    phrasing: str | None = None
    messages: tuple[Message, ...] = Field(min_length=1)
    gold: tuple[GoldFact, ...] = ()
    annotators: tuple[str, ...] = ()
    misread: Literal["refused", "truncated", "down"] | tuple[Misreading, ...] | None = None

    @model_validator(mode="after")
    def _references_exist(self) -> Self:
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
    """A record that is written directly, before the first session.

    Attributes:
        key: The name that ``need`` uses for it.
        date: The date from which it is true; None for the day before the first session.
        repeat: How many copies are written; ``{n}`` in the content is the number, from 1.
        forgotten: Whether it is forgotten again before the request.
    """

    key: str | None = None
    content: str = Field(min_length=1)
    kind: str = "fact"
    scope: ScopeMap = Field(default_factory=dict)
    claim: ClaimMap | None = None
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
        """The contents of its copies."""
        if self.repeat == 1:
            return [self.content]
        return [self.content.replace("{n}", str(n)) for n in range(1, self.repeat + 1)]


# ---------------------------------------------------------------- the request, and what is right


class Request(Part):
    """The request at the end of a task.

    Attributes:
        query: The query to memory; None for the text.
        date: None for three weeks after the last session.
        path: The hops that it goes through; see ``agents``.
    """

    text: str = Field(min_length=1)
    query: str | None = None
    scope: ScopeMap = Field(default_factory=dict)
    user: str | None = None
    date: AwareDatetime | None = None
    k: int = Field(default=3, ge=1)
    kinds: tuple[str, ...] | None = None
    policy: str | None = None
    path: Literal["recall_and_decide", "recall_and_answer", "answer_only"] = "recall_and_decide"


class MessageRef(Part):
    """A message, by the id of its session and its number there, from 0."""

    session: str = "s_1"
    turn: int = Field(default=0, ge=0)


class NeedSpec(Part):
    """What the request needs from memory.

    Attributes:
        records: Keys of records.
        text: What is needed, in words.
        said: The message that says it; a text then selects a part of it.
    """

    records: tuple[str, ...] = ()
    text: str | None = None
    claim: ClaimMap | None = None
    said: MessageRef | None = None

    def to_need(self, ids: Mapping[str, str], turn_id: str | None, *, should_use: bool) -> Need:
        """Converts it to the form that ``diagnose`` takes.

        Args:
            ids: The ids of the records by their keys.
            turn_id: The turn of the message in ``said``; None without one.
            should_use: Whether the task should use the memory.

        Returns:
            The need; keys without an id are left out.
        """
        return Need(
            record_ids=tuple(ids[key] for key in self.records if key in ids),
            text=self.text,
            claim=self.claim,
            turn_id=turn_id,
            should_use=should_use,
        )


class Success(Part):
    """How an answer is graded: by exactly one of these.

    Attributes:
        exact: Values that fields of the answer must have.
        regex: Patterns that must be found in fields of the answer, in any case.
        function: ``package.module:function``; called with the answer and the task, returns
            a bool.
        judge: What a model that grades the answer is to look for.
    """

    exact: dict[str, Scalar | None] | None = Field(default=None, min_length=1)
    regex: dict[str, str] | None = Field(default=None, min_length=1)
    function: str | None = Field(default=None, alias="callable", pattern=r"^[\w.]+:[\w.]+$")
    judge: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [n for n in ("exact", "regex", "function", "judge") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of exact, regex, callable and judge")
        return self


class PlantedFault(Part):
    """The fault that the scripted models have in a task, by the verdict it should get."""

    stage: Literal["write", "retrieval", "use", "none", "undetermined"]
    cause: str


class DeciderScript(Part):
    """How the scripted model answers.

    Attributes:
        follows: A pattern; the first shown memory that has it is followed and cited.
            None for the text that the task needs.
        then: The answer that follows it; None for the right one.
        otherwise: The answer without it, and that of a model with a fault; None for
            ``then``.
        fails: How a model that gives no answer fails.
    """

    follows: str | None = None
    then: dict[str, Scalar | None] | None = None
    otherwise: dict[str, Scalar | None] | None = None
    fails: Literal["talks", "refused", "truncated", "down"] = "talks"


class Task(Part):
    """One task: earlier sessions, a request in a later one, and what a right answer is.

    Attributes:
        tags: For breakdowns: ``phrasing``, ``kind``, ``fault`` or your own.
        corpus: The name of a set of records that several tasks share, in one workspace;
            None gives the task a workspace of its own.
        answer: Field to its choices, or to ``text``, ``integer``, ``number``, ``boolean``.
        should_use: False when the right thing is not to use the memory.
        correction: What the user says after a wrong answer; None for the text of the need.
        settings: Fields of ``MemoryConfig`` for this task.
        planted: The fault that the scripted models have in this task.
        decider: How the scripted model answers.
    """

    id: str = Field(pattern=_ID)
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
    planted: PlantedFault | None = None
    decider: DeciderScript | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        configured(MemoryConfig(), self.settings)
        for name in ("exact", "regex"):
            if unknown := set(getattr(self.success, name) or ()) - set(self.answer):
                raise ValueError(
                    f"success.{name} has {', '.join(sorted(unknown))}, which answer has not"
                )
        if len(set(self.keys)) < len(self.keys):
            raise ValueError("two of records have the same key: a key names one record")
        self._check_message()
        if self.corpus is None and (unknown := set(self.need.records) - set(self.keys)):
            raise ValueError(f"need.records has {', '.join(sorted(unknown))}: no record has it")
        return self

    def _check_message(self) -> None:
        said = self.need.said
        if said is None:
            return
        session = dict(self.named_sessions).get(said.session)
        if session is None or said.turn >= len(session.messages):
            raise ValueError(
                f"need.said is message {said.turn} of session {said.session!r}: there is none"
            )

    @property
    def named_sessions(self) -> list[tuple[str, Session]]:
        """Its sessions with their ids; one without an id is called ``s_1``, ``s_2`` …."""
        return [(s.id or f"s_{place}", s) for place, s in enumerate(self.sessions, 1)]

    @property
    def keys(self) -> list[str]:
        """The keys of its own records."""
        return [record.key for record in self.records if record.key]

    @property
    def starts_at(self) -> datetime:
        """The date of its first session."""
        return min((s.date for s in self.sessions if s.date), default=DEFAULT_DATE)

    @property
    def request_at(self) -> datetime:
        """The date of the request."""
        last = max((s.date for s in self.sessions if s.date), default=DEFAULT_DATE)
        return self.request.date or last + REQUEST_DELAY


class Suite(Part):
    """Tasks that are run and reported together.

    Attributes:
        settings: Fields of ``MemoryConfig`` for every task that does not set them itself.
        corpora: Sets of records that several tasks share, by name.
    """

    name: str = Field(pattern=_ID)
    about: str = ""
    settings: dict[str, Any] = Field(default_factory=dict)
    corpora: dict[str, tuple[DirectRecord, ...]] = Field(default_factory=dict)
    tasks: tuple[Task, ...]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.tasks:
            raise ValueError("there are no tasks: give at least one")
        configured(MemoryConfig(), self.settings)
        seen: set[str] = set()
        for task in self.tasks:
            if task.id in seen:
                raise ValueError(f"two tasks are called {task.id!r}: an id names one task")
            seen.add(task.id)
            self._check_corpus(task)
        return self

    def _check_corpus(self, task: Task) -> None:
        if task.corpus is None:
            return
        if task.corpus not in self.corpora:
            raise ValueError(f"task {task.id!r} has the corpus {task.corpus!r}: there is none")
        keys = {record.key for record in self.corpora[task.corpus]}
        if unknown := set(task.need.records) - keys - set(task.keys):
            raise ValueError(
                f"task {task.id!r}: need.records has {', '.join(sorted(unknown))}: no record of "
                f"corpus {task.corpus!r} has it"
            )

    @property
    def digest(self) -> str:
        """A hash of everything in the suite: a changed suite has another one."""
        return digest(canonical_json(self.model_dump(mode="json", by_alias=True)), length=16)

    def config(self, task: Task, base: MemoryConfig) -> MemoryConfig:
        """The settings of a task: its own go before those of the suite, these before ``base``."""
        return configured(base, {**self.settings, **task.settings})


def configured(base: MemoryConfig, settings: Mapping[str, Any]) -> MemoryConfig:
    """A configuration with some fields changed.

    Raises:
        ValueError: there is no such field, or it can't have that value.
    """
    if unknown := set(settings) - set(MemoryConfig.__dataclass_fields__):
        raise ValueError(f"settings has {', '.join(sorted(unknown))}: there is no such setting")
    try:
        return replace(base, **settings)
    except TypeError as error:
        raise ValueError(f"settings: {error}") from error
