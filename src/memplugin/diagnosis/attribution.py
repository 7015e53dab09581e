"""Attribution: which stage of a task failed, and how often each does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from memplugin.diagnosis.evidence_search import FoundEvidence
from memplugin.diagnosis.need import carries
from memplugin.diagnosis.stages import (
    describe_override,
    verdict_of,
    verdict_on_record,
    verdict_on_unwanted,
)
from memplugin.diagnosis.task_record import TaskRecord, WriteEntry
from memplugin.records import Need, Noun, Stage, Verdict

STAGES: tuple[Stage, ...] = ("write", "retrieval", "use", "none", "undetermined")
"""In the order in which a memory passes them; the two that blame no stage come last."""


@dataclass(frozen=True, slots=True)
class Tally(Noun):
    """How many tasks ended with one verdict."""

    stage: Stage
    cause: str
    tasks: int


def tally(verdicts: Iterable[Verdict]) -> list[Tally]:
    """Counts verdicts, each task once: by stage, and the most frequent cause first."""
    counts = Counter((v.stage, v.cause) for v in verdicts)
    counted = [
        Tally(stage, cause, tasks)
        for stage in STAGES
        for (of, cause), tasks in counts.items()
        if of == stage
    ]
    return sorted(counted, key=lambda t: (STAGES.index(t.stage), -t.tasks, t.cause))


def attribute(record: TaskRecord, need: Need, evidence: FoundEvidence | None = None) -> Verdict:
    """Names the stage that failed, the cause, and how that is known.

    Args:
        record: What the task's hops left behind.
        need: What should have been used.
        evidence: What the store holds about the need, from ``find_evidence``. Without it only
            the record is known, and a need that is not in it ends ``undetermined``.

    Returns:
        The verdict; ``none/passed`` for a task that passed, unless a person corrected it.
    """
    return replace(_attributed(record, need, evidence), task_id=record.task_id)


def _attributed(record: TaskRecord, need: Need, evidence: FoundEvidence | None) -> Verdict:
    if record.success and not need.corrected:
        return verdict_of("none", "passed", "the task's last attempt was reported as passed")
    if not (need.record_ids or need.text or need.claim or need.turn_id):
        seen = (
            f"flagged memory_override: {describe_override(one)}" for one in record.use.overrides
        )
        return verdict_of(
            "undetermined", "no_need", "what should have been used is not known", *seen
        )
    if not (need.record_ids or evidence is None or evidence.texts_known):
        return verdict_of(
            "undetermined",
            "not_traced",
            "texts are hashed or left out on these spans, so what it says can't be looked up",
        )
    asked_at = record.retrieval.at if record.retrieval else record.use.at
    known = _as_of(asked_at, evidence or FoundEvidence(turns_kept=False))
    needed = _needed(record, need, known, asked_at)
    if not need.should_use:
        return earliest([*(verdict_on_unwanted(record, entry) for entry in needed), _ABSENT])
    if not needed:
        return _unwritten(known, need, evidence)
    verdicts = [verdict_on_record(record, need, known, entry) for entry in needed]
    # Any record taken from the turn says what was needed: the one that came furthest counts.
    return furthest(verdicts) if need.turn_id and not need.record_ids else earliest(verdicts)


_ABSENT = verdict_of("none", "rightly_ignored", "it was not to be used here, and was not there")


def earliest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a task that needed several things: that of the first one lost.

    Raises:
        ValueError: there are no verdicts.
    """
    return min(verdicts, key=_stage_order)


def furthest(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a task that needed any one of several things: that of the last one lost.

    Raises:
        ValueError: there are no verdicts.
    """
    return max(verdicts, key=_stage_order)


_ORDER: tuple[Stage, ...] = ("write", "retrieval", "use", "undetermined", "none")


def _stage_order(verdict: Verdict) -> int:
    return _ORDER.index(verdict.stage)


def _as_of(asked_at: datetime | None, evidence: FoundEvidence) -> FoundEvidence:
    """The evidence at the time of the recall: what came later can't have been used."""
    if asked_at is None:
        return evidence
    return replace(
        evidence,
        writes=tuple(w for w in evidence.writes if w.written_at <= asked_at),
        rejected=tuple(p for p in evidence.rejected if p.created_at <= asked_at),
        turns=tuple(t for t in evidence.turns if t.said_at <= asked_at),
        distorted=tuple(w for w in evidence.distorted if w.written_at <= asked_at),
    )


def _needed(
    record: TaskRecord, need: Need, evidence: FoundEvidence, asked_at: datetime | None
) -> list[WriteEntry]:
    """The writes of the needed records, one for each record."""
    ids = need.record_ids or tuple(w.record_id for w in evidence.writes if w.record_id)
    if not (ids or evidence.writes or need.turn_id):
        ids = tuple(w.record_id for w in record.writes if w.record_id and _says(w, need))
    by_id = {
        w.record_id: w
        for w in (*record.writes, *evidence.writes)
        if w.status and (asked_at is None or w.written_at <= asked_at)
    }
    return [by_id[record_id] for record_id in dict.fromkeys(ids) if record_id in by_id]


def _says(entry: WriteEntry, need: Need) -> bool:
    if need.claim:
        return dict(entry.claim or {}) == dict(need.claim)
    return bool(need.text and entry.content and carries(need.text, entry.content))


# ---------------------------------------------------------------- never became a record


def _unwritten(evidence: FoundEvidence, need: Need, whole: FoundEvidence | None) -> Verdict:
    later = [w for w in (whole.writes if whole else ()) if w not in evidence.writes]
    if need.record_ids and not later:
        if evidence.traced:
            return verdict_of(
                "undetermined",
                "not_traced",
                f"none of the spans read says what became of {', '.join(need.record_ids)}",
            )
        return verdict_of(
            "undetermined", "unknown_record", f"no record {', '.join(need.record_ids)} is known"
        )
    return replace(
        verdict := _never_stored(evidence),
        evidence=(
            *verdict.evidence,
            *(
                f"record {w.record_id} was only written at {w.written_at.isoformat()}"
                for w in later
            ),
        ),
    )


def _never_stored(evidence: FoundEvidence) -> Verdict:
    if evidence.rejected:
        proposal = evidence.rejected[0]
        return verdict_of(
            "write",
            "failed" if proposal.ruling == "failed" else "rejected",
            f"proposal {proposal.id} in session {proposal.session_id} was {proposal.ruling}: "
            f"{proposal.reason}",
        )
    if evidence.distorted:
        entry = evidence.distorted[0]
        return verdict_of(
            "write",
            "distorted",
            f"turn {evidence.turns[0].id} says it",
            f"record {entry.record_id}, taken from that turn, says: {entry.content!r}",
            record_id=entry.record_id,
        )
    if evidence.turns:
        turn = evidence.turns[0]
        return verdict_of(
            "write",
            "never_proposed",
            "no record carried it when the task asked",
            f"turn {turn.id} of session {turn.session_id} says it, and no proposal came of it",
        )
    if evidence.traced:
        return verdict_of(
            "undetermined",
            "not_traced",
            "no record or proposal on these spans carries it; turns are only in the ledger",
        )
    if not evidence.turns_kept:
        return verdict_of(
            "undetermined",
            "turns_not_kept",
            "no record or proposal carries it",
            "the store keeps no text of turns, so never said can't be told from never proposed",
        )
    return verdict_of(
        "none", "never_said", "no record, no proposal and no turn of a user carries it"
    )
