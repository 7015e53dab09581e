"""Matches written memories with gold facts: one to one, the surest matches first.

By normalised text, then by embedding, then by asking a model about what is still open. A
memory never matches a fact that it contradicts: one of the two is negated, claims another
value, or is limited to another scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

import numpy as np
from langchain_core.language_models import BaseChatModel
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from memplugin.config import USER_KEY
from memplugin.errors import ConfigError
from memplugin.evaluation.grading import grade_with_model
from memplugin.ports import Embedder
from memplugin.records import Claim, Scope
from memplugin.text import canonical_json, normalised
from memplugin.write.negation import negative

MatchMethod = Literal["text", "embedding", "judge"]
METHODS: tuple[MatchMethod, ...] = ("text", "embedding", "judge")

CLOSE = 0.75
"""Cosine from which two sentences are taken to say the same (all-MiniLM-L6-v2)."""

_ASKED_FROM = 0.4
"""Cosine from which the model is asked; below it two sentences are about different things."""

_PROMPT = """\
You compare a fact with a note that was taken of it. Say whether the note keeps what the fact
says: somebody who only has the note knows the fact. A note that is vaguer, that leaves out
who, when or under which condition, or that says the opposite, does not. Reason first, in
one sentence.
"""


class SameFact(BaseModel):
    """Whether a note keeps a fact."""

    reasoning: str = Field(description="What the fact says that the note says or does not")
    same: bool = Field(description="Whether the note keeps the fact")


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence to be matched, with its claim and scope."""

    content: str
    claim: Claim | None = None
    scope: Scope = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Match:
    """A gold fact and the memory that says it, by their places."""

    gold: int
    written: int
    by: MatchMethod


@dataclass(frozen=True, slots=True)
class Matcher:
    """Compares gold facts with what was written.

    Attributes:
        close: Cosine from which two texts match.
        judge: Asked about pairs that are neither equal nor close.
    """

    embedder: Embedder
    close: float = CLOSE
    judge: BaseChatModel | None = None

    def match(self, gold: Sequence[Statement], written: Sequence[Statement]) -> list[Match]:
        """Matches, each gold fact and each memory at most once.

        Raises:
            ConfigError: SciPy is not installed.
            EmbedderError: the embedder gave no vector.
            JudgeFailed: the judge gave no usable reply.
        """
        if not (gold and written):
            return []
        found: list[Match] = []
        cosines = self._cosines(gold, written)
        steps: list[tuple[MatchMethod, Callable[[int, int], float]]] = [
            ("text", lambda g, w: float(_equal(gold[g], written[w]))),
            ("embedding", lambda g, w: cosines[g, w] if cosines[g, w] >= self.close else 0.0),
        ]
        if self.judge is not None:
            steps.append(("judge", self._judged(gold, written, cosines)))
        for by, score in steps:
            found += self._step(by, score, gold, written, found)
        return sorted(found, key=lambda match: match.gold)

    def _step(
        self,
        by: MatchMethod,
        score: Callable[[int, int], float],
        gold: Sequence[Statement],
        written: Sequence[Statement],
        found: Sequence[Match],
    ) -> list[Match]:
        """The best assignment of what is left; pairs with a score of 0 are no matches."""
        left = [g for g in range(len(gold)) if g not in {m.gold for m in found}]
        open_ = [w for w in range(len(written)) if w not in {m.written for m in found}]
        if not (left and open_):
            return []
        scores = np.array(
            [
                [0.0 if _contradict(gold[g], written[w]) else score(g, w) for w in open_]
                for g in left
            ]
        )
        rows, columns = _assigned(scores)
        return [
            Match(left[row], open_[column], by)
            for row, column in zip(rows, columns, strict=True)
            if scores[row, column] > 0
        ]

    def _cosines(
        self, gold: Sequence[Statement], written: Sequence[Statement]
    ) -> NDArray[np.float32]:
        texts = [statement.content for statement in (*gold, *written)]
        vectors = self.embedder.embed(texts)
        return vectors[: len(gold)] @ vectors[len(gold) :].T

    def _judged(
        self, gold: Sequence[Statement], written: Sequence[Statement], cosines: NDArray[np.float32]
    ) -> Callable[[int, int], float]:
        judge = self.judge

        def score(g: int, w: int) -> float:
            if judge is None or cosines[g, w] < _ASKED_FROM:
                return 0.0
            shown = {"fact": gold[g].content, "note": written[w].content}
            return float(grade_with_model(judge, SameFact, _PROMPT, shown).same)

        return score


def _equal(gold: Statement, written: Statement) -> bool:
    return _folded(gold.content) == _folded(written.content)


def _folded(text: str) -> str:
    return normalised(text).strip(" .!")


def _contradict(gold: Statement, written: Statement) -> bool:
    if negative(gold.content) != negative(written.content) or not _same_scope(gold, written):
        return True
    mine, other = dict(gold.claim or {}), dict(written.claim or {})
    return any(_value(mine, name) != _value(other, name) for name in mine.keys() & other.keys())


def _same_scope(gold: Statement, written: Statement) -> bool:
    """The user does not count: the context names the user, not the extractor."""
    mine, other = ({k: v for k, v in s.scope.items() if k != USER_KEY} for s in (gold, written))
    return mine == other


def _value(claim: Mapping[str, Any], name: str) -> str:
    return normalised(canonical_json(claim[name]))


def _assigned(scores: NDArray[np.float64]) -> tuple[Sequence[int], Sequence[int]]:
    try:
        optimize: Any = import_module("scipy.optimize")  # half a second, and only suites need it
    except ImportError as error:
        raise ConfigError('matching needs SciPy: pip install "memplugin[lab]".') from error
    rows, columns = optimize.linear_sum_assignment(scores, maximize=True)
    return [int(row) for row in rows], [int(column) for column in columns]
