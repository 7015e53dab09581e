"""The part of the ledger that evaluation works with: what was tried and judged afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memplugin.records import Counterfactual, Judgement


class Judging(Protocol):
    """Counterfactuals of decisions, and what the attribution and people say of tasks."""

    def save_counterfactuals(self, found: Sequence[Counterfactual]) -> None:
        """Keeps counterfactuals, in one transaction."""
        ...

    def counterfactuals(
        self, workspace_id: str, task_id: str | None = None
    ) -> list[Counterfactual]:
        """Those of a workspace, or of one of its tasks, oldest first."""
        ...

    def save_judgements(self, said: Sequence[Judgement]) -> None:
        """Keeps judgements, in one transaction; one of the same task by the same replaces it."""
        ...

    def judgements(self, workspace_id: str) -> list[Judgement]:
        """Everybody's of a workspace, oldest first."""
        ...
