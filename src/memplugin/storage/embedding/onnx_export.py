"""The one-time export of a sentence-transformers model to ONNX. Imports torch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplugin.errors import EmbedderError
from memplugin.storage.embedding.onnx_runtime import open_runtime
from memplugin.storage.embedding.sentence import SentenceTransformerEmbedder

TOLERANCE = 1e-5
"""Largest difference from torch, in any number of a vector, that an export may show."""

_SUPPORTED = (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"])
_CHECKED = [
    "",
    "Postgres",
    "  Two lines,\n and Ünïcödé with 漢字 and an emoji 🙂.  ",
    "They would rather not be called before ten. " * 4,
    "A text that is longer than what the model reads. " * 60,
]


class MeanPooled(torch.nn.Module):
    """Encoder, mean of its token vectors, length 1: what the graph computes."""

    def __init__(self, encoder: torch.nn.Module, inputs: Sequence[str]) -> None:
        super().__init__()
        self.encoder = encoder
        self.inputs = inputs

    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """Takes the tensors that ``inputs`` names; returns shape (n, dimension)."""
        named = dict(zip(self.inputs, tensors, strict=True))
        tokens: torch.Tensor = self.encoder(**named).last_hidden_state
        mask = named["attention_mask"].unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1e-9)
        return torch.nn.functional.normalize(mean, p=2, dim=1)


def export(source: SentenceTransformerEmbedder, graph: Path, tokenizer: Path) -> None:
    """Writes a model's graph and tokenizer, once they are proven equal to the model.

    The graph is moved into place last and at once: where it exists, both are whole.

    Args:
        source: The model.
        graph: The file for the graph.
        tokenizer: The file for the tokenizer, with its limits.

    Raises:
        EmbedderError: the model does not pool by the mean, or the export differs from it.
        ImportError: a package of the extra ``onnx`` is missing.
    """
    _refuse_other_kinds(source)
    graph.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=graph.parent, prefix="export-") as folder:
        new_graph, new_tokenizer = Path(folder, graph.name), Path(folder, tokenizer.name)
        _write_graph(source.model, new_graph)
        # As it is after a text: it cuts at the model's limit and pads to the longest.
        source.model.tokenizer.backend_tokenizer.save(str(new_tokenizer))
        _refuse_difference(source, new_graph, new_tokenizer)
        new_tokenizer.replace(tokenizer)
        new_graph.replace(graph)


def _refuse_other_kinds(source: SentenceTransformerEmbedder) -> None:
    kinds = [type(module).__name__ for module in source.model]
    pooling = source.model[1].pooling_mode if kinds[1:2] == ["Pooling"] else None
    if kinds not in _SUPPORTED or pooling != "mean":
        raise EmbedderError(
            f"{source.name} is made of {', '.join(kinds)} (pooling: {pooling}), and only encoders "
            "with mean pooling can run through ONNX. Use it with onnx=False."
        )


def _write_graph(model: Any, path: Path) -> None:
    # Two lengths, so that neither length nor padding is taken for a constant.
    features: dict[str, Any] = model.preprocess(["one", "a longer text, so the first is padded"])
    names = [name for name, value in features.items() if isinstance(value, torch.Tensor)]
    axes = {name: {0: "texts", 1: "pieces"} for name in names} | {"vectors": {0: "texts"}}
    exporter: Any = torch.onnx  # the function's type is partly unknown to a strict checker
    # The older exporter, since the newer one needs onnxscript too. It warns of what the
    # comparison with torch then shows to be harmless.
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exporter.export(
            MeanPooled(model[0].auto_model, names).eval(),
            tuple(features[name] for name in names),
            str(path),
            input_names=names,
            output_names=["vectors"],
            dynamic_axes=axes,
            dynamo=False,
        )


def _refuse_difference(source: SentenceTransformerEmbedder, graph: Path, tokenizer: Path) -> None:
    runtime = open_runtime(graph, tokenizer)
    alone = np.concatenate([runtime.vectors([text]) for text in _CHECKED])
    together = runtime.vectors(_CHECKED)
    expected = source.embed(_CHECKED)
    difference = max(_largest(alone - expected), _largest(together - expected))
    if not difference <= TOLERANCE:  # NaN is refused too
        raise EmbedderError(
            f"{source.name} through ONNX differs from torch by {difference:.1e}, more than "
            f"{TOLERANCE:.0e}. Use it with onnx=False."
        )


def _largest(differences: NDArray[np.float32]) -> float:
    return float(np.abs(differences).max())
