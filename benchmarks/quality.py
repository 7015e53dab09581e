"""Recall of LoCoMo's evidence through the front door, without a model beside the embedder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks.embedders import CachingEmbedder, fastest
from benchmarks.locomo import ABSENT, CATEGORIES, Conversation, Question, find, load
from benchmarks.results import Figure, Part, Target
from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.ports import Embedder

CUTS = (5, 10)
CONFIG = MemoryConfig(floor=-1.0, token_budget=None)
"""No relevance floor and no budget: what is measured is the ranking."""

TARGETS = {
    ("balanced", True, 5): Target(0.65, "higher"),
    ("balanced", True, 10): Target(0.75, "higher"),
}


@dataclass(frozen=True)
class Answered:
    """How much of a question's evidence was found, at each cut."""

    question: Question
    recall: Mapping[int, float]


def run(
    *, first: int | None = None, path: Path | None = None, embedder: Embedder | None = None
) -> Part:
    """Measures both policies, with the neighbouring turns indexed beside each turn and without.

    Args:
        first: How many conversations; None for all.
        path: The data; None looks for it.
        embedder: None for the default model.
    """
    path = path or find()
    if path is None:
        return Part("quality", ABSENT, [Figure("LoCoMo", unit="", note="skipped: no data")])
    conversations = load(path)[:first]
    figures: list[Figure] = []
    with TemporaryDirectory() as folder:
        remembering = CachingEmbedder(embedder or fastest(Path(folder)))
        for around in (True, False):
            store = Path(folder) / f"around-{around}"
            figures += _of_store(store, remembering, conversations, around=around)
    asked = sum(len(c.questions) for c in conversations)
    stored = sum(len(c.turns) for c in conversations)
    about = (
        f"LoCoMo ({path.name}): {len(conversations)} conversations in one store, {stored:,} turns, "
        f"{asked:,} questions. R@k: the share of a question's evidence turns among the first k of "
        "one recall with k = 10; no relevance floor, no LLM."
    )
    return Part("quality", about, figures)


def _of_store(
    store: Path,
    embedder: Embedder,
    conversations: Sequence[Conversation],
    *,
    around: bool,
) -> list[Figure]:
    figures: list[Figure] = []
    with Memory.open(store, embeddings=embedder, config=CONFIG) as memory:
        held = {c.id: _stored(memory, c, around=around) for c in conversations}
        for policy in ("similarity", "balanced"):
            answered = [
                _answered(memory, c, question, held[c.id], policy)
                for c in conversations
                for question in c.questions
            ]
            figures += _figures(answered, policy, around=around)
    return figures


def _stored(memory: Memory, conversation: Conversation, *, around: bool) -> dict[str, str]:
    """Writes a conversation; returns the record of each turn."""
    items = [
        {"content": turn.content, "around": turn.around if around else None}
        for turn in conversation.turns
    ]
    receipts = memory.write_many(items, context=_context(conversation))
    # A turn that repeats another word for word is attached to that one's record.
    return {
        turn.id: receipt.record_id
        for turn, receipt in zip(conversation.turns, receipts, strict=True)
        if receipt.record_id
    }


def _answered(
    memory: Memory,
    conversation: Conversation,
    question: Question,
    held: Mapping[str, str],
    policy: str,
) -> Answered:
    retrieval = memory.recall(
        question.text, context=_context(conversation), k=max(CUTS), policy=policy
    )
    ranked = [candidate.record_id for candidate in retrieval.candidates]
    return Answered(
        question,
        {cut: fmean(held.get(id_) in ranked[:cut] for id_ in question.evidence) for cut in CUTS},
    )


def _context(conversation: Conversation) -> MemoryContext:
    return MemoryContext(workspace_id=conversation.id, session_id="benchmark")


def _figures(answered: Sequence[Answered], policy: str, *, around: bool) -> list[Figure]:
    name = f"{policy}, {'with' if around else 'without'} around"
    figures = [
        Figure(
            f"{name}: R@{cut}",
            _mean(answered, cut),
            "",
            target=TARGETS.get((policy, around, cut)),
        )
        for cut in CUTS
    ]
    for category in CATEGORIES.values():
        of_it = [a for a in answered if a.question.category == category]
        if of_it and around:
            figures += [
                Figure(f"  {category} ({len(of_it)}): R@{cut}", _mean(of_it, cut), "")
                for cut in CUTS
            ]
    return figures


def _mean(answered: Iterable[Answered], cut: int) -> float:
    return fmean(a.recall[cut] for a in answered)
