"""One task as a block: its id travels as baggage, and its record can be read at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from memplugin.config import MemoryContext
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.memory import diagnosing
from memplugin.memory.store import Store
from memplugin.records import Need, Verdict


@dataclass(slots=True)
class Task:
    """A task that is being worked on.

    Attributes:
        verdict: Set by ``diagnose``; shown on the task's span when the block ends.
    """

    store: Store = field(repr=False)
    workspace_id: str
    task_id: str
    arm: str
    verdict: Verdict | None = None

    def context(
        self,
        session_id: str,
        *,
        scope: Mapping[str, str] | None = None,
        user_id: str | None = None,
        attempt: int = 1,
    ) -> MemoryContext:
        """The context of one session of this task."""
        return MemoryContext(
            workspace_id=self.workspace_id,
            session_id=session_id,
            task_id=self.task_id,
            user_id=user_id,
            arm=self.arm,
            scope=scope or {},
            attempt=attempt,
        )

    def record(self) -> TaskRecord:
        """What the task's hops have left behind so far."""
        return TaskRecord.from_ledger(self.store.ledger, self.workspace_id, self.task_id)

    def diagnose(self, need: Need) -> Verdict:
        """Names the stage at which the task failed."""
        self.verdict = diagnosing.judge(self.store, self.record(), need)
        return self.verdict
