"""What makes two proposals the same one."""

from __future__ import annotations

from typing import Literal

from memplugin.config import MemoryContext
from memplugin.records import Claim, Scope
from memplugin.text import canonical_json, digest, normalised


def proposal_id(
    context: MemoryContext,
    operation: Literal["write", "remember"],
    content: str,
    kind: str,
    scope: Scope,
    claim: Claim | None,
    *,
    turn_id: str | None = None,
    pinned: bool = False,
) -> str:
    """Names what is proposed; the same again is the same proposal.

    Kind, scope, claim and pin are part of it: the same words about another house are
    another memory, and writing something again to pin it is not a repetition.
    """
    parts = [context.workspace_id, context.session_id, turn_id or "-", operation]
    nature = canonical_json([kind, dict(scope), dict(claim) if claim else None, pinned])
    return "p_" + digest(*parts, normalised(content), nature)


def evidence_id(
    context: MemoryContext,
    record_id: str,
    *,
    supports: bool,
    scope: Scope,
    claim: Claim | None,
    note: str | None,
) -> str:
    """Names an observation; the same again in the same attempt of a task is counted once.

    A LangGraph node may run again from its top, and must not count twice. Weight and
    salience are left out: a model may grade the same observation otherwise the second time.
    To count it twice, say what differs in the note.
    """
    parts = [context.workspace_id, record_id, context.session_id, context.task]
    nature = canonical_json([supports, dict(scope), dict(claim) if claim else None, note])
    return "e_" + digest(*parts, str(context.attempt), nature)
