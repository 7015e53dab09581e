"""What the demo plays with: its models, its folder, its store."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from opentelemetry.sdk.trace import TracerProvider

from memplugin.cli.local_model import local_chat_model
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
    if name == "scripted":
        yield scripted.extractor(), scripted.decider(), config
    elif name == "local":
        # Too small to extract with: the script does that, and the model decides. Without
        # limits on the fields it talks until the token limit cuts it off.
        small = replace(config, max_reasoning_chars=160, cite_by_enum=True, decide_retries=0)
        with local_chat_model(max_tokens=400) as model:
            yield scripted.extractor(), model, small
    else:
        model = _named(name)
        yield model, model, config


def _named(name: str) -> BaseChatModel:
    if ":" not in name:
        raise ConfigError(f"--model is {name!r}: use scripted, local or PROVIDER:NAME.")
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 -- the extra `langchain`
    except ImportError as error:
        raise ConfigError(
            '--model PROVIDER:NAME needs: pip install "memplugin[langchain]"'
        ) from error
    try:
        return init_chat_model(name)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"--model {name}: {error}") from error


def prepare(store: Path) -> None:
    """Empties the demo's folder, and only a folder that an earlier demo has made.

    Raises:
        ConfigError: the folder has something else in it.
    """
    if store.exists() and any(store.iterdir()) and not (store / MARK).exists():
        raise ConfigError(
            f"{store} is not empty and no demo made it: name another folder with --store."
        )
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir(parents=True)
    (store / MARK).touch()


def opener(store: Path, provider: TracerProvider) -> OpenMemory:
    """Opens the demo's store again and again with one loaded embedding model."""
    embedder = make_embedder(cache_dir=store / "models")

    def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
        return Memory.open(
            store, embeddings=embedder, config=config, clock=clock, tracer_provider=provider
        )

    return open_memory
