"""How a recall grows with its workspace and with the others, and what the index forgets.

Vectors are made up (``embedders.MadeUp``), so what is timed is everything but the model:
embedding the question would only make the ratios look better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from benchmarks import corpus
from benchmarks.embedders import MadeUp
from benchmarks.results import Figure, Part, Target
from benchmarks.timing import Timings, in_turns, seconds_of
from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.ports import Batch
from memplugin.records import Known, Proposal, Ruling, Selection, WriteRequest
from memplugin.write.gate import rule
from memplugin.write.proposal import direct_proposal

OURS = "ours"
"""The workspace that is asked."""

ALL = Selection(OURS, frozenset({"{}"}))
CHUNK = 1_000
NEVER = 1_000_000_000
"""As an ``exact_limit``: every search is exact."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    small: int = 1_000
    large: int = 100_000
    others: int = 1_000
    records_each: int = 50
    questions: int = 100
    churned: int = 5_000
    k: int = 20


QUICK = Sizes(large=25_000, others=200, records_each=20, questions=40, churned=1_000)


def run(sizes: Sizes = Sizes()) -> list[Part]:
    """Measures growth beside the workspace and in it, and the recall of the index."""
    embedder = MadeUp()
    parts: list[Part] = []
    for part in (_crowd, _growth, _churn):
        with TemporaryDirectory() as folder:
            parts.append(part(sizes, embedder, Path(folder)))
    return parts


# ---------------------------------------------------------------- what is measured


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
        asking = {alone: _asking(quiet, sizes), among: _asking(crowded, sizes)}
        taken = in_turns(asking, sizes.questions)
    about = (
        f"One recall in a workspace of {sizes.small:,} records, k = {sizes.k}, without embedding; "
        f"the others hold {sizes.records_each} records each."
    )
    figures = [_timed(taken, alone), _timed(taken, among, alone, Target(1.1))]
    return Part("scale: other workspaces", about, figures)


def _growth(sizes: Sizes, embedder: MadeUp, folder: Path) -> Part:
    few, many = f"{sizes.small:,} records", f"{sizes.large:,} records"
    with (
        _opened(folder / "small", embedder) as small,
        _opened(folder / "large", embedder, exact_limit=sizes.small) as large,
        _opened(folder / "large", embedder, exact_limit=NEVER) as exact,
    ):
        _fill(small, OURS, corpus.memories(sizes.small, seed=1))
        texts = corpus.memories(sizes.large, seed=1)
        stored = seconds_of(lambda: _fill(large, OURS, texts))
        built = seconds_of(lambda: large.backend.search.promote(OURS))
        asking = {
            few: _asking(small, sizes),
            many: _asking(large, sizes),
            f"{many}, without an index": _asking(exact, sizes),
        }
        taken = in_turns(asking, sizes.questions)
        found = _found(large, exact, sizes)
    figures = [
        _timed(taken, few),
        _timed(taken, many, few, Target(1.5)),
        _timed(taken, f"{many}, without an index", few),
        _recall_of_index(found),
        Figure("stored, without the near-duplicate check", sizes.large / stored, "/s"),
        Figure("put into the index", sizes.large / built, "/s"),
    ]
    about = f"One recall, k = {sizes.k}, without embedding, median of {sizes.questions} rounds."
    return Part("scale: records in the workspace", about, figures)


def _churn(sizes: Sizes, embedder: MadeUp, folder: Path) -> Part:
    """Retires half of the records and writes as many, twice."""
    texts = corpus.memories(2 * sizes.churned, seed=3)
    half = sizes.churned // 2
    with (
        _opened(folder, embedder, exact_limit=1) as indexed,
        _opened(folder, embedder, exact_limit=NEVER) as exact,
    ):
        ids = _fill(indexed, OURS, texts[: sizes.churned])
        indexed.backend.search.promote(OURS)
        before = _found(indexed, exact, sizes)
        for start in (0, half):
            _retire(indexed, ids[start : start + half])
            _fill(indexed, OURS, texts[sizes.churned + start : sizes.churned + start + half])
        after = _found(indexed, exact, sizes)
    about = f"A workspace of {sizes.churned:,} records with an index, every record replaced once."
    figures = [
        _recall_of_index(before, "recall@20 of the index, before"),
        _recall_of_index(after, "recall@20 of the index, after"),
    ]
    return Part("scale: the index after churn", about, figures)


def _timed(taken: Timings, name: str, to: str = "", target: Target | None = None) -> Figure:
    ratio = taken.ratio(name, to) if to else None
    return Figure(name, taken.p50(name) * 1e3, "ms", ratio, to, target)


def _recall_of_index(found: float, name: str = "recall@20 of the index") -> Figure:
    return Figure(name, found, "", target=Target(0.99, "higher"))


def _found(indexed: Memory, exact: Memory, sizes: Sizes) -> float:
    """The share of the exact search's first 20 that the index finds too."""
    vectors = indexed.backend.embedder.embed(corpus.questions(sizes.questions, seed=4))
    shares: list[float] = []
    for vector in vectors:
        hits, true = (
            {h.record_id for h in memory.backend.search.search(ALL, vector, depth=20).hits[:20]}
            for memory in (indexed, exact)
        )
        shares.append(len(hits & true) / len(true))
    return fmean(shares)


def _asking(memory: Memory, sizes: Sizes) -> Callable[[int], object]:
    questions = corpus.questions(sizes.questions, seed=5)

    def ask(turn: int) -> object:
        question = questions[turn % len(questions)]
        return memory.recall(question, context=_context(OURS), k=sizes.k)

    return ask


# ---------------------------------------------------------------- stores


def _opened(folder: Path, embedder: MadeUp, *, exact_limit: int = 20_000) -> Memory:
    config = MemoryConfig(exact_limit=exact_limit, floor=-1.0)
    return Memory.open(folder, embeddings=embedder, config=config)


def _fill(memory: Memory, workspace: str, texts: Sequence[str]) -> list[str]:
    """Stores texts as ``write_many`` does, but for comparing each with all others.

    That takes a product of all vectors with all vectors, which is not what is measured.
    """
    store, context = memory.backend, _context(workspace)
    ids: list[str] = []

    def gate(proposal: Proposal, known: Known) -> Ruling:
        return rule(proposal, known, store.config, store.checks)

    for start in range(0, len(texts), CHUNK):
        now = store.clock.now()
        chunk = texts[start : start + CHUNK]
        requests = map(WriteRequest, chunk)
        proposals = [direct_proposal(one, context=context, now=now) for one in requests]
        receipts = store.ledger.writes.settle(Batch(context, proposals, now), gate).receipts
        stored = [receipt.record_id or "" for receipt in receipts]
        store.index.upsert(workspace, stored, store.embedder.embed(chunk))
        store.ledger.records.mark_indexed(workspace, stored, now)
        ids += stored
    return ids


def _retire(memory: Memory, record_ids: Sequence[str]) -> None:
    store = memory.backend
    for record_id in record_ids:
        store.ledger.records.set_status(OURS, record_id, "evicted", store.clock.now())
    store.index.delete(OURS, record_ids)


def _context(workspace: str) -> MemoryContext:
    return MemoryContext(workspace_id=workspace, session_id="benchmark")
