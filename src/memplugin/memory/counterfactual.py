"""Runs a stored decision with and without one record each, and compares the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.counterfactual import (
    LEAST_RUNS,
    SURE_RUNS,
    Comparison,
    Same,
    alike,
    answer_in,
    compare,
    equal_json,
)
from memplugin.diagnosis.replay import check_reply
from memplugin.diagnosis.statistics import require_scipy
from memplugin.diagnosis.stored_call import (
    ReadAnswer,
    StoredCall,
    by_class,
    by_structure,
    stored_call,
    with_citations,
    with_max_reasoning,
    without_records,
)
from memplugin.errors import ConfigError
from memplugin.memory.backend import Backend
from memplugin.memory.model_call import ModelCall, Steps
from memplugin.memory.replay import stored_decision
from memplugin.records import Counterfactual, Decision, Json
from memplugin.telemetry import names
from memplugin.telemetry.attributes import left_out
from memplugin.telemetry.spans import Hop
from memplugin.text import digest
from memplugin.use.decide import CheckedReply, next_step

OnRun = Callable[[int, int], None]
"""Called after each run with how many are done, and how many there are at most."""


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
class _Side:
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
class _Tried:
    """Both sides of one record.

    Attributes:
        deterministic: Whether few runs were enough.
    """

    comparison: Comparison
    kept: _Side
    left_out: _Side
    deterministic: bool


@dataclass(slots=True)
class _Runner:
    """One decision's runs."""

    backend: Backend
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

    def compared(self, kept: _Side, left_out: _Side) -> Steps[_Tried]:
        """Runs both sides until they can be compared; what was run before counts."""
        sure = self._said_to_be_deterministic() and (yield from self._few(kept, left_out))
        if not sure:
            yield from self._fill(kept, self.runs)
            yield from self._fill(left_out, self.runs)
        found = compare(kept.answers, left_out.answers, self.trial.same, deterministic=sure)
        return _Tried(found, kept, left_out, sure)

    def _said_to_be_deterministic(self) -> bool:
        if self.trial.deterministic is not None:
            return self.trial.deterministic
        return getattr(self.model, "temperature", None) == 0

    def _few(self, kept: _Side, left_out: _Side) -> Steps[bool]:
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

    def _fill(self, side: _Side, runs: int) -> Steps[None]:
        while side.asked < runs:
            yield from self._run(side)
            self.done += 1
            if self.trial.on_run:
                self.trial.on_run(self.done, self.most)

    def _run(self, side: _Side) -> Steps[None]:
        call, replies = side.call, list[CheckedReply]()
        while next_step(replies, self.backend.config.decide_retries) == "again":
            reply = yield ModelCall(self.model, call.schema, call.messages, call.options, self.hop)
            replies.append(check_reply(reply, call.schema, self.read))
        last = replies[-1]
        self.answered_by = last.reply.model or self.answered_by
        if last.status == "error":  # no reply at all says nothing about the record
            side.failed += 1
            return
        answer = last.values
        side.answers.append(None if answer is None else answer_in(answer, call.schema))


def counterfactual(
    backend: Backend,
    decision_id: str | None,
    context: MemoryContext,
    model: BaseChatModel,
    trial: Trial,
) -> Steps[tuple[Counterfactual, ...]]:
    """Tries each record, and keeps what came of it.

    Args:
        backend: The store.
        decision_id: None for the last decision of the context's task.
        context: Its workspace counts, and its task where no decision is named.
        model: Decides again.
        trial: What to try, and how.

    Returns:
        One for each record, in the order given.

    Raises:
        ConfigError: there is no such decision, a record was not shown to it, or the number
            of runs can't tell anything.
    """
    require_scipy()  # before any run is paid for
    runs = _runs(backend, trial)
    decision = _decision(backend, decision_id, context)
    call = stored_call(decision)
    if trial.max_reasoning_chars is not None:
        call = with_max_reasoning(call, trial.max_reasoning_chars)
    if trial.cite_by_enum:
        call = with_citations(call)
    # Before the first run: a record that was not shown is the caller's error.
    sides = {
        record_id: without_records(call, [record_id])
        for record_id in _record_ids(backend, decision, call, trial)
    }
    where = MemoryContext(decision.workspace_id, decision.session_id, task_id=decision.task_id)
    hop = backend.tracing.start(names.LEAVE_OUT, where)
    try:
        most = runs * (1 + len(sides))
        runner = _Runner(backend, model, trial, call, hop, runs, most)
        found = yield from _tried(backend, decision, runner, sides)
        backend.ledger.counterfactuals.save(found)
        hop.set(lambda: left_out(found, at=backend.clock.now()))
        return tuple(found)
    except BaseException as error:
        hop.failed(error)
        raise
    finally:
        hop.end()


def _tried(
    backend: Backend, decision: Decision[Any], runner: _Runner, sides: Mapping[str, StoredCall]
) -> Steps[list[Counterfactual]]:
    kept = _Side(runner.call)
    found: list[Counterfactual] = []
    for record_id, changed in sides.items():
        tried = yield from runner.compared(kept, _Side(changed))
        found.append(_found(decision, record_id, runner, tried, backend.clock.now()))
    return found


def _runs(backend: Backend, trial: Trial) -> int:
    runs = backend.config.counterfactual_runs if trial.runs is None else trial.runs
    if runs < LEAST_RUNS:
        raise ConfigError(
            f"runs is {runs}: on fewer than {LEAST_RUNS} runs a side even a complete change "
            "could be chance. Give more, or say that the model is deterministic."
        )
    return runs


def _decision(backend: Backend, decision_id: str | None, context: MemoryContext) -> Decision[Any]:
    if decision_id is not None:
        return stored_decision(backend, context.workspace_id, decision_id)
    decisions = backend.ledger.history.task_rows(context.workspace_id, context.task).decisions
    if not decisions:
        raise ConfigError(
            f"task {context.task!r} of workspace {context.workspace_id!r} has no decision: check "
            "both ids (`memplugin task` shows what a task left behind)."
        )
    return decisions[-1]


def _record_ids(
    backend: Backend, decision: Decision[Any], call: StoredCall, trial: Trial
) -> Sequence[str]:
    if isinstance(trial.record_ids, str):
        raise ConfigError(f"record_ids is the text {trial.record_ids!r}: give a list of ids.")
    if trial.record_ids is not None:
        wanted = list(dict.fromkeys(trial.record_ids))
        if gone := _forgotten(backend, decision, wanted):
            raise ConfigError(
                f"{', '.join(sorted(gone))} was forgotten since, so that its text is no longer in "
                "the stored messages: leave it out of record_ids."
            )
        return wanted
    fed = decision.retrieval_id and backend.ledger.retrievals.get(
        decision.workspace_id, decision.retrieval_id
    )
    if not fed:
        raise ConfigError(
            "the retrieval that fed this decision is not in the ledger (it may have been "
            "pruned): name the records to leave out."
        )
    shown = [candidate.record_id for candidate in fed.injected]
    gone = _forgotten(backend, decision, shown)
    return [record_id for record_id in shown if record_id not in gone]


def _forgotten(backend: Backend, decision: Decision[Any], record_ids: Sequence[str]) -> set[str]:
    records = backend.ledger.records.get_many(decision.workspace_id, record_ids)
    return {record.id for record in records.values() if record.status == "forgotten"}


def _found(
    decision: Decision[Any], record_id: str, runner: _Runner, tried: _Tried, at: datetime
) -> Counterfactual:
    compared = tried.comparison
    return Counterfactual(
        id="x_" + digest(decision.id, record_id, at.isoformat()),
        workspace_id=decision.workspace_id,
        task_id=decision.task_id,
        session_id=decision.session_id,
        decision_id=decision.id,
        record_id=record_id,
        verdict=compared.verdict,
        flip=compared.flip,
        p_value=compared.p_value,
        detectable=compared.detectable,
        deterministic=tried.deterministic,
        with_record=replace(compared.with_record, failed=tried.kept.failed),
        without_record=replace(compared.without_record, failed=tried.left_out.failed),
        cited=record_id in decision.cited_record_ids,
        model=runner.answered_by,
        created_at=at,
    )
