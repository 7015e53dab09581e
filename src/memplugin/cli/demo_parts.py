"""What the demo plays with: its models, its folder, its store."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from opentelemetry.sdk.trace import TracerProvider

from memplugin.cli.models import LOCAL, LOCAL_MAX_REASONING, SCRIPTED, chat_model
from memplugin.config import MemoryConfig
from memplugin.errors import ConfigError
from memplugin.memory.front import Memory
from memplugin.storage.embedder import make_embedder
from memplugin.stories import scripted
from memplugin.stories.play import OpenMemory
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
