"""The runs of a counterfactual: how many, and what each side answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.diagnosis.counterfactual import (
    SURE_RUNS,
    Comparison,
    Same,
    alike,
    answer_in,
    compare,
    equal_json,
)
from memplugin.diagnosis.replay import settle
from memplugin.diagnosis.stored_call import ReadAnswer, StoredCall, by_class, by_structure
from memplugin.memory.steps import ModelCall, Steps
from memplugin.memory.store import Store
from memplugin.records import Json
from memplugin.telemetry.spans import Hop
from memplugin.use.decide import Settled, next_step

OnRun = Callable[[int, int], None]
"""Told after each run how many are done and how many there are at most."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What to try, and how.

    Attributes:
        record_ids: None for every record that was shown.
        runs: On each side; None for the configured number.
        same: Which answers are the same.
        deterministic: None takes the model's word: a temperature of 0.
        answer: The class that was decided for; None reads replies by the stored schema.
        max_reasoning_chars: ``maxLength`` of the reasoning fields, on both sides.
        cite_by_enum: Whether the schema offers only the shown ids as citations. Both are for
            a small model.
        on_run: For a progress bar.
    """

    record_ids: Sequence[str] | None = None
    runs: int | None = None
    same: Same = equal_json
    deterministic: bool | None = None
    answer: type[BaseModel] | None = None
    max_reasoning_chars: int | None = None
    cite_by_enum: bool = False
    on_run: OnRun | None = None


@dataclass(slots=True)
class Side:
    """The runs of one call so far."""

    call: StoredCall
    answers: list[Json | None] = field(default_factory=list["Json | None"])
    failed: int = 0

    @property
    def asked(self) -> int:
        """How many runs were made."""
        return len(self.answers) + self.failed

    def agree(self, same: Same) -> bool:
        """Whether every run was answered, and alike."""
        return not self.failed and all(
            alike(self.answers[0], other, same) for other in self.answers[1:]
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """Both sides of one record.

    Attributes:
        deterministic: Whether few runs were enough.
    """

    comparison: Comparison
    kept: Side
    left_out: Side
    deterministic: bool


@dataclass(slots=True)
class Trying:
    """One decision's runs."""

    store: Store
    model: BaseChatModel
    trial: Trial
    call: StoredCall
    hop: Hop
    runs: int
    most: int
    done: int = 0
    answered_by: str | None = None
    read: ReadAnswer = field(init=False)

    def __post_init__(self) -> None:
        given = self.trial.answer
        self.read = by_class(given) if given else by_structure(self.call.schema)

    def compared(self, kept: Side, left_out: Side) -> Steps[Tried]:
        """Runs both sides until they can be compared; what was run before counts."""
        sure = self._said_to_be_deterministic() and (yield from self._few(kept, left_out))
        if not sure:
            yield from self._fill(kept, self.runs)
            yield from self._fill(left_out, self.runs)
        found = compare(kept.answers, left_out.answers, self.trial.same, deterministic=sure)
        return Tried(found, kept, left_out, sure)

    def _said_to_be_deterministic(self) -> bool:
        if self.trial.deterministic is not None:
            return self.trial.deterministic
        return getattr(self.model, "temperature", None) == 0

    def _few(self, kept: Side, left_out: Side) -> Steps[bool]:
        """Runs each side a little; False when the model varies all the same.

        Two runs with the record and one without show that nothing changes. A change is
        confirmed by three and three, since two that agree may do so by chance.
        """
        yield from self._fill(kept, 2)
        if not kept.agree(self.trial.same):
            return False
        yield from self._fill(left_out, 1)
        if left_out.answers and alike(kept.answers[0], left_out.answers[0], self.trial.same):
            return left_out.agree(self.trial.same)
        yield from self._fill(kept, SURE_RUNS)
        yield from self._fill(left_out, SURE_RUNS)
        return all(side.agree(self.trial.same) for side in (kept, left_out))

    def _fill(self, side: Side, runs: int) -> Steps[None]:
        while side.asked < runs:
            yield from self._run(side)
            self.done += 1
            if self.trial.on_run:
                self.trial.on_run(self.done, self.most)

    def _run(self, side: Side) -> Steps[None]:
        call, replies = side.call, list[Settled]()
        while next_step(replies, self.store.config.decide_retries) == "again":
            reply = yield ModelCall(self.model, call.schema, call.messages, call.options, self.hop)
            replies.append(settle(reply, call.schema, self.read))
        last = replies[-1]
        self.answered_by = last.reply.model or self.answered_by
        if last.status == "error":  # no reply at all says nothing about the record
            side.failed += 1
            return
        answer = last.values
        side.answers.append(None if answer is None else answer_in(answer, call.schema))
