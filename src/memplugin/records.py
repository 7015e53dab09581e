"""Every noun that travels between the hops.

All are frozen; ``to_json()`` gives plain JSON values (times as ISO 8601 in UTC) and
``from_json()`` reads them back. Ids are made of ``[A-Za-z0-9_-]`` only, so that every
trace store can search them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Generic, Literal, Self, TypeVar, cast

from pydantic import TypeAdapter

Json = dict[str, Any]
Scope = Mapping[str, str]
Claim = Mapping[str, Any]

RulingName = Literal["accepted", "attached", "superseded", "rejected", "failed"]
Status = Literal["active", "superseded", "evicted", "forgotten"]
Polarity = Literal["positive", "negative"]
Cut = Literal["below_cutoff", "budget", "floor", "inapplicable_scope"]
DecisionStatus = Literal["decided", "truncated", "refused", "no_decision", "invalid", "error"]
Stage = Literal["write", "retrieval", "use", "none", "undetermined"]

STANDING_KINDS = frozenset({"preference", "instruction"})
"""Kinds that hold until revoked, whatever the question is about."""

AnswerT = TypeVar("AnswerT")


@cache
def _adapter(cls: type) -> TypeAdapter[Any]:
    return TypeAdapter(cls)


class Noun:
    """Gives a frozen dataclass its way to JSON and back."""

    def to_json(self) -> Json:
        """Returns plain JSON values: dicts, lists, strings, numbers, booleans, None."""
        return cast(Json, _adapter(type(self)).dump_python(self, mode="json"))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Reads what ``to_json`` wrote.

        Raises:
            pydantic.ValidationError: a field is missing or of another type.
        """
        return cast(Self, _adapter(cls).validate_python(dict(data)))


@dataclass(frozen=True, slots=True)
class SpanRef(Noun):
    """Where a hop was traced: 32 and 16 hex digits."""

    trace_id: str
    span_id: str
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        """The W3C form, for a link from another trace."""
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


# ---------------------------------------------------------------- write


@dataclass(frozen=True, slots=True)
class Turn(Noun):
    """One message of a session, as it was said.

    Attributes:
        id: Derived from workspace, session, role, text and how often the same was said
            before, so that the same history gives the same ids.
        text: None when the store keeps no text of turns.
        extracted_by: Version of the extractor that has read the turn; None before.
    """

    id: str
    session_id: str
    role: str
    text: str | None
    said_at: datetime
    task_id: str | None = None
    extracted_by: str | None = None


@dataclass(frozen=True, slots=True)
class Proposal(Noun):
    """Something that might become a record; the gate rules on it.

    Attributes:
        id: Hash of workspace, session, turn, operation and normalised content: proposing
            the same twice is one proposal.
        content: The memory, one self-contained sentence.
        scope: When it applies: every key must equal the request's; ``{}`` anywhere.
        claim: What it says of one field, ``{field: value}``; None when it claims nothing.
        confidence: Of the extractor or the caller, 0 to 1.
        occurred_at: When it was said or became true.
        quote: Verbatim from the turn, for extracted proposals.
        around: Text that is indexed with the record and never shown.
        source: Where the content comes from, in the caller's words.
        said_in: The trusted turn's text the quote must be found in; None when nobody said it.
        defect: Why it can't be ruled on: the extractor gave something malformed.
    """

    id: str
    operation: Literal["write", "remember", "observe"]
    content: str
    kind: str
    scope: Scope
    claim: Claim | None
    confidence: float
    occurred_at: datetime
    polarity: Polarity = "positive"
    speech_act: str | None = None
    quote: str | None = None
    turn_id: str | None = None
    said_in: str | None = None
    pinned: bool = False
    source: str | None = None
    around: str | None = None
    extractor: str | None = None
    time_phrase: str | None = None
    defect: str | None = None

    @property
    def record_id(self) -> str:
        """The id its record gets when it is accepted."""
        return "m_" + self.id.removeprefix("p_")


@dataclass(frozen=True, slots=True)
class Ruling(Noun):
    """The terminal state of a proposal.

    Attributes:
        record_id: The record made (accepted, superseded) or attached to; else None.
        replaced_id: The record a superseding one replaced.
        against_id: The record that a rejected proposal is evidence against.
        reason: Why, in one word or ``word: detail``; None when accepted.
    """

    proposal: Proposal
    ruling: RulingName
    reason: str | None = None
    record_id: str | None = None
    replaced_id: str | None = None
    against_id: str | None = None


@dataclass(frozen=True, slots=True)
class WriteReceipt(Noun):
    """What became of one proposal.

    Attributes:
        indexed: True when the vector index holds the record; False leaves it in the
            outbox (``flush``), where full-text search already finds it.
        replaced_id: The record that this one superseded.
    """

    proposal_id: str
    record_id: str | None
    ruling: RulingName
    reason: str | None = None
    indexed: bool = False
    replaced_id: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence(Noun):
    """One observation for or against a record.

    Attributes:
        id: Made of what was observed and where, so that a node that runs again counts once.
        weight: How much it says about the record, from 0.
        salience: How much it stood out, 0 to 1.
        scope: Of the request it comes from.
        at: When it was observed.
        proposal_id: The proposal that was attached to the record; None for an observation.
    """

    id: str
    record_id: str
    supports: bool
    weight: float
    salience: float
    scope: Scope
    at: datetime
    session_id: str
    task_id: str
    note: str | None = None
    proposal_id: str | None = None

    @property
    def amount(self) -> float:
        """What it adds for or against: ``|weight| * salience``."""
        return abs(self.weight) * self.salience


@dataclass(frozen=True, slots=True)
class MemoryRecord(Noun):
    """A memory that was let through the gate. Its content never changes.

    Attributes:
        confidence: What its seed and all its evidence come to, 0 to 1.
        pinned: Evidence is kept, and its confidence does not move.
        evidence_count: How many pieces of evidence there are, for and against.
        seq: The workspace's sequence number of its last change of state.
        traceparent: The span that wrote it; None when there was no valid one.
        indexed_at: When the vector index held it; None while it is in the outbox.
        vector_covers_all: False when the content is longer than the model reads.
    """

    id: str
    workspace_id: str
    kind: str
    content: str
    scope: Scope
    claim: Claim | None
    status: Status
    confidence: float
    pinned: bool
    evidence_count: int
    occurred_at: datetime
    created_at: datetime
    source_session: str
    task_id: str | None
    seq: int
    source: str | None = None
    source_turn: str | None = None
    around: str | None = None
    traceparent: str | None = None
    indexed_at: datetime | None = None
    retired_at: datetime | None = None
    replaced_by: str | None = None
    vector_covers_all: bool = True


# ---------------------------------------------------------------- retrieval


@dataclass(frozen=True, slots=True)
class Candidate(Noun):
    """A record that a source brought, with everything its rank came from.

    Attributes:
        rank: 1 for the best. Candidates whose scope does not apply come last.
        score: Weighted sum of ``parts`` under the policy.
        parts: Name of each score part to its number before weighting.
        sources: Which of ``dense``, ``lexical``, ``standing``, ``structural`` brought it.
        cut: Why it was not injected; None when it was.
    """

    record_id: str
    content: str
    kind: str
    scope: Scope
    claim: Claim | None
    confidence: float
    pinned: bool
    occurred_at: datetime
    rank: int
    score: float
    parts: Mapping[str, float]
    sources: tuple[str, ...]
    injected: bool
    cut: Cut | None = None
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation(Noun):
    """Where one record stood for one retrieval.

    Attributes:
        rank: Exact rank among all applicable records, also beyond the depth searched;
            None when it was not in the race.
        excluded_by: ``kinds``, ``scope``, ``workspace``, ``status``, ``not_written_yet``
            or None; ``unknown`` when there are only spans to read and they do not tell.
        of: How many records were ranked.
    """

    record_id: str
    rank: int | None
    of: int
    excluded_by: str | None = None


@dataclass(frozen=True, slots=True)
class Retrieval(Noun):
    """One recall: the question, every candidate, and what was shown.

    Attributes:
        filters: ``workspace_id``, ``kind`` (list or None) and the request's ``scope``.
        policy: Name and version of the ranking policy, ``balanced@1``.
        candidates: All, in rank order.
        total: Active records of the workspace that the filters admit.
        shown: How many were injected.
        pending_index: Records of the workspace that the vector index does not hold yet.
        stale_dropped: Hits that the ledger no longer counts.
        degraded: Why a source did not answer (``dense: …``); empty when all did.
        text: The block to show a model.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    query: str
    filters: Json
    k: int
    policy: str
    candidates: tuple[Candidate, ...]
    total: int
    shown: int
    pending_index: int
    stale_dropped: int
    text: str
    created_at: datetime
    degraded: tuple[str, ...] = ()
    span: SpanRef | None = None

    @property
    def injected(self) -> tuple[Candidate, ...]:
        """The candidates that were shown, in rank order."""
        return tuple(c for c in self.candidates if c.injected)


@dataclass(frozen=True, slots=True)
class Resolved(Noun):
    """What memory says of one field for one request.

    Attributes:
        scope: Of the record it comes from: how specific the answer is.
    """

    field: str
    value: Any
    record_id: str
    scope: Scope
    confidence: float
    pinned: bool


# ---------------------------------------------------------------- use


@dataclass(frozen=True, slots=True)
class Support(Noun):
    """The best record that supports the chosen answer, and whether it was shown."""

    id: str
    rank: int
    score: float
    shown: bool


@dataclass(frozen=True, slots=True)
class Override(Noun):
    """A field for which an answer names another value than the claim that counts there.

    Attributes:
        field: Of the answer.
        answer: What the model said.
        claimed: What the record claims; None too when it was forgotten since.
        scope: The record's, by which it applies to the request.
        rank: The record's in the retrieval that fed the decision; None when no source
            brought it.
        shown: Whether that retrieval showed it. Where not, the model was not told.
        enforced: Whether the claimed value stands in the decision's answer instead.
    """

    field: str
    answer: Any
    claimed: Any
    record_id: str
    pinned: bool
    confidence: float
    scope: Scope
    rank: int | None = None
    shown: bool = False
    enforced: bool = False


@dataclass(frozen=True, slots=True)
class Reply(Noun):
    """One call of the model for a decision.

    Attributes:
        status: What the reply was good for.
        raw: The message as received, in langchain-core's JSON form; None without one.
        detail: What was wrong with it.
        asked: Messages sent after ``Decision.sent`` for this call, in the same form: the
            call that asks again after an override has some.
    """

    status: DecisionStatus
    raw: Json | None = None
    detail: str | None = None
    asked: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision(Noun, Generic[AnswerT]):
    """One pure call: what was sent, what came back, and what was made of it.

    Attributes:
        answer: The caller's model; None unless ``status`` is ``decided``.
        reasoning: ``memory_reasoning`` of the reply.
        order_preserved: Whether the raw reply's keys stood in the schema's order; None
            when it can't be known.
        sent: The messages as sent, in langchain-core's JSON form.
        raw: The reply that counts as received, in langchain-core's JSON form: the last
            that decided, else the last.
        replies: Every call made, retries included.
        usage: Token counts as the model reported them, of all calls together.
        overrides: Where the answer goes against an applicable claim, whatever was then
            done about it.
        options: Arguments of the model's ``with_structured_output`` beside the schema.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    retrieval_id: str | None
    question: str
    status: DecisionStatus
    answer: AnswerT | None
    reasoning: str | None
    considered: str | None
    cited_record_ids: tuple[str, ...]
    flags: tuple[str, ...]
    chosen_support: Support | None
    memory_total: int
    memory_shown: int
    order_preserved: bool | None
    sent: tuple[Json, ...]
    raw: Json | None
    replies: tuple[Reply, ...]
    answer_schema: Json
    model: str | None
    usage: Json | None
    created_at: datetime
    detail: str | None = None
    span: SpanRef | None = None
    overrides: tuple[Override, ...] = ()
    options: Json = field(default_factory=dict[str, Any])


# ---------------------------------------------------------------- counterfactual


@dataclass(frozen=True, slots=True)
class Answered(Noun):
    """An answer, and how many runs gave it; None stands for a reply that decided nothing."""

    answer: Json | None
    runs: int


@dataclass(frozen=True, slots=True)
class Runs(Noun):
    """One side of a counterfactual: the same messages, sent again and again.

    Attributes:
        answers: The different ones, the most frequent first.
        usual: How many runs gave the answer that is usual over both sides.
        failed: Calls that came to no reply at all; they count for nothing.
    """

    answers: tuple[Answered, ...]
    usual: int
    failed: int = 0

    @property
    def total(self) -> int:
        """How many runs there are."""
        return sum(answered.runs for answered in self.answers)

    @property
    def variation(self) -> float:
        """How often this side varies by itself: share of runs off its own usual answer."""
        return 1 - self.answers[0].runs / self.total if self.answers else 0.0


Bearing = Literal["load_bearing", "not", "uncertain"]


@dataclass(frozen=True, slots=True)
class Counterfactual(Noun):
    """What leaving one record out of a stored decision does to its answer.

    Attributes:
        verdict: ``load_bearing``: the answers differ by more than chance. ``not``: a change
            would have been seen, and one of half the answers or more is ruled out. Else
            ``uncertain``.
        flip: Whether most runs without it answer otherwise than is usual with it.
        p_value: Of an exact test; None when the model is deterministic.
        detectable: The smallest change in the share of usual answers that this many runs
            would show with a probability of 0.8; None when even a complete one might not.
        deterministic: Whether the model was said to be and every repeat agreed, so that
            few runs were made.
        cited: Whether the stored decision cites the record.
        model: As the provider reported it.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    decision_id: str
    record_id: str
    verdict: Bearing
    flip: bool
    p_value: float | None
    detectable: float | None
    deterministic: bool
    with_record: Runs
    without_record: Runs
    cited: bool
    model: str | None
    created_at: datetime


# ---------------------------------------------------------------- outcome, verdict


@dataclass(frozen=True, slots=True)
class Outcome(Noun):
    """How one attempt at a task ended.

    Attributes:
        value: What it is worth, by the table in ``LearnConfig.grades``.
        action: What the agent did, in its own text.
    """

    id: str
    workspace_id: str
    task_id: str
    session_id: str
    attempt: int
    succeeded: bool
    value: float
    confidence: float
    failure_mode: str | None
    action: str | None
    arm: str
    created_at: datetime


# ---------------------------------------------------------------- credit


@dataclass(frozen=True, slots=True)
class Credited(Noun):
    """What a record has earned, over the reported attempts in which it was shown.

    Attributes:
        attempts: How many.
        credited: Sum of value times confidence times weight.
    """

    attempts: int
    credited: float


@dataclass(frozen=True, slots=True)
class CreditTotals(Noun):
    """What is known of one record over the reported attempts in which it was shown.

    Whether it was followed is what a judge or a cosine says: a sign, and no proof that it
    caused anything.

    Attributes:
        attempts: In how many it was shown.
        successes: How many of them passed.
        outcome: Sum of value * confidence.
        credited: Sum of value * confidence * weight.
        judged: Attempts of which the judge has said whether it was followed.
        followed: In how many of these it was.
        compared: Attempts with a cosine and no word of the judge.
        close: In how many of these the cosine says that it was followed.
    """

    attempts: int
    successes: int
    outcome: float
    credited: float
    judged: int
    followed: int
    judged_successes: int
    followed_successes: int
    compared: int
    close: int
    compared_successes: int
    close_successes: int

    @property
    def successes_known(self) -> tuple[int, int]:
        """Successes of which is known whether it was followed, and those in which it was.

        By the judge where there is any word of it, else by the cosine.
        """
        if self.judged_successes:
            return self.judged_successes, self.followed_successes
        return self.compared_successes, self.close_successes


@dataclass(frozen=True, slots=True)
class LearnReport(Noun):
    """What one run of ``learn`` did.

    Attributes:
        found: Rows that were not scored, of attempts with an action.
        judged: Rows the judge has judged.
        followed: Those of them that it found followed.
        compared: Rows that got a cosine.
        failed: Rows of which something failed; the next run tries them again.
        left: Rows that this run did not come to (``limit``, or it was stopped).
        without_action: Unscored rows of attempts whose action was not reported.
        cut_short: Distinct actions longer than the embedding model reads.
        judge: Version of the judge's prompt; None without a judge.
        stopped: Why the run ended early: the judge could not be reached.
    """

    found: int
    judged: int
    followed: int
    compared: int
    failed: int
    left: int
    without_action: int
    cut_short: int
    judge: str | None = None
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Eviction(Noun):
    """A record that credit says should go.

    Attributes:
        reason: ``negative_utility`` or ``rarely_followed``.
        utility: Its mean, shrunk towards the prior.
        done: Whether it was retired; False in a dry run.
    """

    record_id: str
    content: str
    kind: str
    reason: str
    utility: float
    totals: CreditTotals
    done: bool = False


@dataclass(frozen=True, slots=True)
class Need(Noun):
    """What should have been used.

    Attributes:
        record_ids: The records, when they are known.
        text: What the memory should say, when it is not.
        claim: Or the claim, ``{field: value}``.
        turn_id: The turn in which it was said, when that is known: any record taken from it
            will do that says ``text``, if there is one.
        should_use: False when the right behaviour was to leave it aside.
        corrected: True when a person said the answer was wrong, whatever was reported.
    """

    record_ids: tuple[str, ...] = ()
    text: str | None = None
    claim: Claim | None = None
    should_use: bool = True
    corrected: bool = False
    turn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict(Noun):
    """Which stage failed, why, and how that is known.

    Attributes:
        evidence: Short sentences, each about one observation.
        next_step: What to do about it.
    """

    stage: Stage
    cause: str
    record_id: str | None = None
    rank: int | None = None
    evidence: tuple[str, ...] = ()
    next_step: str = ""
    task_id: str | None = field(default=None, kw_only=True)


MACHINE = "memplugin"
"""Who judged, where it was the attribution and no person."""


@dataclass(frozen=True, slots=True)
class Judgement(Noun):
    """What somebody says of one task: the attribution, or a person who has read it.

    Attributes:
        by: ``memplugin``, or who annotated it.
        cause: None where a person named the stage alone.
        should_use: Whether the memory should have been used at all, as a person sees it.
        need: What the attribution was told should have been used.
        note: A person's remark.
    """

    workspace_id: str
    task_id: str
    by: str
    stage: Stage
    at: datetime
    cause: str | None = None
    should_use: bool | None = None
    record_id: str | None = None
    rank: int | None = None
    evidence: tuple[str, ...] = ()
    need: Need | None = None
    note: str | None = None
