"""The chat models that a command can ask: the demo's script, a small local one, any other."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from langchain_core.language_models import BaseChatModel

from memplugin.cli.local_model import MODEL_NAME, local_chat_model
from memplugin.errors import ConfigError
from memplugin.stories import scripted

LOCAL = "local"
SCRIPTED = "scripted"

LOCAL_MAX_TOKENS = 400
LOCAL_MAX_REASONING = 160
"""Without a limit the local model reasons until its tokens are used up."""


@contextmanager
def chat_model(name: str) -> Generator[BaseChatModel]:
    """A model that decides.

    Args:
        name: ``scripted``, ``local``, ``PROVIDER:NAME``, or a name that tells its provider.

    Raises:
        ConfigError: there is no such model, or its provider's package or key is missing.
        LocalModelUnavailable: the packages of the local model are missing.
    """
    if name == SCRIPTED:
        yield scripted.decider()
    elif name == LOCAL:
        with local_chat_model(max_tokens=LOCAL_MAX_TOKENS) as model:
            yield model
    else:
        yield _initialised(name)


def like(recorded: str | None) -> str:
    """What to call the model whose name a decision has kept.

    Raises:
        ConfigError: the decision kept none.
    """
    if not recorded:
        raise ConfigError(
            "the decision does not say which model made it: give --model PROVIDER:NAME, local or "
            "scripted."
        )
    return LOCAL if MODEL_NAME in Path(recorded).name else recorded


def _initialised(name: str) -> BaseChatModel:
    try:
        from langchain.chat_models import init_chat_model  # noqa: PLC0415 -- the extra `langchain`
    except ImportError as error:
        raise ConfigError(f'the model {name} needs: pip install "memplugin[langchain]"') from error
    try:
        return init_chat_model(name)
    except Exception as error:  # whatever a provider raises when its key is missing
        raise ConfigError(
            f"the model {name} can't be made ({error}): give --model PROVIDER:NAME, with the "
            "provider's package installed and its key set, or local, or scripted."
        ) from error
