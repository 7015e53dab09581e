"""The gate: every proposal goes through a list of checks and ends in one of five states.

    ask each check in turn ──▶ Pass       the next one
                               Amend      the next one, with the amended proposal
                               Reject     rejected
                               Attach     attached to a known record
                               Supersede  accepted in the place of a known record
                               Predate    accepted as already replaced by a known record
    none objected          ──▶ accepted
    a check broke          ──▶ failed

To add a check, append a function: ``rule(…, checks=(*BUILT_IN_CHECKS, mine))``. What is
known was looked up for the proposal as it came in; an amendment is not looked up again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from memplugin.config import MemoryConfig
from memplugin.records import ALREADY_REPLACED, Known, Proposal, Ruling
from memplugin.text import clean
from memplugin.write import checks as built_in
from memplugin.write.checks import Amend, Attach, Check, Finding, Pass, Predate, Reject, Supersede

__all__ = [
    "BUILT_IN_CHECKS",
    "Amend",
    "Attach",
    "Check",
    "Finding",
    "Pass",
    "Predate",
    "Reject",
    "Supersede",
    "rule",
]

BUILT_IN_CHECKS: tuple[Check, ...] = (
    built_in.has_usable_size,
    built_in.is_not_forgotten,
    built_in.was_said,
    built_in.keeps_negation,
    built_in.is_confident,
    built_in.is_screened,
    built_in.is_not_known_verbatim,
    built_in.agrees_with_claims,
    built_in.has_not_changed_to_the_opposite,
    built_in.is_not_known_in_other_words,
)
"""In this order. Claims come before likeness: "the vendor is Primex" and "… is Primax" are
near, and still two values."""


def rule(
    proposal: Proposal,
    known: Known,
    config: MemoryConfig,
    checks: Sequence[Check] = BUILT_IN_CHECKS,
) -> Ruling:
    """Says what becomes of a proposal. Never raises for what a check does.

    Args:
        proposal: What was proposed. One with a ``defect`` fails with it.
        known: What the store holds that bears on it.
        config: Thresholds and the screen.
        checks: Asked in this order; the first that does more than pass or amend ends it.

    Returns:
        The ruling, with the proposal as it was amended.
    """
    if proposal.defect is not None:
        return Ruling(proposal, "failed", clean(proposal.defect))
    for check in checks:
        try:
            finding = check(proposal, known, config)
        except Exception as error:  # noqa: BLE001 -- a caller's hook must not lose the batch
            return Ruling(proposal, "failed", f"check {_name(check)}: {type(error).__name__}")
        if isinstance(finding, Amend):
            # The id says what was proposed, so that proposing it again is a repetition.
            proposal = replace(finding.proposal, id=proposal.id)
        elif not isinstance(finding, Pass):
            return _ended(proposal, known, check, finding)
    return Ruling(proposal, "accepted", record_id=proposal.record_id)


def _ended(
    proposal: Proposal, known: Known, check: Check, finding: Reject | Attach | Supersede | Predate
) -> Ruling:
    match finding:
        case Reject(reason, keep_text, against):
            kept = proposal if keep_text else _without_text(proposal)
            against_id = against if against in _known_ids(known) else None
            return Ruling(kept, "rejected", clean(reason), against_id=against_id)
        case Attach(record_id, reason) if record_id in _known_ids(known):
            return Ruling(proposal, "attached", clean(reason), record_id=record_id)
        case Supersede(record_id, reason) if record_id in _known_ids(known):
            return Ruling(
                proposal,
                "superseded",
                clean(reason),
                record_id=proposal.record_id,
                replaced_id=record_id,
            )
        case Predate(record_id, reason) if record_id in _known_ids(known):
            return Ruling(
                proposal,
                "accepted",
                clean(f"{ALREADY_REPLACED}: {reason}"),
                record_id=proposal.record_id,
                replaced_by_id=record_id,
            )
        case Attach() | Supersede() | Predate():
            # An id from elsewhere may be retired, or of another workspace.
            return Ruling(proposal, "failed", f"check {_name(check)}: names an unknown record")
        case other:  # pyright: ignore[reportUnnecessaryComparison] -- a caller's check may return anything
            returned = type(other).__name__
            return Ruling(proposal, "failed", f"check {_name(check)}: returned {returned}")


def _known_ids(known: Known) -> set[str]:
    near = [record for record, _ in known.near]
    return {record.id for record in (*known.same_content, *known.same_slot, *near)}


def _without_text(proposal: Proposal) -> Proposal:
    return replace(
        proposal,
        content="",
        quote=None,
        said_in=None,
        around=None,
        source=None,
        claim=None,
        time_phrase=None,
    )


def _name(check: Check) -> str:
    return clean(getattr(check, "__name__", type(check).__name__))
