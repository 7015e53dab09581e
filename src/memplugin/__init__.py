"""Memory for LangGraph agents that can say which stage failed: write, retrieval or use."""

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.census import Census
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import MemPluginError
from memplugin.memory.front import Memory
from memplugin.memory.task import Task
from memplugin.records import (
    Candidate,
    Decision,
    Explanation,
    MemoryRecord,
    Need,
    Outcome,
    Retrieval,
    Support,
    Verdict,
    WriteReceipt,
)
from memplugin.use.schema import decision_schema

__all__ = [
    "Candidate",
    "Census",
    "Decision",
    "Explanation",
    "MemPluginError",
    "Memory",
    "MemoryConfig",
    "MemoryContext",
    "MemoryRecord",
    "Need",
    "Outcome",
    "Retrieval",
    "Support",
    "Task",
    "TaskRecord",
    "Verdict",
    "WriteReceipt",
    "attribute",
    "decision_schema",
]
