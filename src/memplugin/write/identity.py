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
