"""One recall, beside the least that any memory with the same model has to do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider
from opentelemetry.trace import TracerProvider as AnyProvider

from benchmarks import corpus, peers
from benchmarks.embedders import CachingEmbedder, onnx_installed
from benchmarks.results import Figure, Part, Target
from benchmarks.timing import Timings, in_turns, seconds_of
from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.ports import Embedder, Vectors
from memplugin.storage.embedding.embedder import make_embedder

FLOOR = "sentence-transformers: embed the query"
SCAN = "… and an exact scan (NumPy)"
OWN_FLOOR = "memplugin's embedder alone"
RECALL = "memplugin: recall, ledger rows, sampled span"
RECALL_FEW = "memplugin: the same, k = 3 (the default)"
ONNX_FLOOR = "ONNX Runtime: embed the query"
ONNX_RECALL = "memplugin, onnx=True: the same recall"
LANGMEM = "langmem search tool"
NO_TRACER, SAMPLED, UNSAMPLED, DEAD = "no tracer", "sampled", "not sampled", "dead collector"

NOWHERE = "http://127.0.0.1:9/v1/traces"
"""Where no collector listens."""


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    workspaces: int = 10
    records: int = 5_000
    questions: int = 120
    k: int = 20


@dataclass(frozen=True)
class Bench:
    """What the parts of this benchmark share."""

    sizes: Sizes
    folder: Path
    embedder: Embedder
    records: Mapping[str, Sequence[str]]
    questions: Sequence[str]

    def asked(self, turn: int) -> tuple[str, str]:
        """Workspace and question of a round, another question each time."""
        names = list(self.records)
        return names[turn % len(names)], self.questions[turn % len(self.questions)]


def run(sizes: Sizes = Sizes(), *, embedder: Embedder | None = None) -> list[Part]:
    """Fills a store and times recalls on it, in turns with floors and peers.

    Args:
        sizes: How much.
        embedder: None for the default model with sentence-transformers.
    """
    with TemporaryDirectory() as folder, _quiet_exporters():
        bench = Bench(
            sizes, Path(folder), embedder or make_embedder(), _records(sizes), _questions(sizes)
        )
        storing, vectors = _storing(bench)
        recall = _recall(bench, vectors, onnx=onnx_installed() and embedder is None)
        return [recall, _tracing(bench, recall.value(RECALL) / 1e3), storing]


def _records(sizes: Sizes) -> dict[str, list[str]]:
    texts = corpus.memories(sizes.records, seed=1)
    return {f"workspace-{n}": texts[n :: sizes.workspaces] for n in range(sizes.workspaces)}


def _questions(sizes: Sizes) -> list[str]:
    # Each is asked once: a cache of queries would be no help to a real agent.
    return list(dict.fromkeys(corpus.questions(4 * sizes.questions, seed=2)))


# ---------------------------------------------------------------- storing


def _storing(bench: Bench) -> tuple[Part, dict[str, Vectors]]:
    """Fills the store, timing each workspace in turns with the embedding of its texts."""
    seconds: dict[str, list[float]] = {"floor": [], "stored": []}
    vectors: dict[str, Vectors] = {}
    with _opened(bench, NoOpTracerProvider()) as memory:
        bench.embedder.embed(corpus.memories(64, seed=3))
        memory.write_many(corpus.memories(64, seed=3), context=_context("warm-up"))
        for place, (name, texts) in enumerate(bench.records.items()):

            def embed(name: str = name, texts: Sequence[str] = texts) -> None:
                vectors[name] = bench.embedder.embed(texts)

            def write(name: str = name, texts: Sequence[str] = texts) -> None:
                memory.write_many(texts, context=_context(name))

            both = (("floor", embed), ("stored", write))
            for what, call in both if place % 2 else reversed(both):
                seconds[what].append(seconds_of(call))
    taken = Timings(seconds)
    a_workspace = bench.sizes.records / bench.sizes.workspaces
    figures = [
        Figure("embed the texts", a_workspace / taken.p50("floor"), "/s"),
        Figure(
            "write_many: gate, ledger, full text, vectors",
            a_workspace / taken.p50("stored"),
            "/s",
            taken.ratio("floor", "stored"),
            "embed the texts",
            Target(0.85, "higher"),
        ),
    ]
    about = f"{bench.sizes.records:,} records, {a_workspace:,.0f} at a time, median."
    return Part("speed: storing in bulk", about, figures), vectors


# ---------------------------------------------------------------- recall


def _recall(bench: Bench, vectors: Mapping[str, Vectors], *, onnx: bool) -> Part:
    with TracedProvider(exporting=True) as traced, _opened(bench, traced) as memory:
        contenders = _floors(bench, vectors)
        contenders[RECALL] = _asking(bench, memory, bench.sizes.k)
        contenders[RECALL_FEW] = _asking(bench, memory, 3)
        filling = CachingEmbedder(bench.embedder, _by_text(bench, vectors))
        found = peers.peers(bench.records, bench.embedder, filling, bench.folder, bench.sizes.k)
        for name, search in found.items():
            contenders[name] = lambda turn, search=search: search(*bench.asked(turn))
        if not onnx:
            return _recall_part(bench, contenders)
        with _opened(bench, traced, onnx=True) as faster:
            model = faster.backend.embedder
            contenders[ONNX_FLOOR] = lambda turn: model.embed([bench.asked(turn)[1]])
            contenders[ONNX_RECALL] = _asking(bench, faster, bench.sizes.k)
            return _recall_part(bench, contenders)


def _by_text(bench: Bench, vectors: Mapping[str, Vectors]) -> dict[str, Vectors]:
    return {
        text: vector
        for name, texts in bench.records.items()
        for text, vector in zip(texts, vectors[name], strict=True)
    }


def _floors(bench: Bench, vectors: Mapping[str, Vectors]) -> dict[str, Callable[[int], object]]:
    encode = _encode(bench.embedder)

    def scan(turn: int) -> object:
        workspace, question = bench.asked(turn)
        cosines = vectors[workspace] @ encode(question)
        return np.argsort(-cosines)[: bench.sizes.k]

    return {
        FLOOR: lambda turn: encode(bench.asked(turn)[1]),
        SCAN: scan,
        OWN_FLOOR: lambda turn: bench.embedder.embed([bench.asked(turn)[1]]),
    }


def _encode(embedder: Embedder) -> Callable[[str], Any]:
    """How anyone embeds with sentence-transformers."""
    model: Any = getattr(embedder, "model", None)
    if model is None:
        return lambda text: embedder.embed([text])[0]
    return lambda text: model.encode(text, normalize_embeddings=True, show_progress_bar=False)


def _asking(bench: Bench, memory: Memory, k: int) -> Callable[[int], object]:
    def ask(turn: int) -> object:
        workspace, question = bench.asked(turn)
        return memory.recall(question, context=_context(workspace), k=k)

    return ask


def _recall_part(bench: Bench, contenders: Mapping[str, Callable[[int], object]]) -> Part:
    # Every workspace is asked once before: its vectors are read from the index then.
    taken = in_turns(contenders, bench.sizes.questions, warm_up=bench.sizes.workspaces)
    figures = [_compared(taken, name) for name in contenders]
    if ONNX_RECALL in contenders and LANGMEM in contenders:
        ratio = taken.ratio(ONNX_RECALL, LANGMEM)
        milliseconds = taken.p50(ONNX_RECALL) * 1e3
        figures.append(Figure(ONNX_RECALL, milliseconds, "ms", ratio, LANGMEM, Target(0.35)))
    figures += [Figure(name, unit="", note="not installed") for name in peers.missing()]
    about = (
        f"{bench.sizes.records:,} records in {bench.sizes.workspaces} workspaces, one question "
        f"at a time, k = {bench.sizes.k}, median of {bench.sizes.questions} rounds. Ratios: "
        "median over the rounds, each against the same round."
    )
    return Part("speed: one recall", about, figures)


def _compared(taken: Timings, name: str) -> Figure:
    milliseconds = taken.p50(name) * 1e3
    if name in (FLOOR, ONNX_FLOOR):
        return Figure(name, milliseconds)
    floor = ONNX_FLOOR if name == ONNX_RECALL else FLOOR
    target = Target(1.25) if name in (RECALL, RECALL_FEW) else None
    return Figure(name, milliseconds, "ms", taken.ratio(name, floor), floor, target)


# ---------------------------------------------------------------- tracing


def _tracing(bench: Bench, recall_seconds: float) -> Part:
    """What spans cost, with the query's vector at hand: the model's noise would hide it."""
    remembering = CachingEmbedder(bench.embedder)
    remembering.embed(bench.questions)
    with (
        TracedProvider(exporting=True) as sampled,
        TracedProvider(exporting=True, sampled=False) as unsampled,
        TracedProvider(exporting=False) as dead,
        _opened(bench, NoOpTracerProvider(), embedder=remembering) as none,
        _opened(bench, sampled, embedder=remembering) as with_span,
        _opened(bench, unsampled, embedder=remembering) as without_span,
        _opened(bench, dead, embedder=remembering) as with_dead,
    ):
        memories = {NO_TRACER: none, SAMPLED: with_span, UNSAMPLED: without_span, DEAD: with_dead}
        contenders = {name: _asking(bench, one, bench.sizes.k) for name, one in memories.items()}
        taken = in_turns(contenders, 3 * bench.sizes.questions, warm_up=bench.sizes.workspaces)
    figures = [Figure(f"{NO_TRACER}, without embedding", taken.p50(NO_TRACER) * 1e3)]
    for name, limit in ((UNSAMPLED, 0.01), (SAMPLED, 0.05), (DEAD, 0.05)):
        more = taken.difference(name, NO_TRACER)
        share = more / recall_seconds
        figures.append(Figure(f"{name} adds", more * 1e3, "ms", share, "one recall", Target(limit)))
    about = "The same recall with four tracer providers, the question's vector given."
    return Part("speed: tracing", about, figures)


class TracedProvider(TracerProvider):
    """A provider as a host sets it up, with a batch processor; shut down when left.

    Args:
        exporting: Spans go to an exporter that drops them, else to a collector that is down.
    """

    def __init__(self, *, exporting: bool, sampled: bool = True) -> None:
        super().__init__(**({} if sampled else {"sampler": ALWAYS_OFF}))
        exporter = _Dropping() if exporting else OTLPSpanExporter(NOWHERE, timeout=1)
        self.add_span_processor(BatchSpanProcessor(exporter))

    def __enter__(self) -> TracedProvider:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


class _Dropping(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


@contextmanager
def _quiet_exporters() -> Iterator[None]:
    """A dead collector is what is measured: nobody needs to read of it."""
    log = logging.getLogger("opentelemetry")
    before, log.disabled = log.level, False
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


# ---------------------------------------------------------------- shared


@contextmanager
def _opened(
    bench: Bench,
    provider: AnyProvider,
    *,
    onnx: bool = False,
    embedder: Embedder | None = None,
) -> Iterator[Memory]:
    with Memory.open(
        bench.folder / "store",
        embeddings=None if onnx else embedder or bench.embedder,
        onnx=onnx,
        config=MemoryConfig(),
        tracer_provider=provider,
    ) as memory:
        yield memory


def _context(workspace: str) -> MemoryContext:
    return MemoryContext(workspace_id=workspace, session_id="benchmark")
