"""Loads and runs an exported model with ``tokenizers`` and ONNX Runtime, without torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from memplugin.storage.embedding.sentence import without_limit

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_MAX_THREADS = 4


@dataclass(frozen=True, slots=True)
class Runtime:
    """A loaded export, safe in threads.

    Attributes:
        session: An ``onnxruntime.InferenceSession``.
        inputs: Names of the tensors that the graph takes.
        tokenizer: Cuts at the limit and pads to the longest of a batch.
        counter: Does neither.
        limit: Word pieces that the model reads; None for any number.
    """

    session: Any
    inputs: Sequence[str]
    tokenizer: Tokenizer
    counter: Tokenizer
    limit: int | None

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Runs one batch; returns shape (n, dimension)."""
        encodings = self.tokenizer.encode_batch(list(texts))
        columns = {
            "input_ids": [encoding.ids for encoding in encodings],
            "attention_mask": [encoding.attention_mask for encoding in encodings],
            "token_type_ids": [encoding.type_ids for encoding in encodings],
        }
        feed = {name: np.asarray(columns[name], np.int64) for name in self.inputs}
        return self.session.run(None, feed)[0]


def open_runtime(graph: Path, tokenizer_file: Path) -> Runtime:
    """Loads what ``onnx_export`` wrote.

    Raises:
        ImportError: a package of the extra ``onnx`` is missing.
    """
    # Packages of an extra, and a tenth of a second that only who embeds should wait for.
    from tokenizers import Tokenizer  # noqa: PLC0415

    session = _session(graph)
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    return Runtime(
        session=session,
        inputs=[node.name for node in session.get_inputs()],
        tokenizer=tokenizer,
        counter=without_limit(tokenizer),
        limit=_limit(tokenizer),
    )


def _limit(tokenizer: Any) -> int | None:
    return tokenizer.truncation["max_length"] if tokenizer.truncation else None


def _session(graph: Path) -> Any:
    onnxruntime: Any = import_module("onnxruntime")  # it has no types
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = min(_MAX_THREADS, os.cpu_count() or 1)
    # Threads that spin between two operators gain 0.6 ms a query on an idle machine, and
    # lose 4 ms when something else wants the same cores.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3  # errors
    return onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
