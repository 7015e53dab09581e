"""What only the Chroma index has to get right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import chromadb
import numpy as np
import pytest
from chromadb.config import Settings

from memplugin.errors import StoreError
from memplugin.storage.vector import chroma
from memplugin.storage.vector.chroma import ChromaIndex
from memplugin.text import digest

AXES = np.eye(8, dtype=np.float32)


@pytest.fixture
def index(tmp_path) -> Iterator[ChromaIndex]:
    opened = ChromaIndex.open(tmp_path, dimension=8, store_id="st")
    yield opened
    opened.close()


def raw_client(path):
    return chromadb.PersistentClient(str(path), settings=Settings(anonymized_telemetry=False))


def test_importing_the_module_does_not_import_chromadb():
    code = "import sys, memplugin.storage.vector.chroma; print('chromadb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_vectors_outlive_the_process_that_wrote_them(tmp_path):
    first = ChromaIndex.open(tmp_path, dimension=8, store_id="st")
    first.upsert("ws", ["m_1"], AXES[:1])
    first.promote("ws", lambda: ["m_1"])
    first.close()
    second = ChromaIndex.open(tmp_path, dimension=8, store_id="st")
    assert set(second.fetch("ws", ["m_1"])) == {"m_1"}
    assert second.promoted("ws")
    second.close()


def test_an_index_of_another_dimension_is_refused_until_it_is_cleared(tmp_path):
    first = ChromaIndex.open(tmp_path, dimension=8, store_id="st")
    first.upsert("ws", ["m_1"], AXES[:1])
    first.close()
    second = ChromaIndex.open(tmp_path, dimension=4, store_id="st")
    with pytest.raises(StoreError, match=r"8 dimensions.*memplugin reindex"):
        second.fetch("ws", ["m_1"])
    second.clear()
    second.upsert("ws", ["m_1"], AXES[:1, :4])
    assert set(second.fetch("ws", ["m_1"])) == {"m_1"}
    second.close()


def test_an_index_that_compares_otherwise_than_by_cosine_is_refused(tmp_path, index):
    raw_client(tmp_path).create_collection(
        f"{chroma.PREFIX}{digest('st', length=12)}-vectors",
        metadata={"dimension": 8},
        embedding_function=None,
    )  # Chroma's default: squared L2
    with pytest.raises(StoreError, match=r"compared by l2.*memplugin reindex"):
        index.upsert("ws", ["m_1"], AXES[:1])


def test_a_vector_of_another_length_is_refused_with_what_to_do(index):
    with pytest.raises(StoreError, match="memplugin reindex"):
        index.upsert("ws", ["m_1"], AXES[:1, :4])


def test_no_collection_is_named_after_a_users_text(tmp_path, index):
    index.upsert("acme & söhne", ["m_1"], AXES[:1])
    index.promote("acme & söhne", lambda: ["m_1"])
    names = [c.name for c in raw_client(tmp_path).list_collections()]
    assert len(names) == 2
    assert not any("acme" in name for name in names)


def test_clearing_leaves_other_peoples_collections_alone(tmp_path, index):
    client = raw_client(tmp_path)
    client.create_collection("somebody-elses", embedding_function=None)
    for i in range(3):
        index.upsert(f"ws{i}", [f"m_{i}"], AXES[:1])
        index.promote(f"ws{i}", lambda i=i: [f"m_{i}"])
    index.clear()
    assert [c.name for c in client.list_collections()] == ["somebody-elses"]


def test_a_build_that_was_interrupted_starts_again(index):
    index.upsert("ws", ["m_1", "m_2"], AXES[:2])

    def interrupted() -> list[str]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.promote("ws", interrupted)
    assert not index.promoted("ws")
    index.promote("ws", lambda: ["m_1", "m_2"])
    assert index.promoted("ws")
    assert len(index.nearest("ws", AXES[0], 5)) == 2


def test_an_index_with_more_removals_than_it_had_rows_is_built_anew(index):
    index.upsert("ws", ["m_1", "m_2"], AXES[:2])
    index.promote("ws", lambda: ["m_1", "m_2"])
    index.delete("ws", ["m_1", "m_2"])
    assert index.promoted("ws")
    index.upsert("ws", ["m_3"], AXES[2:3])
    index.delete("ws", ["m_4"])
    assert not index.promoted("ws")
    index.promote("ws", lambda: ["m_3"])
    assert index.promoted("ws")
    assert [key for key, _ in index.nearest("ws", AXES[2], 5)] == ["m_3"]


def test_an_index_that_was_cleared_by_another_process_is_made_again(chroma_server):
    ours = ChromaIndex.open(chroma_server, dimension=8, store_id="st")
    theirs = ChromaIndex.open(chroma_server, dimension=8, store_id="st")
    ours.upsert("ws", ["m_1"], AXES[:1])
    theirs.clear()
    assert ours.fetch("ws", ["m_1"]) == {}
    ours.upsert("ws", ["m_1"], AXES[:1])
    assert set(theirs.fetch("ws", ["m_1"])) == {"m_1"}
    theirs.clear()
    ours.close()
    theirs.close()


def test_a_server_that_does_not_answer_is_not_waited_for_without_end(chroma_server, monkeypatch):
    monkeypatch.setattr(chroma, "PATIENCE", 1e-6)
    index = ChromaIndex.open(chroma_server, dimension=8, store_id="st")
    with pytest.raises(StoreError, match="Timeout"):
        index.fetch("ws", ["m_1"])
    index.close()


def test_a_folder_that_is_a_file_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "vectors").write_text("not a folder")
    with pytest.raises(StoreError, match="memplugin reindex"):
        ChromaIndex.open(tmp_path / "vectors", dimension=8, store_id="st")


def test_a_damaged_database_is_an_error_that_says_what_to_do(tmp_path):
    (tmp_path / "chroma.sqlite3").write_bytes(b"not a database" * 1000)
    with pytest.raises(StoreError, match="memplugin reindex"):
        ChromaIndex.open(tmp_path, dimension=8, store_id="st")


def test_a_server_that_is_not_there_is_an_error_that_says_what_to_do():
    with pytest.raises(StoreError, match="server runs"):
        ChromaIndex.open("http://127.0.0.1:9", dimension=8, store_id="st")


@pytest.mark.parametrize("url", ["http://", "http://host:8000/a/path", "http://me:secret@host"])
def test_only_host_and_port_name_a_server(url):
    with pytest.raises(StoreError, match="host:port"):
        ChromaIndex.open(url, dimension=8, store_id="st")


def test_an_index_that_was_closed_raises_our_own_error(tmp_path):
    index = ChromaIndex.open(tmp_path, dimension=8, store_id="st")
    index.close()
    index.close()
    with pytest.raises(StoreError):
        index.fetch("ws", ["m_1"])


def test_two_stores_on_one_server_do_not_touch_each_others_vectors(chroma_server: str) -> None:
    one = ChromaIndex.open(chroma_server, dimension=2, store_id="st_one")
    other = ChromaIndex.open(chroma_server, dimension=3, store_id="st_other")
    one.upsert("w", ["m_1"], np.array([[1.0, 0.0]], np.float32))
    other.upsert("w", ["m_1"], np.array([[0.0, 1.0, 0.0]], np.float32))
    one.clear()
    assert one.fetch("w", ["m_1"]) == {}
    assert other.fetch("w", ["m_1"])["m_1"].tolist() == [0.0, 1.0, 0.0]
    one.close()
    other.clear()
    other.close()
