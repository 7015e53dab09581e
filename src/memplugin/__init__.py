"""Memory for LangGraph agents that can say which stage failed: write, retrieval or use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memplugin.config import MemoryConfig, MemoryContext
    from memplugin.diagnosis.attribution import attribute
    from memplugin.diagnosis.evidence_search import Census
    from memplugin.diagnosis.replay import Replay
    from memplugin.diagnosis.task_record import TaskRecord
    from memplugin.errors import MemPluginError
    from memplugin.memory.client import Memory
    from memplugin.memory.diagnose import Task
    from memplugin.records import (
        Candidate,
        Counterfactual,
        Decision,
        Evidence,
        Explanation,
        MemoryRecord,
        Need,
        Outcome,
        Override,
        Resolved,
        Retrieval,
        Support,
        Verdict,
        WriteReceipt,
        WriteRequest,
    )
    from memplugin.use.schema import decision_schema

__all__ = [
    "Candidate",
    "Census",
    "Counterfactual",
    "Decision",
    "Evidence",
    "Explanation",
    "MemPluginError",
    "Memory",
    "MemoryConfig",
    "MemoryContext",
    "MemoryRecord",
    "Need",
    "Outcome",
    "Override",
    "Replay",
    "Resolved",
    "Retrieval",
    "Support",
    "Task",
    "TaskRecord",
    "Verdict",
    "WriteReceipt",
    "WriteRequest",
    "attribute",
    "decision_schema",
]

_HOME = {
    "Census": "diagnosis.evidence_search",
    "MemPluginError": "errors",
    "Memory": "memory.client",
    "MemoryConfig": "config",
    "MemoryContext": "config",
    "Replay": "diagnosis.replay",
    "Task": "memory.diagnose",
    "TaskRecord": "diagnosis.task_record",
    "attribute": "diagnosis.attribution",
    "decision_schema": "use.schema",
}
"""Where a name lives; the others are nouns of ``records``."""


def __getattr__(name: str) -> Any:
    # langchain-core takes a second to import, and `memplugin check` needs none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'records')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
