"""The built-in checks of the gate, in their order, and what a check can say of a proposal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memplugin.claims import same_claim, same_fields, same_scope
from memplugin.config import MemoryConfig
from memplugin.records import Known, MemoryRecord, Proposal, Tombstone
from memplugin.text import normalised
from memplugin.write import negation, quotes
from memplugin.write.wording import only_reworded, opposite


@dataclass(frozen=True, slots=True)
class Pass:
    """Nothing to object to: the next check has its turn."""


@dataclass(frozen=True, slots=True)
class Reject:
    """The proposal must not become a record.

    Attributes:
        reason: One word, or ``word: detail``.
        keep_text: False also takes the text out of the proposal that is kept.
        against: A known record that the proposal speaks against: evidence against it.
    """

    reason: str
    keep_text: bool = True
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Amend:
    """Go on with this proposal instead. Its id stays that of the original."""

    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Attach:
    """The store knows this already: the proposal is evidence for that record."""

    record_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Supersede:
    """The proposal takes the place of that record."""

    record_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Predate:
    """The proposal was true before that record: it is kept as already replaced by it."""

    record_id: str
    reason: str


Finding = Pass | Reject | Amend | Attach | Supersede | Predate

Check = Callable[[Proposal, Known, MemoryConfig], Finding]
"""One question asked of a proposal, of what is known that bears on it, and of the settings.

It decides from what it is given, and does no I/O.
"""


_PASS = Pass()


def has_usable_size(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """There is something to remember, and not too much of it."""
    size = len(proposal.content)
    if not normalised(proposal.content):
        return Reject("empty")
    if size > config.max_content_chars:
        return Reject(f"oversized: {size} characters, at most {config.max_content_chars}")
    return _PASS


def is_not_forgotten(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """What was forgotten does not come back from where it came from.

    Said anew, in another session and after it was forgotten, it may.
    """
    if any(_buries(stone, proposal, known.session_id) for stone in known.tombstones):
        return Reject("tombstoned", keep_text=False)
    return _PASS


def _buries(stone: Tombstone, proposal: Proposal, session_id: str | None) -> bool:
    if stone.turn_id is not None and stone.turn_id == proposal.turn_id:
        return True
    return stone.session_id == session_id or proposal.occurred_at < stone.forgotten_at


def was_said(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """An extracted memory quotes someone who is trusted, word for word."""
    if proposal.operation != "remember":
        return _PASS
    if not (proposal.quote and proposal.said_in and quotes.find(proposal.quote, proposal.said_in)):
        return Reject("quote_not_found")
    return _PASS


def keeps_negation(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """A no is not remembered as a yes."""
    if proposal.operation != "remember" or not (proposal.quote and proposal.said_in):
        return _PASS
    said = negation.clauses_said(proposal.quote, proposal.said_in, proposal.content)
    denied = any(clause.denies and not clause.limited for clause in said)
    if denied and proposal.polarity == "positive":
        return Reject("negation_lost")
    if not all(negation.keeps(proposal.content, clause) for clause in said):
        return Reject("negation_lost")
    return _PASS


def is_confident(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """Whoever proposed it was sure enough."""
    if not proposal.confidence >= config.min_confidence:  # NaN is below too
        return Reject(f"low_confidence: {proposal.confidence:g} < {config.min_confidence:g}")
    return _PASS


def is_screened(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """The caller's screen sees nothing that must not be stored.

    It is shown every text that would be kept with the record. What it stops is not kept
    with the rejected proposal either.

    Raises:
        TypeError: the screen returned neither a text nor None.
    """
    if config.screen is None:
        return _PASS
    values = [value for value in (proposal.claim or {}).values() if isinstance(value, str)]
    for text in (proposal.content, proposal.quote, proposal.around, proposal.source, *values):
        reason = config.screen(text) if text else None
        if reason is None:
            continue
        if not isinstance(reason, str):  # pyright: ignore[reportUnnecessaryIsInstance] -- it is the caller's
            raise TypeError("a screen returns a reason or None")
        return Reject(f"screened: {reason}" if reason else "screened", keep_text=False)
    return _PASS


def is_not_known_verbatim(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """The same text, scope and claim is stored once.

    A proposal that adds something to it (it is pinned, it is standing, it has a claim)
    takes its place, unless that would undo a pin. What a caller writes under another kind
    is another record, since callers filter by kind; the kind of an extracted proposal is a
    model's guess and makes no second one.
    """
    for record in known.same_content:
        if not _same_text(record, proposal):
            continue
        if proposal.operation != "remember" and record.kind != proposal.kind:
            continue
        if proposal.claim and record.claim and not same_claim(record.claim, proposal.claim):
            continue
        added = _adds(proposal, record, config)
        if added and (proposal.pinned or not record.pinned):
            return Supersede(record.id, f"exact_duplicate: {added}")
        return Attach(record.id, "exact_duplicate")
    return _PASS


def _same_text(record: MemoryRecord, proposal: Proposal) -> bool:
    # Compared again, since an earlier check may have amended the content.
    same = normalised(record.content) == normalised(proposal.content)
    return same and same_scope(record, proposal)


def _adds(proposal: Proposal, record: MemoryRecord, config: MemoryConfig) -> str | None:
    if proposal.pinned and not record.pinned:
        return "now pinned"
    if proposal.kind in config.standing_kinds and record.kind not in config.standing_kinds:
        return "now standing"
    if proposal.claim and not record.claim:
        return "now with a claim"
    return None


def agrees_with_claims(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """One value for a field in a scope: the one that is true later, unless another is pinned.

    A value that was true before the one that is known, such as one from an import of older
    conversations, is kept as already replaced.
    What was observed once replaces nothing that is still believed: it is evidence against
    it, and replaces it when enough of that has come.
    """
    rivals = [
        record
        for record in known.same_slot
        if same_fields(record.claim, proposal.claim) and same_scope(record, proposal)
    ]
    agreeing = [record for record in rivals if same_claim(record.claim, proposal.claim)]
    against = [record for record in rivals if record not in agreeing]
    pinned = next((record for record in against if record.pinned), None)
    if pinned and not proposal.pinned:
        return Reject(f"contradicts_pinned: {pinned.id}", against=pinned.id)
    if agreeing:
        record = agreeing[0]
        if proposal.pinned and not record.pinned:
            return Supersede(record.id, "same_claim: now pinned")
        return Attach(record.id, "same_claim")
    if not against:
        return _PASS
    rival = pinned or max(against, key=lambda record: record.occurred_at)
    if proposal.operation == "observe" and rival.confidence >= config.min_confidence:
        return Reject(f"outweighed: {rival.id}", against=rival.id)
    return _by_time(proposal, rival, "claim_changed")


def _by_time(proposal: Proposal, rival: MemoryRecord, reason: str) -> Supersede | Predate:
    """The one that became true later holds; of two that did at once, the new one."""
    if proposal.occurred_at < rival.occurred_at and not proposal.pinned:
        return Predate(rival.id, reason)
    return Supersede(rival.id, reason)


def has_not_changed_to_the_opposite(
    proposal: Proposal, known: Known, config: MemoryConfig
) -> Finding:
    """A change of mind: of "loves coriander" and "hates coriander" the one true later holds.

    Only where the words are the same but for the yes and the no, in the same scope; a value
    that both claim for a field is a matter of the claims.
    """
    if proposal.operation == "observe":
        return _PASS
    rivals = [
        record
        for record, _ in known.near
        if same_scope(record, proposal)
        and same_claim(record.claim, proposal.claim)
        and opposite(record.content, proposal.content)
    ]
    if not rivals:
        return _PASS
    pinned = next((record for record in rivals if record.pinned), None)
    if pinned and not proposal.pinned:
        return Reject(f"contradicts_pinned: {pinned.id}", against=pinned.id)
    rival = pinned or max(rivals, key=lambda record: record.occurred_at)
    return _by_time(proposal, rival, "opposite")


def is_not_known_in_other_words(proposal: Proposal, known: Known, config: MemoryConfig) -> Finding:
    """The same memory in other words is stored once.

    Likeness alone does not tell "Alice likes tea" from "Bob likes tea": kind, scope,
    claim, numbers, names and negation must be equal too.
    """
    for record, cosine in known.near:
        if cosine < config.near_duplicate or (proposal.pinned and not record.pinned):
            continue
        if not (
            record.kind == proposal.kind
            and same_scope(record, proposal)
            and same_claim(record.claim, proposal.claim)
        ):
            continue
        if _same_exception(record, proposal):
            return Attach(record.id, "same_exception")
        if only_reworded(record.content, proposal.content):
            return Attach(record.id, f"near_duplicate: {cosine:.2f}")
    return _PASS


def _same_exception(record: MemoryRecord, proposal: Proposal) -> bool:
    # Said in other words each time, it is the same exception to the same belief.
    return proposal.operation == "observe" and record.source == proposal.source
