"""Every span, attribute and event this package emits, once, with its type and meaning.

The ``gen_ai.*`` names are those of OpenTelemetry's GenAI semantic conventions (stability:
development); the Python package of conventions has no memory names yet, so they are
spelled here. ``gen_ai.task.id`` is used by others for one run of a chain and is never set.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

SCHEMA_VERSION: Final = 1
MAX_STRING_BYTES: Final = 2_000
MAX_TEXTS_BYTES: Final = 8_000
MAX_CANDIDATES: Final = 50
MAX_EVENTS: Final = 10
MAX_LINKS: Final = 100

AttributeType = Literal[
    "string", "int", "double", "boolean", "string[]", "int[]", "double[]", "boolean[]"
]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: its key, type, what it means, and on which spans it is found."""

    key: str
    type: AttributeType
    meaning: str
    where: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One kind of span.

    Attributes:
        genai: Whether the name is also the value of ``gen_ai.operation.name``.
    """

    span_name: str
    genai: bool
    when: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument.

    Attributes:
        unit: UCUM, as OpenTelemetry writes it.
        attributes: Keys that its points carry.
    """

    name: str
    type: Literal["counter", "histogram", "gauge"]
    unit: str
    meaning: str
    attributes: tuple[str, ...] = ()


ATTRIBUTES: dict[str, Attribute] = {}


def _define(key: str, type_: AttributeType, where: str, meaning: str) -> str:
    ATTRIBUTES[key] = Attribute(key, type_, meaning, where)
    return key


SEARCH = Operation("search_memory", genai=True, when="recall")
UPSERT = Operation("upsert_memory", genai=True, when="write, remember, observe, pin, unpin")
DELETE = Operation("delete_memory", genai=True, when="forget, evict")
USE = Operation("use_memory", genai=False, when="decide")
OUTCOME = Operation("report_outcome", genai=False, when="report")
TASK = Operation("memory_task", genai=False, when="a finished task's record and verdict")
LEAVE_OUT = Operation("leave_out_memory", genai=False, when="counterfactual")
OPERATIONS = (SEARCH, UPSERT, DELETE, USE, OUTCOME, TASK, LEAVE_OUT)

# ---- on every span
OPERATION_NAME = _define(
    "gen_ai.operation.name", "string", "search, upsert, delete", "The standard's operation"
)
OPERATION = _define("memplugin.operation", "string", "every span", "The span's name")
TASK_ID = _define("memplugin.task.id", "string", "every span", "The work, across sessions")
TASK_BUCKET = _define(
    "memplugin.task.bucket", "int", "every span", "0 to 99, from the task id; for tail sampling"
)
SESSION_ID = _define("memplugin.session.id", "string", "every span", "One conversation")
WORKSPACE_ID = _define("memplugin.workspace.id", "string", "every span", "The boundary")
ARM = _define("memplugin.arm", "string", "every span", "Arm of an experiment")
SCHEMA = _define("memplugin.schema.version", "int", "every span", "Version of these names")
AT = _define("memplugin.at", "string", "every span", "When, by the store's clock (ISO 8601)")
CONTENT_MODE = _define(
    "memplugin.content.mode", "string", "every span", "How texts are shown on this span"
)
ERROR_TYPE = _define("error.type", "string", "every span", "Class of the error, never its text")
LINK_COUNT = _define("memplugin.link.count", "int", "every span", "Links there were to make")

# ---- the standard's, by hop
STORE_ID = _define("gen_ai.memory.store.id", "string", "every span", "The store")
RECORD_ID = _define(
    "gen_ai.memory.record.id", "string", "single record, candidate event", "A record"
)
RECORD_COUNT = _define(
    "gen_ai.memory.record.count", "int", "search, upsert, delete", "Records shown or stored"
)
RECORD_STATUS = _define(
    "memplugin.record.status",
    "string",
    "upsert, delete",
    "What an eviction, or its undoing, made it",
)
QUERY_TEXT = _define(
    "gen_ai.memory.query.text", "string", "search", "The query, as the content mode allows"
)
RECORDS = _define(
    "gen_ai.memory.records", "string", "search, upsert; content in full", "JSON, as many as fit"
)
TOP_K = _define("gen_ai.retrieval.top_k", "int", "search", "k of the request")
CONVERSATION_ID = _define("gen_ai.conversation.id", "string", "every span", "The thread")
REQUEST_MODEL = _define("gen_ai.request.model", "string", "use, upsert", "The model asked")
INPUT_TOKENS = _define("gen_ai.usage.input_tokens", "int", "use", "Tokens sent")
OUTPUT_TOKENS = _define("gen_ai.usage.output_tokens", "int", "use", "Tokens received")
SERVER_ADDRESS = _define("server.address", "string", "every span, with a server", "Host")
SERVER_PORT = _define("server.port", "int", "every span, with a server", "Port")

# ---- write
RULING_COUNTS = {
    ruling: _define(f"memplugin.write.{ruling}", "int", "upsert", f"Proposals {ruling}")
    for ruling in ("accepted", "attached", "superseded", "rejected", "failed")
}
PROPOSAL_IDS = _define("memplugin.write.proposal_ids", "string[]", "upsert", "The proposals")
RECORD_IDS = _define(
    "memplugin.write.record_ids", "string[]", "upsert", "Record of each; empty for none"
)
RULINGS = _define("memplugin.write.rulings", "string[]", "upsert", "Terminal state of each")
REASONS = _define("memplugin.write.reasons", "string[]", "upsert", "Why, in one word")
KINDS = _define("memplugin.write.kinds", "string[]", "upsert", "Kind of each")
CONFIDENCES = _define("memplugin.write.confidences", "double[]", "upsert", "Confidence of each")
INDEXED_AT = _define(
    "memplugin.write.indexed_at", "string[]", "upsert", "When indexed; empty while in the outbox"
)
PROPOSAL_COUNT = _define("memplugin.write.count", "int", "upsert", "All proposals")
TURNS = _define("memplugin.write.turns", "int", "upsert", "Turns read for the first time")
REPLACED_IDS = _define(
    "memplugin.write.replaced_ids", "string[]", "upsert", "What each superseded; empty for none"
)
SCOPES = _define(
    "memplugin.write.scopes", "string[]", "upsert", "JSON; values as the content mode has"
)
CLAIMS = _define(
    "memplugin.write.claims", "string[]", "upsert", "JSON; values as the content mode has"
)
CONTENTS = _define(
    "memplugin.write.contents", "string[]", "upsert", "In truncate and full, as far as they fit"
)
EXTRACTOR = _define("memplugin.write.extractor", "string", "upsert", "Version of the extractor")
OBSERVED_SUPPORTS = _define(
    "memplugin.observation.supports", "boolean", "upsert, of an observation", "For or against"
)
OBSERVED_WEIGHT = _define(
    "memplugin.observation.weight", "double", "upsert, of an observation", "Weight times salience"
)
BELIEF_CONFIDENCE = _define(
    "memplugin.belief.confidence", "double", "upsert, of an observation or pin", "Afterwards"
)
BELIEF_EVIDENCE = _define(
    "memplugin.belief.evidence_count", "int", "upsert, of an observation or pin", "For and against"
)
BELIEF_PINNED = _define(
    "memplugin.belief.pinned", "boolean", "upsert, of an observation or pin", "Afterwards"
)

# ---- search
RETRIEVAL_ID = _define("memplugin.retrieval.id", "string", "search, use", "The retrieval")
POLICY = _define("memplugin.retrieval.policy", "string", "search", "Ranking policy and version")
FILTERS = _define(
    "memplugin.retrieval.filters", "string", "search", "JSON; scope values as the content mode has"
)
TOTAL = _define("memplugin.retrieval.total", "int", "search", "Records that the filters admit")
SHOWN = _define("memplugin.retrieval.shown", "int", "search", "Records injected")
PENDING = _define("memplugin.retrieval.pending_index", "int", "search", "Records not yet indexed")
STALE = _define("memplugin.retrieval.stale_dropped", "int", "search", "Hits that did not count")
DEGRADED = _define(
    "memplugin.retrieval.degraded", "string[]", "search", "Sources that did not answer"
)
CANDIDATE_COUNT = _define("memplugin.candidate.count", "int", "search", "All candidates")
CANDIDATE_IDS = _define(
    "memplugin.candidate.ids", "string[]", "search", "In rank order; 50, the shown ones among them"
)
CANDIDATE_RANKS = _define("memplugin.candidate.ranks", "int[]", "search", "Rank of each")
CANDIDATE_SCORES = _define("memplugin.candidate.scores", "double[]", "search", "Score of each")
CANDIDATE_SOURCES = _define(
    "memplugin.candidate.sources", "string[]", "search", "Sources of each, joined by +"
)
CANDIDATE_INJECTED = _define(
    "memplugin.candidate.injected", "boolean[]", "search", "Whether each was shown"
)
CANDIDATE_CUTS = _define(
    "memplugin.candidate.cuts", "string[]", "search", "Why each was not; empty when shown"
)
CANDIDATE_PARTS = _define(
    "memplugin.candidate.parts", "string[]", "search", "JSON: score parts of each, unweighted"
)
CANDIDATE_WRITTEN_BY = _define(
    "memplugin.candidate.written_by", "string[]", "search", "The span that wrote each"
)
CANDIDATE_CONTENTS = _define(
    "memplugin.candidate.contents", "string[]", "search", "In truncate and full, as far as they fit"
)
CANDIDATE_RANK = _define("memplugin.candidate.rank", "int", "candidate event", "Its rank")
CANDIDATE_SCORE = _define("memplugin.candidate.score", "double", "candidate event", "Its score")
CANDIDATE_SHOWN = _define(
    "memplugin.candidate.shown", "boolean", "candidate event", "Whether it was injected"
)
CANDIDATE_EVENT = "memplugin.candidate"

# ---- use
DECISION_ID = _define("memplugin.decision.id", "string", "use, leave out", "The decision")
DECISION_STATUS = _define("memplugin.decision.status", "string", "use", "What the reply was")
DECISION_FLAGS = _define("memplugin.decision.flags", "string[]", "use", "What was noticed")
ORDER_PRESERVED = _define(
    "memplugin.decision.order_preserved", "boolean", "use", "Keys came in the schema's order"
)
ANSWER = _define(
    "memplugin.decision.answer", "string", "use", "JSON; values as the content mode has"
)
CITED_IDS = _define("memplugin.use.cited_record_ids", "string[]", "use", "Records cited")
CONTRADICTED_IDS = _define(
    "memplugin.use.contradicted_record_ids",
    "string[]",
    "use",
    "Shown records that claim another value than the answer",
)
OVERRIDE_IDS = _define(
    "memplugin.use.override.record_ids",
    "string[]",
    "use",
    "Records whose pinned or confident claim the model's answer goes against",
)
OVERRIDES = _define(
    "memplugin.use.overrides",
    "string",
    "use",
    "JSON: each of them with its field, rank and whether it was shown; values as the content mode "
    "has",
)
SUPPORT_ID = _define("memplugin.use.support.id", "string", "use", "Best supporting record")
SUPPORT_RANK = _define("memplugin.use.support.rank", "int", "use", "Its rank")
SUPPORT_SCORE = _define("memplugin.use.support.score", "double", "use", "Its score")
SUPPORT_SHOWN = _define("memplugin.use.support.shown", "boolean", "use", "Whether it was shown")

# ---- outcome and task
OUTCOME_VALUE = _define("memplugin.outcome.value", "double", "report", "Graded outcome")
OUTCOME_CONFIDENCE = _define("memplugin.outcome.confidence", "double", "report", "Of the grade")
OUTCOME_ATTEMPT = _define("memplugin.outcome.attempt", "int", "report", "Which attempt, from 1")
FAILURE_MODE = _define("memplugin.outcome.failure_mode", "string", "report", "How it failed")
TASK_SUCCESS = _define("memplugin.task.success", "boolean", "task", "Whether the task passed")
VERDICT_STAGE = _define("memplugin.verdict.stage", "string", "task", "Stage that failed")
VERDICT_CAUSE = _define("memplugin.verdict.cause", "string", "task", "Cause within the stage")
VERDICT_RECORD = _define("memplugin.verdict.record_id", "string", "task", "The record it is about")
VERDICT_RANK = _define("memplugin.verdict.rank", "int", "task", "That record's rank")

# ---- leave out
LEFT_OUT_IDS = _define(
    "memplugin.counterfactual.record_ids",
    "string[]",
    "leave out",
    "Records that the decision was run without, one at a time",
)
LEFT_OUT_VERDICTS = _define(
    "memplugin.counterfactual.verdicts", "string[]", "leave out", "load_bearing, not or uncertain"
)
LEFT_OUT_P_VALUES = _define(
    "memplugin.counterfactual.p_values",
    "double[]",
    "leave out",
    "Of the exact test; -1 where a deterministic model, or too few runs, gave it none",
)

# ---- links
RELATION = _define(
    "memplugin.link.relation", "string", "links", "written_by, retrieved_by or previous_session"
)
LINKED_SPANS = _define(
    "memplugin.link.traceparents",
    "string[]",
    "every span with links",
    "What the links point at, since some stores drop links' attributes",
)
LINK_RELATIONS = _define(
    "memplugin.link.relations", "string[]", "every span with links", "Relation of each of them"
)

# ---- a trace that was rebuilt from the ledger
REBUILT = _define("memplugin.rebuilt", "boolean", "every rebuilt span", "Made by memplugin emit")
ORIGINAL_TIME = _define(
    "memplugin.original.time",
    "string",
    "every rebuilt span",
    "When it happened (ISO 8601); the span's own times are those of emit",
)

# ---- metrics
RULING = _define("memplugin.write.ruling", "string", "metrics", "Terminal state of a proposal")
KIND = _define("memplugin.write.kind", "string", "metrics", "Kind of a proposal")
FLAG = _define("memplugin.decision.flag", "string", "metrics", "Something noticed on a decision")

WRITES = Metric(
    "memplugin.write.proposals",
    "counter",
    "{proposal}",
    "Proposals that came to a terminal state",
    (RULING, KIND),
)
RECALL_DURATION = Metric(
    "memplugin.recall.duration",
    "histogram",
    "s",
    "How long a recall took, the ledger's row included",
    (POLICY, ERROR_TYPE),
)
INJECTED = Metric(
    "memplugin.recall.injected",
    "histogram",
    "{record}",
    "Records that a recall showed; 0 for a recall that found nothing to show",
    (POLICY,),
)
DECISIONS = Metric(
    "memplugin.decisions",
    "counter",
    "{decision}",
    "Decisions by what the model's reply was",
    (DECISION_STATUS,),
)
FLAGS = Metric("memplugin.flags", "counter", "{flag}", "Flags raised on decisions", (FLAG,))
BACKLOG = Metric(
    "memplugin.index.backlog",
    "gauge",
    "{record}",
    "Records that the vector index must still take or drop, in the whole store",
    (STORE_ID,),
)
METRICS = (WRITES, RECALL_DURATION, INJECTED, DECISIONS, FLAGS, BACKLOG)

VERDICTS = Metric(
    "memplugin.verdicts",
    "counter",
    "{task}",
    "Verdicts by stage and cause",
    (VERDICT_STAGE, VERDICT_CAUSE),
)
SUPPORTS = Metric(
    "memplugin.supports",
    "counter",
    "{decision}",
    "Decisions by the rank of the record that supports the answer",
    (SUPPORT_RANK, SUPPORT_SHOWN),
)
COUNTED = (VERDICTS, SUPPORTS)
"""Counted from spans by the collector of ``otel/``: of sampled spans they count the sample."""
