"""The ledger's part that learning works with, as a mixin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from memplugin.crediting import Disagreement, Followed, Score, Shown
from memplugin.learn_config import CreditWeights
from memplugin.records import Credited, CreditTotals
from memplugin.storage import credit, follows
from memplugin.storage.engine import Database


class SqlCrediting:
    """``Crediting`` on SQLite or PostgreSQL."""

    _database: Database

    def unscored(self, workspace_id: str | None, *, judge: bool) -> list[int]:
        """Numbers of the rows that want a score, those that failed before at the end."""
        return follows.unscored(self._database, workspace_id, judge=judge)

    def without_action(self, workspace_id: str | None) -> int:
        """How many rows can't be scored, since their attempt was reported without its action."""
        return follows.without_action(self._database, workspace_id)

    def shown(self, numbers: Sequence[int]) -> list[Shown]:
        """The rows of these numbers, in their order; rows that are gone since are left out."""
        return follows.shown(self._database, numbers)

    def save_scores(self, scores: Sequence[Score], now: datetime) -> None:
        """Keeps scores in one transaction."""
        follows.save_scores(self._database, scores, now)

    def credit(
        self, workspace_id: str, record_ids: Iterable[str], weights: CreditWeights
    ) -> dict[str, Credited]:
        """What a ranking needs to know of records, in one query however long the history."""
        return credit.credit(self._database, workspace_id, record_ids, weights)

    def credit_totals(self, workspace_id: str, weights: CreditWeights) -> dict[str, CreditTotals]:
        """Everything that is known of each record of a workspace that was shown."""
        return credit.credit_totals(self._database, workspace_id, weights)

    def ever_shown(self, workspace_id: str) -> frozenset[str]:
        """Ids of the records that were shown at least once."""
        return follows.ever_shown(self._database, workspace_id)

    def disagreements(self, workspace_id: str, gap: float, limit: int) -> list[Disagreement]:
        """Rows whose judgement (1 or 0) and cosine are at least so far apart, widest first."""
        return follows.disagreements(self._database, workspace_id, gap, limit)

    def followed(self, workspace_id: str) -> list[Followed]:
        """Scored records that were shown to a decision that is kept, each once, oldest first."""
        return follows.followed(self._database, workspace_id)
