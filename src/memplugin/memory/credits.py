"""The part of the front door that gives credit: who was followed, what it was worth, who goes."""

from __future__ import annotations

from langchain_core.language_models import BaseChatModel

from memplugin.memory import learning
from memplugin.memory.learning import DEFAULT_CONCURRENCY, Progress, Wanted
from memplugin.memory.store import Store
from memplugin.records import LearnReport


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
