"""``memplugin demo``: the models and the store that the stories run on, and each story's run."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memplugin.cli import output
from memplugin.cli.models import LOCAL, LOCAL_MAX_REASONING, SCRIPTED, chat_model
from memplugin.cli.options import AsJson, Place, place_of
from memplugin.config import MemoryConfig
from memplugin.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

    from memplugin.demo.board_pack import OpenMemory
    from memplugin.demo.escalation import Session
    from memplugin.memory.client import Memory
    from memplugin.memory.emit import Send
    from memplugin.testing.fakes import FixedClock
    from memplugin.testing.spans import SpanCapture

# LangGraph, the models and the store are imported where a story runs: no other command
# waits for them.
# ruff: noqa: PLC0415

DEFAULT_STORE = "demo-store"
MARK = "made-by-memplugin-demo"

Story = Literal["board-pack", "wasp", "hardening", "escalation", "all"]


def demo(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            help="Who decides: scripted (the same each time), local (a small real model), or "
            "PROVIDER:NAME (any chat model of LangChain)."
        ),
    ] = "scripted",
    story: Annotated[
        Story,
        typer.Option(
            help="The board pack fails at write, then at retrieval, then passes. The others are "
            "scripted: in the wasp work order, the right vendor is known and ranked fourth; in the "
            "hardening run, tips get credit for successes they had no part in; "
            "the production escalation has 2,000 tasks, one in fifty sampled, content hashed."
        ),
    ] = "all",
    as_json: AsJson = False,
) -> None:
    """Runs the stories: what failed, and how that can be seen.

    The store of the board pack is --store, or ./demo-store; those of the wasp work order and
    the hardening run are in it. What an earlier demo left there is replaced. Exits with 1 when
    a scripted agent does not fail where its faults were planted, when credit does not fall as
    it should, or when the traces lead to another verdict than the ledger.
    """
    place = place_of(context)
    store = Path(place.store or DEFAULT_STORE)
    results: dict[str, Any] = {}
    expected = True
    if story in ("board-pack", "all"):
        results["board_pack"] = acts = _board_pack(place, store, model, as_json=as_json)
        expected = model != SCRIPTED or all(act["as_planted"] for act in acts)
    for name, run in (("wasp", _wasp), ("hardening", _hardening), ("escalation", _escalation)):
        if story == name or (story == "all" and model == SCRIPTED):
            results[name], as_expected = run(place, store / name, as_json=as_json)
            expected = expected and as_expected
    if as_json:
        output.print_json(results)
    if not expected:
        output.warn("a story did not end as it is told: please report this with the output above.")
        raise typer.Exit(1)


# ---------------------------------------------------------------- the stories


def _board_pack(place: Place, store: Path, model: str, *, as_json: bool) -> list[dict[str, Any]]:
    from memplugin.cli import demo_view
    from memplugin.demo.board_pack import run_story
    from memplugin.testing.spans import SpanCapture

    capture = SpanCapture(place.spans.provider())
    acts: list[dict[str, Any]] = []
    with chosen_models(model) as (extractor, decider, config):
        open_memory = _new_store(store, capture.provider)
        tracer = capture.provider.get_tracer("memplugin.demo")
        for result in run_story(open_memory, extractor, decider, config, tracer):
            if not as_json:
                output.show(*demo_view.board_pack_act(result, capture.spans))
            capture.clear()
            acts.append(
                {
                    "act": result.act.number,
                    "as_planted": result.as_planted,
                    "record": result.record.to_json(),
                    "verdict": result.verdict.to_json(),
                }
            )
    if not as_json:
        output.show(*demo_view.board_pack_commands(str(store), model))
    return acts


def _wasp(place: Place, store: Path, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    from memplugin.cli import demo_view
    from memplugin.demo.wasp import run_story

    ended = run_story(_new_store(store, place.spans.provider()), MemoryConfig.from_env())
    if not as_json:
        output.show(*demo_view.wasp(ended, store))
    return ended.to_json(), ended.as_expected


def _hardening(place: Place, store: Path, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    from memplugin.cli import demo_view
    from memplugin.demo.hardening import run_story

    ended = run_story(_new_store(store, place.spans.provider()))
    if not as_json:
        output.show(*demo_view.hardening(ended, store))
    return ended.to_json(), ended.as_expected


def _escalation(place: Place, _store: Path, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    """Runs in memory; what is sampled goes to a collector too, when one is named."""
    from opentelemetry.sdk.trace import TracerProvider

    from memplugin.cli import demo_view
    from memplugin.demo import escalation
    from memplugin.telemetry.sampling import task_sampler
    from memplugin.testing.fakes import FixedClock
    from memplugin.testing.memory import memory_for_tests
    from memplugin.testing.spans import SpanCapture

    sampler = task_sampler(escalation.RATIO)
    capture = SpanCapture(place.spans.provider(sampler) or TracerProvider(sampler=sampler))
    clock = FixedClock(escalation.START)
    with (
        memory_for_tests(
            config=escalation.CONFIG, clock=clock, tracer_provider=capture.provider
        ) as memory,
        output.progress("five weeks") as bar,
    ):

        def with_bar(sessions: Iterable[Session]) -> Iterable[Session]:
            return bar.track(list(sessions))

        tracer = capture.provider.get_tracer("memplugin.demo")
        backend = escalation.TraceBackend(capture.read, _sender(capture, place))
        ended = escalation.run_story(memory, clock, tracer, backend, progress=with_bar)
    if not as_json:
        output.show(*demo_view.escalation(ended))
    return ended.to_json(), ended.as_expected


def _sender(capture: SpanCapture, place: Place) -> Send:
    if not place.spans.target:
        return capture.add
    exporter = place.spans.exporter()

    def send(batch: Sequence[ReadableSpan]) -> bool:
        exporter.export(batch)  # a collector that does not answer is said at the end
        return capture.add(batch)

    return send


# ---------------------------------------------------------------- models and stores


@contextmanager
def chosen_models(name: str) -> Generator[tuple[BaseChatModel, BaseChatModel, MemoryConfig]]:
    """The models that extract and decide in the board pack, and the settings they need.

    Args:
        name: ``scripted``, ``local`` or ``PROVIDER:NAME``.

    Raises:
        ConfigError: it is none of these, or its provider's package is missing.
        LocalModelUnavailable: the packages of the local model are missing.
    """
    from memplugin.demo.models import extractor

    config = MemoryConfig.from_env()
    if name not in (SCRIPTED, LOCAL) and ":" not in name:
        raise ConfigError(f"--model is {name!r}: use scripted, local or PROVIDER:NAME.")
    with chat_model(name) as model:
        if name == SCRIPTED:
            yield extractor(), model, config
        elif name == LOCAL:
            # Too small to extract with: the script does that, and the model decides.
            small = replace(config, max_reasoning_chars=LOCAL_MAX_REASONING, cite_by_enum=True)
            yield extractor(), model, replace(small, decide_retries=0)
        else:
            yield model, model, config


def _new_store(store: Path, provider: TracerProvider | None) -> OpenMemory:
    """Empties the folder, but only one that an earlier demo made, and opens a store in it."""
    if store.exists() and not _made_by_a_demo(store):
        raise ConfigError(
            f"{store} is not empty and no demo made it: name another folder with --store."
        )
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir(parents=True)
    (store / MARK).touch()
    return opener(store, provider)


def _made_by_a_demo(store: Path) -> bool:
    """Whether an earlier demo made the folder, or all that is in it."""
    return (store / MARK).exists() or all((one / MARK).exists() for one in store.iterdir())


def opener(store: Path, provider: TracerProvider | None) -> OpenMemory:
    """Opens the demo's store again and again with one loaded embedding model."""
    from opentelemetry.sdk.trace import TracerProvider

    from memplugin.memory.client import Memory
    from memplugin.storage.embedding.embedder import make_embedder

    embedder = make_embedder(cache_dir=store / "models")
    tracer_provider = provider or TracerProvider()

    def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
        return Memory.open(
            store, embeddings=embedder, config=config, clock=clock, tracer_provider=tracer_provider
        )

    return open_memory
