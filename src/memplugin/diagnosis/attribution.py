"""Which stage failed: a pure function from a task's record and the census to a verdict.

The stages are looked at in the order in which a memory passes them, and the earliest one
that failed owns the task. A later stage is only blamed when every earlier one did its
part, so a count of verdicts is a count of demonstrated failures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memplugin.diagnosis.census import Census
from memplugin.diagnosis.next_steps import NEXT_STEPS
from memplugin.diagnosis.task_record import CandidateEntry, TaskRecord, WriteEntry
from memplugin.diagnosis.wording import carries
from memplugin.records import Claim, Explanation, Need, Stage, Verdict
from memplugin.text import normalised


def attribute(record: TaskRecord, need: Need, census: Census | None = None) -> Verdict:
    """Names the stage that failed, the cause, and how that is known.

    Args:
        record: What the task's hops left behind.
        need: What should have been used.
        census: What the store holds about it (``look_up``); without one only the record
            is known, and a need that is not in it ends ``undetermined``.

    Returns:
        ``none/passed`` for a task that passed, unless a person corrected it.
    """
    return replace(_attributed(record, need, census), task_id=record.task_id)


def _attributed(record: TaskRecord, need: Need, census: Census | None) -> Verdict:
    if record.success and not need.corrected:
        return _verdict("none", "passed", "the task's last attempt was reported as passed")
    if not (need.record_ids or need.text or need.claim):
        return _verdict("undetermined", "no_need", "what should have been used is not known")
    asked_at = record.retrieval.at if record.retrieval else record.use.at
    known = _as_of(asked_at, census or Census(turns_kept=False))
    needed = _needed(record, need, known, asked_at)
    if not needed:
        return _unwritten(known, need, census)
    return min((_follow(record, need, known, entry) for entry in needed), key=_stage_order)


_ORDER: tuple[Stage, ...] = ("write", "retrieval", "use", "undetermined", "none")


def _stage_order(verdict: Verdict) -> int:
    return _ORDER.index(verdict.stage)


def _verdict(
    stage: Stage,
    cause: str,
    *evidence: str,
    record_id: str | None = None,
    rank: int | None = None,
) -> Verdict:
    return Verdict(
        stage=stage,
        cause=cause,
        record_id=record_id,
        rank=rank,
        evidence=evidence,
        next_step=NEXT_STEPS[(stage, cause)],
    )


def _as_of(asked_at: datetime | None, census: Census) -> Census:
    """What was there when the task asked: what came later can't have been used."""
    if asked_at is None:
        return census
    return replace(
        census,
        writes=tuple(w for w in census.writes if w.written_at <= asked_at),
        rejected=tuple(p for p in census.rejected if p.created_at <= asked_at),
        turns=tuple(t for t in census.turns if t.said_at <= asked_at),
        distorted=tuple(w for w in census.distorted if w.written_at <= asked_at),
    )


def _needed(
    record: TaskRecord, need: Need, census: Census, asked_at: datetime | None
) -> list[WriteEntry]:
    """The writes that made what was needed, one for each record."""
    ids = need.record_ids or tuple(w.record_id for w in census.writes if w.record_id)
    if not ids and not census.writes:
        ids = tuple(w.record_id for w in record.writes if w.record_id and _says(w, need))
    by_id = {
        w.record_id: w
        for w in (*record.writes, *census.writes)
        if w.status and (asked_at is None or w.written_at <= asked_at)
    }
    return [by_id[record_id] for record_id in dict.fromkeys(ids) if record_id in by_id]


def _says(entry: WriteEntry, need: Need) -> bool:
    if need.claim:
        return dict(entry.claim or {}) == dict(need.claim)
    return bool(need.text and entry.content and carries(need.text, entry.content))


# ---------------------------------------------------------------- never became a record


def _unwritten(census: Census, need: Need, whole: Census | None) -> Verdict:
    later = [w for w in (whole.writes if whole else ()) if w not in census.writes]
    if need.record_ids and not later:
        return _verdict(
            "undetermined", "unknown_record", f"no record {', '.join(need.record_ids)} is known"
        )
    return replace(
        verdict := _never_stored(census),
        evidence=(
            *verdict.evidence,
            *(
                f"record {w.record_id} was only written at {w.written_at.isoformat()}"
                for w in later
            ),
        ),
    )


def _never_stored(census: Census) -> Verdict:
    if census.rejected:
        proposal = census.rejected[0]
        return _verdict(
            "write",
            "failed" if proposal.ruling == "failed" else "rejected",
            f"proposal {proposal.id} in session {proposal.session_id} was {proposal.ruling}: "
            f"{proposal.reason}",
        )
    if census.distorted:
        entry = census.distorted[0]
        return _verdict(
            "write",
            "distorted",
            f"turn {census.turns[0].id} says it",
            f"record {entry.record_id}, taken from that turn, says: {entry.content!r}",
            record_id=entry.record_id,
        )
    if census.turns:
        turn = census.turns[0]
        return _verdict(
            "write",
            "never_proposed",
            "no record carried it when the task asked",
            f"turn {turn.id} of session {turn.session_id} says it, and no proposal came of it",
        )
    if not census.turns_kept:
        return _verdict(
            "undetermined",
            "turns_not_kept",
            "no record or proposal carries it",
            "the store keeps no text of turns, so never said can't be told from never proposed",
        )
    return _verdict("none", "never_said", "no record, no proposal and no turn of a user carries it")


# ---------------------------------------------------------------- the way of one record


@dataclass(frozen=True, slots=True)
class _Case:
    """One needed record on its way through one task."""

    record: TaskRecord
    need: Need
    entry: WriteEntry
    candidate: CandidateEntry | None
    explanation: Explanation | None
    asked_at: datetime | None

    def verdict(self, stage: Stage, cause: str, *evidence: str, rank: int | None = None) -> Verdict:
        at = rank if rank is not None else (self.candidate.rank if self.candidate else None)
        return _verdict(stage, cause, *evidence, record_id=self.entry.record_id, rank=at)


_Check = Callable[[_Case], Verdict | None]


def _follow(record: TaskRecord, need: Need, census: Census, entry: WriteEntry) -> Verdict:
    retrieval = record.retrieval
    candidates = retrieval.candidates if retrieval else ()
    case = _Case(
        record=record,
        need=need,
        entry=entry,
        candidate=next((c for c in candidates if c.record_id == entry.record_id), None),
        explanation=next((e for e in census.explanations if e.record_id == entry.record_id), None),
        asked_at=retrieval.at if retrieval else record.use.at,
    )
    for check in _CHECKS:
        if found := check(case):
            return found
    raise AssertionError("the last check answers every case")


def _distorted(case: _Case) -> Verdict | None:
    content, text = case.entry.content, case.need.text
    if not (text and content and case.need.record_ids) or carries(text, content):
        return None
    return case.verdict("write", "distorted", f"the record says {content!r}, not {text!r}")


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
    if excluded:
        return case.verdict("retrieval", "filtered_out", f"the request's {excluded} exclude it")
    indexed_at = case.entry.indexed_at
    if indexed_at is None or (case.asked_at and indexed_at > case.asked_at):
        return case.verdict(
            "retrieval", "not_indexed", "the vector index did not hold it when the task asked"
        )
    rank = case.explanation.rank if case.explanation else None
    of = f" of {case.explanation.of}" if case.explanation else ""
    return case.verdict(
        "retrieval",
        "beyond_depth",
        f"it is not among the {len(_candidates(case))} candidates"
        + (f"; its exact rank is {rank}{of}" if rank else ""),
        rank=rank,
    )


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


def _rightly_ignored(case: _Case) -> Verdict | None:
    if case.need.should_use:
        return None
    return case.verdict("none", "rightly_ignored", "it was shown and was not to be used here")


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
    if not claim or not answer:
        return None
    other = _contradicted(claim, answer)
    if other is None:
        return None
    return case.verdict(
        "use",
        "overridden",
        f"it was shown and claims {other}={claim[other]!r}; the answer says {answer[other]!r}",
    )


def _contradicted(claim: Claim, answer: dict[str, object]) -> str | None:
    for name, value in claim.items():
        if name in answer and normalised(str(answer[name])) != normalised(str(value)):
            return name
    return None


def _misapplied(case: _Case) -> Verdict | None:
    use = case.record.use
    if case.entry.record_id in use.cited_record_ids:
        return case.verdict(
            "use", "misapplied", "it was shown and cited, and the answer is still wrong"
        )
    if use.counterfactual_flip:
        return case.verdict(
            "use", "misapplied", "leaving it out changes the answer, which is still wrong"
        )
    return None


def _ignored(case: _Case) -> Verdict | None:
    return case.verdict("use", "ignored", "it was shown, and nothing in the decision refers to it")


_CHECKS: tuple[_Check, ...] = (
    _distorted,
    _retired,
    _not_queried,
    _not_a_candidate,
    _not_shown,
    _rightly_ignored,
    _undecided,
    _overridden,
    _misapplied,
    _ignored,
)
