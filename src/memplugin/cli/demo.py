"""What the demo plays with: its models, its folder, its store."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from langchain_core.language_models import BaseChatModel
from opentelemetry.sdk.trace import TracerProvider

from memplugin.cli import output
from memplugin.cli.models import LOCAL, LOCAL_MAX_REASONING, SCRIPTED, chat_model
from memplugin.cli.options import AsJson
from memplugin.cli.store import Place, place_of
from memplugin.config import MemoryConfig
from memplugin.demo import models as scripted
from memplugin.demo.board_pack import OpenMemory
from memplugin.errors import ConfigError
from memplugin.memory.client import Memory
from memplugin.storage.embedding.embedder import make_embedder
from memplugin.testing.fakes import FixedClock

MARK = "made-by-memplugin-demo"


@contextmanager
def models(name: str) -> Generator[tuple[BaseChatModel, BaseChatModel, MemoryConfig]]:
    """The models that extract and decide, and the settings they need.

    Args:
        name: ``scripted``, ``local`` or ``PROVIDER:NAME``.

    Raises:
        ConfigError: it is none of these, or its provider's package is missing.
        LocalModelUnavailable: the packages of the local model are missing.
    """
    config = MemoryConfig.from_env()
    if name not in (SCRIPTED, LOCAL) and ":" not in name:
        raise ConfigError(f"--model is {name!r}: use scripted, local or PROVIDER:NAME.")
    with chat_model(name) as model:
        if name == SCRIPTED:
            yield scripted.extractor(), model, config
        elif name == LOCAL:
            # Too small to extract with: the script does that, and the model decides.
            small = replace(config, max_reasoning_chars=LOCAL_MAX_REASONING, cite_by_enum=True)
            yield scripted.extractor(), model, replace(small, decide_retries=0)
        else:
            yield model, model, config


def prepare(store: Path) -> None:
    """Empties the demo's folder, and only a folder that an earlier demo has made.

    Raises:
        ConfigError: the folder has something else in it.
    """
    if store.exists() and not _by_a_demo(store):
        raise ConfigError(
            f"{store} is not empty and no demo made it: name another folder with --store."
        )
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir(parents=True)
    (store / MARK).touch()


def _by_a_demo(store: Path) -> bool:
    """Whether an earlier demo made the folder, or all that is in it."""
    return (store / MARK).exists() or all((one / MARK).exists() for one in store.iterdir())


def opener(store: Path, provider: TracerProvider) -> OpenMemory:
    """Opens the demo's store again and again with one loaded embedding model."""
    embedder = make_embedder(cache_dir=store / "models")

    def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
        return Memory.open(
            store, embeddings=embedder, config=config, clock=clock, tracer_provider=provider
        )

    return open_memory


DEFAULT_STORE = "demo-store"

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
    """Play the stories: what failed, and how that can be told.

    The store of the board pack is --store, or ./demo-store, and that of the hardening run is
    in it; what an earlier demo left there is replaced. Exits with 1 when a scripted agent
    does not fail where its faults were planted, when credit does not fall as it should, or
    when traces tell another story than the ledger.
    """
    place = place_of(context)
    told: dict[str, Any] = {}
    as_told = True
    store = Path(place.store or DEFAULT_STORE)
    if story in ("board-pack", "all"):
        told["board_pack"] = acts = _play(place, store, model, as_json=as_json)
        as_told = model != "scripted" or all(act["as_planted"] for act in acts)
    if story == "wasp" or (story == "all" and model == "scripted"):
        told["wasp"], as_promised = _dispatch(place, store / "wasp", as_json=as_json)
        as_told = as_told and as_promised
    if story == "hardening" or (story == "all" and model == "scripted"):
        told["hardening"], as_promised = _harden(place, store / "hardening", as_json=as_json)
        as_told = as_told and as_promised
    if story == "escalation" or (story == "all" and model == "scripted"):
        told["escalation"], as_promised = _escalate(place, as_json=as_json)
        as_told = as_told and as_promised
    if as_json:
        output.print_json(told)
    if not as_told:
        output.warn("a story did not end as it is told: please report this with the output above.")
        raise typer.Exit(1)


def _dispatch(place: Place, store: Path, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    # As below.
    from memplugin.cli import demo_wasp  # noqa: PLC0415 -- see above

    ended = demo_wasp.played(place.spans, store)
    if not as_json:
        output.show(*demo_wasp.view(ended, store))
    return ended.to_json(), ended.as_told


def _harden(place: Place, store: Path, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    # As below.
    from memplugin.cli import demo_hardening  # noqa: PLC0415 -- see above

    ended = demo_hardening.played(place.spans, store)
    if not as_json:
        output.show(*demo_hardening.view(ended, store))
    return ended.to_json(), ended.as_told


def _escalate(place: Place, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    # As below.
    from memplugin.cli import demo_escalation  # noqa: PLC0415 -- see above

    ended = demo_escalation.played(place.spans)
    if not as_json:
        output.show(*demo_escalation.view(ended))
    return ended.to_json(), ended.as_promised


def _play(place: Place, store: Path, model: str, *, as_json: bool) -> list[dict[str, Any]]:
    # LangGraph, the models and the store: no other command waits for them.
    from memplugin.cli import demo_board_pack  # noqa: PLC0415 -- see above
    from memplugin.demo.board_pack import play  # noqa: PLC0415 -- see above
    from memplugin.testing.spans import SpanCapture  # noqa: PLC0415 -- see above

    capture = SpanCapture(place.spans.provider())
    acts: list[dict[str, Any]] = []
    with models(model) as (extractor, decider, config):
        prepare(store)
        open_memory = opener(store, capture.provider)
        tracer = capture.provider.get_tracer("memplugin.demo")
        for played in play(open_memory, extractor, decider, config, tracer):
            if not as_json:
                output.show(*demo_board_pack.act_view(played, capture.spans))
            capture.clear()
            acts.append(
                {
                    "act": played.act.number,
                    "as_planted": played.as_planted,
                    "record": played.record.to_json(),
                    "verdict": played.verdict.to_json(),
                }
            )
    if not as_json:
        output.show(*demo_board_pack.next_view(str(store), model))
    return acts
