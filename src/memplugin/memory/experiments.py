"""The part of the front door that finds out whether a memory bore on an answer."""

from __future__ import annotations

from collections.abc import Iterable

from langchain_core.language_models import BaseChatModel
from pydantic import BaseModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.counterfactual import Same, equal_json
from memplugin.memory import leaving_out
from memplugin.memory.steps import arun, run
from memplugin.memory.store import Store
from memplugin.memory.trying import Trial
from memplugin.records import Counterfactual


class Experiments:
    """The methods of ``Memory`` that leave a record out and look at the answers."""

    _store: Store

    def counterfactual(
        self,
        decision_id: str | None = None,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        record_ids: Iterable[str] | None = None,
        runs: int | None = None,
        same: Same = equal_json,
        deterministic: bool | None = None,
        answer: type[BaseModel] | None = None,
    ) -> tuple[Counterfactual, ...]:
        """Runs a stored decision again and again, with and without one record each.

        Everything else of the messages stays byte for byte the same. Runs with all records
        are made once and compared with those without each of them. What comes of it is kept
        and stands in the task's record from then on. Needs the extra ``lab``.

        Args:
            decision_id: The decision; None for the last one of the context's task.
            context: Its workspace counts, and its task where no decision is named.
            model: The same model or another one.
            record_ids: The records to leave out, each by itself; None for all that were
                shown.
            runs: On each side; None for the configured number (``counterfactual_runs``).
            same: Which answers are the same: of two answers as JSON objects, without their
                reasoning. The default compares them by equality.
            deterministic: Whether the model gives the same answer to the same messages.
                Then two runs with the record and one without are enough where nothing
                changes, and three and three where the answer does; should any repeat differ,
                ``runs`` are made after all. None takes a temperature of 0 for it.
            answer: The class that was decided for, to have its validators and defaults.

        Returns:
            One for each record, in the order given.

        Raises:
            ConfigError: there is no such decision, a record was not shown to it, too few
                runs, or SciPy is missing.
            SchemaError: ``answer`` can't become a decision schema.
            StoreError: the ledger could not be read or written.
        """
        trial = Trial(_listed(record_ids), runs, same, deterministic, answer)
        return run(leaving_out.counterfactual(self._store, decision_id, context, model, trial))

    async def acounterfactual(
        self,
        decision_id: str | None = None,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        record_ids: Iterable[str] | None = None,
        runs: int | None = None,
        same: Same = equal_json,
        deterministic: bool | None = None,
        answer: type[BaseModel] | None = None,
    ) -> tuple[Counterfactual, ...]:
        """``counterfactual``, awaiting the model."""
        trial = Trial(_listed(record_ids), runs, same, deterministic, answer)
        return await arun(
            leaving_out.counterfactual(self._store, decision_id, context, model, trial)
        )


def _listed(record_ids: Iterable[str] | None) -> list[str] | str | None:
    if record_ids is None or isinstance(record_ids, str):
        return record_ids  # a text is refused where the others are looked at
    return list(record_ids)
