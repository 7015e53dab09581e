"""Counterfactuals: a stored decision, run again and again with and without one record.

What is run is the call that the decision rests on; nothing in it changes but the record
that is left out. What the store does about an answer that goes against memory
(``on_override``) is not done again: compared is what the model itself answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.chance import require_scipy
from memplugin.diagnosis.counterfactual import LEAST_RUNS
from memplugin.diagnosis.stored_call import (
    StoredCall,
    stored_call,
    with_citations,
    with_max_reasoning,
    without_records,
)
from memplugin.errors import ConfigError
from memplugin.memory.replaying import stored_decision
from memplugin.memory.steps import Steps
from memplugin.memory.store import Store
from memplugin.memory.trying import Side, Trial, Tried, Trying
from memplugin.records import Counterfactual, Decision
from memplugin.telemetry import names
from memplugin.telemetry.report import left_out
from memplugin.text import digest


def counterfactual(
    store: Store,
    decision_id: str | None,
    context: MemoryContext,
    model: BaseChatModel,
    trial: Trial,
) -> Steps[tuple[Counterfactual, ...]]:
    """Tries each record, and keeps what came of it.

    Raises:
        ConfigError: there is no such decision, a record was not shown to it, or the number
            of runs can't tell anything.
    """
    require_scipy()  # before any run is paid for
    runs = _runs(store, trial)
    decision = _decision(store, decision_id, context)
    call = stored_call(decision)
    if trial.max_reasoning_chars is not None:
        call = with_max_reasoning(call, trial.max_reasoning_chars)
    if trial.cite_by_enum:
        call = with_citations(call)
    # Before the first run: a record that was not shown is the caller's error.
    sides = {
        record_id: without_records(call, [record_id])
        for record_id in _record_ids(store, decision, call, trial)
    }
    where = MemoryContext(decision.workspace_id, decision.session_id, task_id=decision.task_id)
    hop = store.tracing.start(names.LEAVE_OUT, where)
    try:
        most = runs * (1 + len(sides))
        trying = Trying(store, model, trial, call, hop, runs, most)
        found = yield from _tried(store, decision, trying, sides)
        store.ledger.save_counterfactuals(found)
        hop.set(lambda: left_out(found, at=store.clock.now()))
        return tuple(found)
    except BaseException as error:
        hop.failed(error)
        raise
    finally:
        hop.end()


def _tried(
    store: Store, decision: Decision[Any], trying: Trying, sides: Mapping[str, StoredCall]
) -> Steps[list[Counterfactual]]:
    kept = Side(trying.call)
    found: list[Counterfactual] = []
    for record_id, changed in sides.items():
        tried = yield from trying.compared(kept, Side(changed))
        found.append(_found(decision, record_id, trying, tried, store.clock.now()))
    return found


def _runs(store: Store, trial: Trial) -> int:
    runs = store.config.counterfactual_runs if trial.runs is None else trial.runs
    if runs < LEAST_RUNS:
        raise ConfigError(
            f"runs is {runs}: on fewer than {LEAST_RUNS} runs a side even a complete change "
            "could be chance. Give more, or say that the model is deterministic."
        )
    return runs


def _decision(store: Store, decision_id: str | None, context: MemoryContext) -> Decision[Any]:
    if decision_id is not None:
        return stored_decision(store, context.workspace_id, decision_id)
    decisions = store.ledger.task_rows(context.workspace_id, context.task).decisions
    if not decisions:
        raise ConfigError(
            f"task {context.task!r} of workspace {context.workspace_id!r} has no decision: check "
            "both ids (`memplugin task` shows what a task left behind)."
        )
    return decisions[-1]


def _record_ids(
    store: Store, decision: Decision[Any], call: StoredCall, trial: Trial
) -> Sequence[str]:
    if isinstance(trial.record_ids, str):
        raise ConfigError(f"record_ids is the text {trial.record_ids!r}: give a list of ids.")
    if trial.record_ids is not None:
        wanted = list(dict.fromkeys(trial.record_ids))
        if gone := _forgotten(store, decision, wanted):
            raise ConfigError(
                f"{', '.join(sorted(gone))} was forgotten since, so that its text is no longer in "
                "the stored messages: leave it out of record_ids."
            )
        return wanted
    fed = decision.retrieval_id and store.ledger.retrieval(
        decision.workspace_id, decision.retrieval_id
    )
    if not fed:
        raise ConfigError(
            "the retrieval that fed this decision is not in the ledger (it may have been "
            "pruned): name the records to leave out."
        )
    shown = [candidate.record_id for candidate in fed.injected]
    gone = _forgotten(store, decision, shown)
    return [record_id for record_id in shown if record_id not in gone]


def _forgotten(store: Store, decision: Decision[Any], record_ids: Sequence[str]) -> set[str]:
    records = store.ledger.records(decision.workspace_id, record_ids)
    return {record.id for record in records.values() if record.status == "forgotten"}


def _found(
    decision: Decision[Any], record_id: str, trying: Trying, tried: Tried, at: datetime
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
        model=trying.answered_by,
        created_at=at,
    )
