"""How a recall grows with its workspace and with the others, and what the index forgets.

Vectors are made up (``embedders.MadeUp``), so what is timed is everything but the model:
a ratio that embedding would only make look better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks import corpus
from benchmarks.embedders import MadeUp
from benchmarks.results import Figure, Part, Target
from benchmarks.timing import in_turns, seconds_of
from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.ports import Batch, Known, Selection, Vectors
from memplugin.records import Proposal, Ruling
from memplugin.write.direct import direct_proposal
from memplugin.write.gate import rule

OURS = "ours"
"""The workspace that is asked."""

CHUNK = 1_000
ANYWHERE = frozenset({"{}"})
"""The scope of records that apply to every request."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    small: int = 1_000
    large: int = 100_000
    others: int = 1_000
    records_each: int = 50
    questions: int = 100
    churned: int = 20_000
    k: int = 20


QUICK = Sizes(large=25_000, others=200, records_each=20, questions=40, churned=5_000)


def run(sizes: Sizes = Sizes()) -> list[Part]:  # noqa: B008 -- frozen
    """Measures growth within a workspace and beside it, and the recall of the index."""
    embedder = MadeUp()
    with TemporaryDirectory() as folder:
        return [
            _crowd(sizes, embedder, Path(folder)),
            *_growth(sizes, embedder, Path(folder)),
        ]


# ---------------------------------------------------------------- time


def _crowd(sizes: Sizes, embedder: MadeUp, folder: Path) -> Part:
    alone, among = "no other workspace", f"{sizes.others:,} other workspaces"
    with (
        _opened(folder / "alone", embedder) as quiet,
        _opened(folder / "among", embedder) as crowded,
    ):
        for memory in (quiet, crowded):
            _fill(memory, OURS, corpus.memories(sizes.small, seed=1))
        texts = corpus.memories(sizes.others * sizes.records_each, seed=2)
        for number in range(sizes.others):
            _fill(crowded, f"other-{number}", texts[number :: sizes.others])
        taken = in_turns(
            {alone: _asking(quiet, sizes), among: _asking(crowded, sizes)}, sizes.questions
        )
    figures = [
        Figure(alone, taken.p50(alone) * 1e3),
        Figure(among, taken.p50(among) * 1e3, "ms", taken.ratio(among, alone), alone, Target(1.1)),
    ]
    about = (
        f"One recall in a workspace of {sizes.small:,} records, k = {sizes.k}, without embedding; "
        f"the others hold {sizes.records_each} records each."
    )
    return Part("scale: other workspaces", about, figures)


def _growth(sizes: Sizes, embedder: MadeUp, folder: Path) -> list[Part]:
    names = (f"{sizes.small:,} records", f"{sizes.large:,} records, exact", _name(sizes))
    with (
        _opened(folder / "small", embedder) as small,
        _opened(folder / "large", embedder) as large,
        _opened(folder / "exact", embedder, exact_limit=sizes.large) as exact,
    ):
        _fill(small, OURS, corpus.memories(sizes.small, seed=1))
        stored = seconds_of(lambda: _fill(large, OURS, corpus.memories(sizes.large, seed=1)))
        built = seconds_of(lambda: large.store.search.promote(OURS))
        del exact
        contenders = {names[0]: _asking(small, sizes), names[2]: _asking(large, sizes)}
        taken = in_turns(contenders, sizes.questions)
        ratio = taken.ratio(names[2], names[0])
        figures = [
            Figure(names[0], taken.p50(names[0]) * 1e3),
            Figure(names[2], taken.p50(names[2]) * 1e3, "ms", ratio, names[0], Target(1.5)),
            Figure("storing them, without the near-duplicate check", sizes.large / stored, "/s"),
            Figure("building the index", sizes.large / built, "/s"),
        ]
        about = f"One recall, k = {sizes.k}, without embedding, median of {sizes.questions} rounds."
        return [
            Part("scale: records in the workspace", about, figures),
            _index(sizes, embedder, large),
        ]
