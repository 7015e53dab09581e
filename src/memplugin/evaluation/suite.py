"""What the pieces of a suite have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, Self

from pydantic import AwareDatetime, Field, model_validator

from memplugin.config import MemoryConfig
from memplugin.evaluation.suite_parts import (
    AnswerShape,
    ClaimMap,
    DeciderScript,
    DirectRecord,
    Part,
    Planted,
    Scalar,
    ScopeMap,
    Session,
)
from memplugin.records import Need
from memplugin.text import canonical_json, digest

LATER = timedelta(weeks=3)
"""How long after the last session a request comes that has no date of its own."""

DEFAULT_DATE = datetime(2026, 3, 2, 9, tzinfo=UTC)
"""Of a session without a date."""

_ID = r"^[A-Za-z0-9_-]{1,100}$"


class Request(Part):
    """What is asked in the end.

    Attributes:
        query: What is looked up in memory; None for the text.
        date: None for three weeks after the last session.
        path: Which hops it goes through; see ``agents``.
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


class SaidIn(Part):
    """A message: the id of its session, and its number there, from 0."""

    session: str = "s_1"
    turn: int = Field(default=0, ge=0)


class NeedSpec(Part):
    """What the request needs from memory.

    Attributes:
        records: Keys of records.
        said: The message that says it; with a text, what of it is needed.
    """

    records: tuple[str, ...] = ()
    text: str | None = None
    claim: ClaimMap | None = None
    said: SaidIn | None = None

    def to_need(self, ids: Mapping[str, str], turn_id: str | None, *, should_use: bool) -> Need:
        """As ``diagnose`` wants it.

        Args:
            ids: The records' ids by their keys.
            turn_id: Of the message in ``said``.
            should_use: As the task says.
        """
        return Need(
            record_ids=tuple(ids[key] for key in self.records if key in ids),
            text=self.text,
            claim=self.claim,
            turn_id=turn_id,
            should_use=should_use,
        )


class Success(Part):
    """How an answer is judged: by exactly one of these.

    Attributes:
        exact: Values that fields of the answer must have.
        regex: Patterns that must be found in fields of the answer, in any case.
        function: ``package.module:function`` of the answer and the task, to a bool.
        judge: What a judging model is to look for.
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


class Task(Part):
    """One task: what was said in some sessions, a request in a later one, and what is right.

    Attributes:
        tags: For breakdowns: ``phrasing``, ``kind``, ``fault`` or one's own.
        corpus: Name of a set of records that several tasks share, and one workspace with
            it; None gives the task a workspace of its own.
        answer: Field to its choices, or to ``text``, ``integer``, ``number``, ``boolean``.
        should_use: False when the right thing is to leave the memory aside.
        correction: What a user says who got a wrong answer; None for what is needed.
        settings: Fields of ``MemoryConfig`` for this task.
        planted: The fault that the scripted models have in this task.
        decider: What the scripted model answers.
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
    planted: Planted | None = None
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
        self._check_said()
        if self.corpus is None and (unknown := set(self.need.records) - set(self.keys)):
            raise ValueError(f"need.records has {', '.join(sorted(unknown))}: no record has it")
        return self

    def _check_said(self) -> None:
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
        """Its sessions by their own ids, else by ``s_1``, ``s_2`` …."""
        return [(s.id or f"s_{place}", s) for place, s in enumerate(self.sessions, 1)]

    @property
    def keys(self) -> list[str]:
        """The keys of its own records."""
        return [record.key for record in self.records if record.key]

    @property
    def begins(self) -> datetime:
        """When its first session was."""
        return min((s.date for s in self.sessions if s.date), default=DEFAULT_DATE)

    @property
    def asks_at(self) -> datetime:
        """When the request comes."""
        last = max((s.date for s in self.sessions if s.date), default=DEFAULT_DATE)
        return self.request.date or last + LATER


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
        """Another suite has another one."""
        return digest(canonical_json(self.model_dump(mode="json", by_alias=True)), length=16)

    def config(self, task: Task, base: MemoryConfig) -> MemoryConfig:
        """The settings of one task: its own, then the suite's, then the caller's."""
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
