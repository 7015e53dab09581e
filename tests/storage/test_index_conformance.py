"""What every ``VectorIndex`` does: the fake, Chroma in a folder, and a Chroma server."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import numpy as np
import pytest

from memplugin.errors import StoreError
from memplugin.ports import VectorIndex
from memplugin.storage.vector.chroma import ChromaIndex
from memplugin.testing import InMemoryIndex

DIMENSION = 8
AXES = np.eye(DIMENSION, dtype=np.float32)


@pytest.fixture(params=["memory", "embedded", "server"])
def index(request, tmp_path) -> Iterator[VectorIndex]:
    if request.param == "memory":
        opened: VectorIndex = InMemoryIndex()
    elif request.param == "embedded":
        opened = ChromaIndex.open(tmp_path / "vectors", dimension=DIMENSION, store_id="st")
    else:
        opened = ChromaIndex.open(
            request.getfixturevalue("chroma_server"), dimension=DIMENSION, store_id="st"
        )
    yield opened
    opened.clear()
    opened.close()


@pytest.fixture
def workspace() -> str:
    return f"ws {uuid4()} with any text: ü/..\n"


def unit(n: int, seed: int = 0) -> np.ndarray:
    rows = np.random.default_rng(seed).standard_normal((n, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_vector_comes_back_as_it_was_stored(index, workspace):
    index.upsert(workspace, ["m_1", "m_1.around"], unit(2))
    found = index.fetch(workspace, ["m_1", "m_1.around"])
    np.testing.assert_allclose(found["m_1"], unit(2)[0], atol=1e-6)
    np.testing.assert_allclose(found["m_1.around"], unit(2)[1], atol=1e-6)
    assert found["m_1"].dtype == np.float32


def test_unknown_keys_are_absent_and_no_error(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])
    assert set(index.fetch(workspace, ["m_1", "m_2"])) == {"m_1"}
    index.delete(workspace, ["m_2"])
    assert set(index.fetch(workspace, ["m_1"])) == {"m_1"}


def test_nothing_asked_is_nothing_done(index, workspace):
    index.upsert(workspace, [], np.empty((0, DIMENSION), np.float32))
    index.delete(workspace, [])
    assert index.fetch(workspace, []) == {}


def test_storing_under_a_key_again_replaces_the_vector(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])
    index.upsert(workspace, ["m_1"], AXES[1:2])
    np.testing.assert_allclose(index.fetch(workspace, ["m_1"])["m_1"], AXES[1], atol=1e-6)


def test_the_last_vector_of_a_key_that_is_given_twice_is_kept(index, workspace):
    index.upsert(workspace, ["m_1", "m_1"], AXES[:2])
    np.testing.assert_allclose(index.fetch(workspace, ["m_1", "m_1"])["m_1"], AXES[1], atol=1e-6)


def test_a_deleted_vector_is_gone(index, workspace):
    index.upsert(workspace, ["m_1", "m_2"], AXES[:2])
    index.delete(workspace, ["m_1"])
    assert set(index.fetch(workspace, ["m_1", "m_2"])) == {"m_2"}


def test_many_more_keys_than_one_request_allows_are_stored_and_fetched(index, workspace):
    keys = [f"m_{i}" for i in range(6_000)]
    vectors = unit(6_000)
    index.upsert(workspace, keys, vectors)
    found = index.fetch(workspace, keys)
    np.testing.assert_allclose(np.stack([found[key] for key in keys]), vectors, atol=1e-6)
    index.delete(workspace, keys)
    assert index.fetch(workspace, keys) == {}


def test_vectors_that_do_not_match_the_keys_are_refused(index, workspace):
    with pytest.raises(StoreError):
        index.upsert(workspace, ["m_1", "m_2"], AXES[:1])


def test_a_promoted_workspace_is_searched_best_first_by_cosine(index, workspace):
    leaning = np.asarray([[0.6, 0.8, 0, 0, 0, 0, 0, 0]], np.float32)
    index.upsert(workspace, ["m_1", "m_2", "m_3"], np.concatenate([AXES[:2], leaning]))
    index.promote(workspace, lambda: ["m_1", "m_2", "m_3"])
    found = index.nearest(workspace, AXES[0], 3)
    assert [key for key, _ in found] == ["m_1", "m_3", "m_2"]
    np.testing.assert_allclose([cosine for _, cosine in found], [1.0, 0.6, 0.0], atol=1e-5)


def test_fewer_neighbours_than_asked_for_are_all_there_are(index, workspace):
    index.upsert(workspace, ["m_1", "m_2"], AXES[:2])
    index.promote(workspace, lambda: ["m_1", "m_2"])
    assert len(index.nearest(workspace, AXES[0], 50)) == 2


def test_a_workspace_is_promoted_only_after_it_was(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])
    assert not index.promoted(workspace)
    with pytest.raises(StoreError, match="promote"):
        index.nearest(workspace, AXES[0], 1)
    index.promote(workspace, lambda: ["m_1"])
    assert index.promoted(workspace)
    assert not index.promoted("another workspace")


def test_promoting_twice_is_promoting_once(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])
    index.promote(workspace, lambda: ["m_1"])
    index.promote(workspace, lambda: ["m_1"])
    assert [key for key, _ in index.nearest(workspace, AXES[0], 5)] == ["m_1"]


def test_keys_without_a_vector_do_not_stop_a_promotion(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])
    index.promote(workspace, lambda: ["m_1", "m_1", "m_on_its_way"])
    assert [key for key, _ in index.nearest(workspace, AXES[0], 5)] == ["m_1"]


def test_what_is_written_and_deleted_after_a_promotion_is_searched_too(index, workspace):
    index.upsert(workspace, ["m_1", "m_2"], AXES[:2])
    index.promote(workspace, lambda: ["m_1", "m_2"])
    index.upsert(workspace, ["m_3"], AXES[2:3])
    index.delete(workspace, ["m_1"])
    assert {key for key, _ in index.nearest(workspace, AXES[2], 5)} == {"m_2", "m_3"}
    assert set(index.fetch(workspace, ["m_1", "m_2", "m_3"])) == {"m_2", "m_3"}


def test_what_is_written_while_the_keys_are_listed_is_in_the_new_index(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])

    def keys() -> list[str]:
        index.upsert(workspace, ["m_late"], AXES[1:2])
        return ["m_1"]

    index.promote(workspace, keys)
    assert {key for key, _ in index.nearest(workspace, AXES[1], 5)} == {"m_1", "m_late"}


def test_another_workspaces_vectors_are_not_among_the_neighbours(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])
    index.upsert("another workspace", ["m_2"], AXES[:1])
    index.promote(workspace, lambda: ["m_1"])
    assert [key for key, _ in index.nearest(workspace, AXES[0], 5)] == ["m_1"]


def test_a_cleared_index_holds_nothing_and_can_be_filled_again(index, workspace):
    index.upsert(workspace, ["m_1"], AXES[:1])
    index.promote(workspace, lambda: ["m_1"])
    index.clear()
    assert index.fetch(workspace, ["m_1"]) == {}
    assert not index.promoted(workspace)
    index.upsert(workspace, ["m_1"], AXES[1:2])
    np.testing.assert_allclose(index.fetch(workspace, ["m_1"])["m_1"], AXES[1], atol=1e-6)


def test_threads_that_write_and_read_at_once_lose_nothing(index, workspace):
    vectors = unit(80)

    def write(start: int) -> None:
        for i in range(start, start + 20):
            index.upsert(workspace, [f"m_{i}"], vectors[i : i + 1])
            assert f"m_{i}" in index.fetch(workspace, [f"m_{i}"])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(0, 80, 20)))
    found = index.fetch(workspace, [f"m_{i}" for i in range(80)])
    np.testing.assert_allclose([found[f"m_{i}"] for i in range(80)], vectors, atol=1e-6)
