"""The nouns that travel between the stages, one module for each stage.

All are frozen; ``to_json()`` gives plain JSON values (times as ISO 8601 in UTC) and
``from_json()`` reads them back. Ids are made of ``[A-Za-z0-9_-]`` only, so that every
trace store can search them.
"""

from __future__ import annotations

from memplugin.records.base import Claim, Json, Noun, Scope, SpanRef
from memplugin.records.decide import AnswerT, Decision, DecisionStatus, Override, Reply, Support
from memplugin.records.diagnose import MACHINE, Judgement, Need, RowSpan, Stage, TaskRows, Verdict
from memplugin.records.experiment import Answered, Bearing, Counterfactual, Runs
from memplugin.records.learn import (
    Credited,
    CreditTotals,
    Disagreement,
    Eviction,
    Followed,
    LearnReport,
    Outcome,
    Score,
    Shown,
)
from memplugin.records.retrieve import (
    Candidate,
    Cut,
    Entry,
    Explanation,
    Resolved,
    Retrieval,
    Selection,
    WorkspaceState,
)
from memplugin.records.write import (
    INSTEAD_OF,
    STANDING_KINDS,
    Belief,
    Evidence,
    Known,
    MemoryRecord,
    Observed,
    Polarity,
    Proposal,
    Ruling,
    RulingName,
    Status,
    StoredProposal,
    Tombstone,
    Turn,
    WriteReceipt,
)

__all__ = [
    "INSTEAD_OF",
    "MACHINE",
    "STANDING_KINDS",
    "AnswerT",
    "Answered",
    "Bearing",
    "Belief",
    "Candidate",
    "Claim",
    "Counterfactual",
    "CreditTotals",
    "Credited",
    "Cut",
    "Decision",
    "DecisionStatus",
    "Disagreement",
    "Entry",
    "Eviction",
    "Evidence",
    "Explanation",
    "Followed",
    "Json",
    "Judgement",
    "Known",
    "LearnReport",
    "MemoryRecord",
    "Need",
    "Noun",
    "Observed",
    "Outcome",
    "Override",
    "Polarity",
    "Proposal",
    "Reply",
    "Resolved",
    "Retrieval",
    "RowSpan",
    "Ruling",
    "RulingName",
    "Runs",
    "Scope",
    "Score",
    "Selection",
    "Shown",
    "SpanRef",
    "Stage",
    "Status",
    "StoredProposal",
    "Support",
    "TaskRows",
    "Tombstone",
    "Turn",
    "Verdict",
    "WorkspaceState",
    "WriteReceipt",
]
