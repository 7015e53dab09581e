"""An opened store: the ports every hop works with."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.errors import RecordNotFound
from memplugin.ports import Clock, Embedder, IdFactory, VectorIndex
from memplugin.records import MemoryRecord
from memplugin.retrieval.rank import Policy
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.search import VectorSearch
from memplugin.telemetry.metrics import Metrics
from memplugin.telemetry.spans import Hop, Tracing
from memplugin.write.gate import Check

log = logging.getLogger("memplugin")


@dataclass(frozen=True, slots=True)
class Backend:
    """What the hops share. Nothing here decides anything."""

    config: MemoryConfig
    ledger: SqlLedger
    index: VectorIndex
    search: VectorSearch
    embedder: Embedder
    tracing: Tracing
    metrics: Metrics
    clock: Clock
    new_id: IdFactory
    checks: Sequence[Check]
    policies: Mapping[str, Policy]
    _begun: set[tuple[str, str, str]] = field(default_factory=set[tuple[str, str, str]])

    def close(self) -> None:
        """Gives back files and connections."""
        self.metrics.close()
        self.index.close()
        self.ledger.close()

    def get_record(self, workspace_id: str, record_id: str) -> MemoryRecord:
        """A record of any status.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        record = self.ledger.records.get_many(workspace_id, [record_id]).get(record_id)
        if record is None:
            raise RecordNotFound.of(workspace_id, record_id)
        return record

    def begin(self, context: MemoryContext, hop: Hop) -> None:
        """Notes the first call of a task's session and links it to the session before."""
        key = (context.workspace_id, context.task, context.session_id)
        if key in self._begun:
            return
        previous = self.ledger.sessions.enter(context, hop.ref, self.clock.now())
        if previous:
            hop.link(previous.traceparent, "previous_session")
        self._begun.add(key)
