"""The part of the front door that gives credit: who was followed, what it was worth, who goes."""

from __future__ import annotations

from langchain_core.language_models import BaseChatModel

from memplugin.config import MemoryContext
from memplugin.diagnosis.audit import Audit
from memplugin.diagnosis.calibration import Calibration
from memplugin.diagnosis.counterfactual import Same, equal_json
from memplugin.memory import auditing, calibrating, learning, retiring
from memplugin.memory.learning import DEFAULT_CONCURRENCY, Progress, Wanted
from memplugin.memory.steps import arun, in_thread, run
from memplugin.memory.store import Store
from memplugin.memory.trying import Trial
from memplugin.records import Eviction, LearnReport, MemoryRecord


class Credits:
    """The methods of ``Memory`` that learn from outcomes."""

    _store: Store

    def learn(
        self,
        *,
        model: BaseChatModel | None = None,
        workspace_id: str | None = None,
        limit: int | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: Progress | None = None,
    ) -> LearnReport:
        """Scores, for every memory that was shown, whether the attempt's action followed it.

        That is a heuristic, not a cause: ``calibrate`` compares it with counterfactual runs.
        Rows that are scored are not scored again; those that failed keep their error and are
        tried again by the next call. A run that was stopped is gone on with.

        Args:
            model: The judge, any chat model with structured output, with the temperature you
                gave it; None leaves it to the cosine of memory and action.
            workspace_id: None for all.
            limit: Most rows of this call; None for all.
            concurrency: Most calls of the judge at a time.
            progress: Told how many rows are done, and of how many.

        Returns:
            What was done. ``stopped`` says why when the judge could not be reached: if it
            never answered, nothing was written.

        Raises:
            ConfigError: an argument can't work.
            EmbedderUnavailable: without a judge, the embedding model could not be loaded.
            StoreError: the ledger could not be read or written.
        """
        return learning.learn(
            self._store, Wanted(model, workspace_id, limit, concurrency, progress)
        )

    async def alearn(
        self,
        *,
        model: BaseChatModel | None = None,
        workspace_id: str | None = None,
        limit: int | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: Progress | None = None,
    ) -> LearnReport:
        """``learn``, awaiting the judge."""
        wanted = Wanted(model, workspace_id, limit, concurrency, progress)
        return await learning.alearn(self._store, wanted)

    def audit(self, *, workspace_id: str) -> Audit:
        """Names what wants a person's eye: misleading records first, then the rest.

        Raises:
            StoreError: the ledger could not be read.
        """
        return auditing.audit(self._store, workspace_id)

    def evict(self, *, workspace_id: str, dry_run: bool = False) -> list[Eviction]:
        """Retires records whose use did harm, or whose successes did without them.

        Never one that is pinned or of a standing kind, and none before there is enough
        known of it. Retired records are kept and are never retrieved; ``restore`` takes it
        back. Pin a record that the next call should leave alone.

        Args:
            workspace_id: The workspace.
            dry_run: Only says which ones.

        Raises:
            StoreError: the ledger could not be read or written.
        """
        return retiring.evict(self._store, workspace_id, dry_run=dry_run)

    def restore(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """Takes an eviction back: the record is retrieved again.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: it is not evicted.
        """
        return retiring.restore(self._store, record_id, context)

    def calibrate(
        self,
        sample: int,
        *,
        workspace_id: str,
        model: BaseChatModel,
        runs: int | None = None,
        deterministic: bool | None = None,
        same: Same = equal_json,
        seed: int = 0,
    ) -> Calibration:
        """Compares judge and cosine with counterfactual runs: does "followed" tell a cause?

        For a random sample of scored records, the decision they were shown to is run again
        with and without them. What comes of it is kept, and a record that has been tried is
        not tried again. Needs the extra ``lab``.

        Args:
            sample: How many records.
            workspace_id: The workspace.
            model: The model that decides (not the judge).
            runs: As of ``counterfactual``, like ``deterministic`` and ``same``.
            deterministic: Whether the model gives the same answer to the same messages.
            same: Which answers are the same.
            seed: Of the sample.

        Raises:
            ConfigError: nothing is scored, an argument can't work, or SciPy is missing.
            StoreError: the ledger could not be read or written.
        """
        trial = Trial(runs=runs, deterministic=deterministic, same=same)
        steps = calibrating.calibrate(self._store, workspace_id, model, sample, trial, seed=seed)
        return run(steps)

    async def acalibrate(
        self,
        sample: int,
        *,
        workspace_id: str,
        model: BaseChatModel,
        runs: int | None = None,
        deterministic: bool | None = None,
        same: Same = equal_json,
        seed: int = 0,
    ) -> Calibration:
        """``calibrate``, awaiting the model."""
        trial = Trial(runs=runs, deterministic=deterministic, same=same)
        steps = calibrating.calibrate(self._store, workspace_id, model, sample, trial, seed=seed)
        return await arun(steps)

    aaudit = in_thread(audit)
    aevict = in_thread(evict)
    arestore = in_thread(restore)
