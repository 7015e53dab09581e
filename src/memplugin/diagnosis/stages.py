"""Follows one needed record through one task, stage after stage, to the verdict on it.

Each check is a function of one signature; the first in ``_CHECKS`` that returns a verdict
decides. Also here: what to do about each verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memplugin.claims import contradicts
from memplugin.diagnosis.evidence_search import FoundEvidence
from memplugin.diagnosis.need import carries
from memplugin.diagnosis.task_record import CandidateEntry, TaskRecord, WriteEntry
from memplugin.records import Bearing, Explanation, Need, Override, Stage, Verdict

NEXT_STEPS: Mapping[tuple[Stage, str], str] = {
    ("write", "never_proposed"): (
        "Read that turn beside the extractor's prompt: change the prompt, and add the turn to "
        "the write suite. Nothing in retrieval can find what was never stored."
    ),
    ("write", "rejected"): "Look at the gate's reason: change the check's threshold or the prompt.",
    ("write", "failed"): "Look at the error and run remember again: the turns are still unread.",
    ("write", "distorted"): (
        "Compare quote and content: the extractor changed what was said. Forget the record and "
        "correct it with write."
    ),
    ("write", "retired"): (
        "Look at what replaced or retired it (`memplugin task`): if that was wrong, write it again."
    ),
    ("retrieval", "not_queried"): "Put a recall node before the decision on this path.",
    ("retrieval", "not_indexed"): (
        "Look at the backlog (`memplugin doctor`) and run `memplugin reindex`."
    ),
    ("retrieval", "filtered_out"): (
        "Compare the request's kinds and scope with the record's: widen the one or correct the "
        "other."
    ),
    ("retrieval", "beyond_depth"): (
        "The query and the record have too little in common: write it as a standing kind, with "
        "a scope, or with text around it."
    ),
    ("retrieval", "below_cutoff"): (
        "Look at the score parts of the records above it. A preference or instruction belongs "
        "in the standing source; else change the policy, or k."
    ),
    ("retrieval", "cut"): "Raise the token budget or lower the floor, or shorten what is shown.",
    ("use", "no_answer"): "Look at the raw reply: raise its token limit, or change the schema.",
    ("use", "ignored"): (
        "Run the decision again and read both reasonings (`memplugin replay DECISION`, --model, "
        "--without): change the prompt or model."
    ),
    ("use", "overridden"): (
        "Read the reasoning: if the request did not say otherwise, the model overrode memory. A "
        "claim that must hold can be pinned, and on_override set to ask_again or enforce."
    ),
    ("use", "misapplied"): "Read the reasoning: the memory was read and wrongly applied.",
    ("none", "passed"): "Nothing.",
    ("none", "rightly_ignored"): "Nothing: leaving it aside was right.",
    ("none", "never_said"): "Nothing to fix in memory: nobody said it in this workspace.",
    ("undetermined", "no_need"): (
        "Say what should have been used: --need ID, or --correction with what the user says."
    ),
    ("undetermined", "unknown_record"): "Check the record's id and the workspace.",
    ("undetermined", "turns_not_kept"): "Set keep_turns to full to be able to tell next time.",
    ("undetermined", "not_traced"): (
        "Diagnose it on the ledger (leave out --from), or name the record with --need ID."
    ),
    ("undetermined", "no_decision_recorded"): (
        "Decide through memory.decide or the decide node, so that its use can be seen."
    ),
}


def verdict_of(
    stage: Stage,
    cause: str,
    *evidence: str,
    record_id: str | None = None,
    rank: int | None = None,
) -> Verdict:
    """Makes a verdict with its next step.

    Args:
        stage: The stage that failed.
        cause: A cause of that stage, as in ``NEXT_STEPS``.
        *evidence: Sentences that say how it is known.
        record_id: The record that the verdict is about.
        rank: Its rank in the retrieval, from 1.

    Returns:
        The verdict.

    Raises:
        KeyError: there is no such cause.
    """
    return Verdict(
        stage=stage,
        cause=cause,
        record_id=record_id,
        rank=rank,
        evidence=evidence,
        next_step=NEXT_STEPS[(stage, cause)],
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """One needed record on its way through one task."""

    record: TaskRecord
    need: Need
    entry: WriteEntry
    candidate: CandidateEntry | None
    explanation: Explanation | None
    asked_at: datetime | None
    found: FoundEvidence

    def verdict(self, stage: Stage, cause: str, *evidence: str, rank: int | None = None) -> Verdict:
        at = rank if rank is not None else (self.candidate.rank if self.candidate else None)
        return verdict_of(stage, cause, *evidence, record_id=self.entry.record_id, rank=at)


_Check = Callable[[_Case], Verdict | None]


def verdict_on_record(
    record: TaskRecord, need: Need, evidence: FoundEvidence, entry: WriteEntry
) -> Verdict:
    """Names the stage at which one needed record was lost, or how its use ended.

    Args:
        record: What the hops of the task left behind.
        need: What should have been used.
        evidence: What the store holds about the need.
        entry: The write of the record.

    Returns:
        The verdict, with what the flags of the decision say of the record.
    """
    retrieval = record.retrieval
    candidates = retrieval.candidates if retrieval else ()
    case = _Case(
        record=record,
        need=need,
        entry=entry,
        candidate=next((c for c in candidates if c.record_id == entry.record_id), None),
        explanation=next(
            (e for e in evidence.explanations if e.record_id == entry.record_id), None
        ),
        asked_at=retrieval.at if retrieval else record.use.at,
        found=evidence,
    )
    for check in _CHECKS:
        if found := check(case):
            return replace(found, evidence=(*found.evidence, *_flagged(case)))
    raise AssertionError("the last check answers every case")


def describe_override(override: Override) -> str:
    """Describes an override in a sentence."""
    sure = "pinned" if override.pinned else f"confidence {override.confidence:.2f}"
    ranked = f" at rank {override.rank}" if override.rank else ""
    shown = "shown" if override.shown else "not shown"
    then = "; its value was put into the answer" if override.enforced else ""
    return (
        f"the model's {override.field} is not what {override.record_id} ({sure}, {shown}{ranked}) "
        f"claims{then}"
    )


def _flagged(case: _Case) -> Iterator[str]:
    """What the flags of the decision say of the record, besides the verdict."""
    use, record_id = case.record.use, case.entry.record_id
    for override in use.overrides:
        if override.record_id == record_id:
            yield f"flagged memory_override: {describe_override(override)}"
    if use.chosen_support and use.chosen_support.id == record_id and not use.chosen_support.shown:
        yield "flagged support_not_shown: the answer agrees with it all the same"
    if _bearing(case) == "not":
        yield "counterfactual: leaving it out changes nothing"
    if _bearing(case) == "uncertain":
        yield "counterfactual: whether leaving it out changes the answer is uncertain"


def _distorted(case: _Case) -> Verdict | None:
    content, text = case.entry.content, case.need.text
    if not (text and content and case.need.record_ids) or carries(text, content):
        return None
    return case.verdict("write", "distorted", f"the record says {content!r}, not {text!r}")


def _text_unknown(case: _Case) -> Verdict | None:
    """Without its text, whether the record was distorted can't be told."""
    if case.found.texts_known or not case.need.text or case.entry.status == "forgotten":
        return None
    return case.verdict(
        "undetermined", "not_traced", "its text is hashed or left out on these spans"
    )


def _retired(case: _Case) -> Verdict | None:
    at = case.entry.retired_at
    if at is None or (case.asked_at and at > case.asked_at):
        return None
    return case.verdict("write", "retired", f"it was {case.entry.status} at {at.isoformat()}")


def _not_queried(case: _Case) -> Verdict | None:
    if case.record.retrieval is not None:
        return None
    return case.verdict("retrieval", "not_queried", "the task has no recall")


def _not_a_candidate(case: _Case) -> Verdict | None:
    if case.candidate is not None:
        return None
    excluded = case.explanation.excluded_by if case.explanation else None
    if excluded == "unknown":
        return case.verdict(
            "undetermined",
            "not_traced",
            "it is no candidate; whether its scope excluded it is not on these spans",
        )
    if excluded:
        return case.verdict("retrieval", "filtered_out", f"the request's {excluded} exclude it")
    if _waited(case):
        return case.verdict(
            "retrieval", "not_indexed", "the vector index did not hold it when the task asked"
        )
    rank = case.explanation.rank if case.explanation else None
    of = f" of {case.explanation.of}" if case.explanation else ""
    return case.verdict(
        "retrieval",
        "beyond_depth",
        f"it is not among the {len(_candidates(case))} candidates"
        + (f"; its exact rank is {rank}{of}" if rank else "")
        + ("; its exact rank can be told from the ledger only" if case.found.traced else ""),
        rank=rank,
    )


def _waited(case: _Case) -> bool:
    """Whether the record was still waiting for the index at the time of the recall.

    A later ``reindex`` changes ``indexed_at``; the retrieval has how many records waited.
    """
    retrieval, indexed_at = case.record.retrieval, case.entry.indexed_at
    if retrieval is not None and retrieval.pending_index == 0:
        return False
    return indexed_at is None or (case.asked_at is not None and indexed_at > case.asked_at)


def _candidates(case: _Case) -> Sequence[CandidateEntry]:
    return case.record.retrieval.candidates if case.record.retrieval else ()


def _not_shown(case: _Case) -> Verdict | None:
    candidate, retrieval = case.candidate, case.record.retrieval
    if candidate is None or retrieval is None or candidate.injected:
        return None
    place = f"it ranked {candidate.rank} of {len(retrieval.candidates)} with k={retrieval.k}"
    if candidate.cut == "inapplicable_scope":
        return case.verdict("retrieval", "filtered_out", place, "its scope does not apply here")
    if candidate.cut in ("budget", "floor"):
        return case.verdict("retrieval", "cut", place, f"it was cut for {candidate.cut}")
    return case.verdict("retrieval", "below_cutoff", place)


def _undecided(case: _Case) -> Verdict | None:
    use = case.record.use
    if use.decision_id is None:
        return case.verdict(
            "undetermined", "no_decision_recorded", "it was shown; no decision was recorded"
        )
    if use.status == "decided":
        return None
    return case.verdict("use", "no_answer", f"it was shown; the decision ended {use.status}")


def _overridden(case: _Case) -> Verdict | None:
    claim, answer = case.need.claim or case.entry.claim, case.record.use.answer
    if not (case.found.texts_known and claim and answer):
        if case.entry.record_id not in case.record.use.contradicted_record_ids:
            return None
        return case.verdict("use", "overridden", "it was shown; the answer goes against its claim")
    other = contradicts(claim, answer)
    if other is None:
        return None
    return case.verdict(
        "use",
        "overridden",
        f"it was shown and claims {other}={claim[other]!r}; the answer says {answer[other]!r}",
    )


def _misapplied(case: _Case) -> Verdict | None:
    use = case.record.use
    if case.entry.record_id in use.cited_record_ids:
        return case.verdict(
            "use", "misapplied", "it was shown and cited, and the answer is still wrong"
        )
    if any(one.enforced and one.record_id == case.entry.record_id for one in use.overrides):
        return case.verdict("use", "misapplied", "it was enforced, and the answer is still wrong")
    # Without counterfactuals of single records, one flag speaks for all that were shown.
    if _bearing(case) == "load_bearing" or (not use.counterfactuals and use.counterfactual_flip):
        return case.verdict(
            "use", "misapplied", "leaving it out changes the answer, which is still wrong"
        )
    return None


def _ignored(case: _Case) -> Verdict | None:
    return case.verdict("use", "ignored", "it was shown, and nothing in the decision refers to it")


def verdict_on_unwanted(record: TaskRecord, entry: WriteEntry) -> Verdict:
    """The verdict on a record that should not be used: not used, or used all the same."""
    candidates = record.retrieval.candidates if record.retrieval else ()
    candidate = next((c for c in candidates if c.record_id == entry.record_id), None)
    case = _Case(record, Need(should_use=False), entry, candidate, None, None, FoundEvidence())
    if candidate is None or not candidate.injected:
        return case.verdict("none", "rightly_ignored", "it was not to be used here, nor shown")
    if used := _misapplied(case) or _followed(case):
        return used
    return case.verdict("none", "rightly_ignored", "it was shown and was not to be used here")


def _followed(case: _Case) -> Verdict | None:
    claim, answer = case.entry.claim, case.record.use.answer
    if not (claim and answer and claim.keys() <= answer.keys()) or contradicts(claim, answer):
        return None
    return case.verdict("use", "misapplied", "the answer is what it claims, which is wrong here")


def _bearing(case: _Case) -> Bearing | None:
    tried = case.record.use.counterfactuals
    return next((one.verdict for one in tried if one.record_id == case.entry.record_id), None)


_CHECKS: tuple[_Check, ...] = (
    _distorted,
    _text_unknown,
    _retired,
    _not_queried,
    _not_a_candidate,
    _not_shown,
    _undecided,
    _overridden,
    _misapplied,
    _ignored,
)
