from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from memplugin.storage.embedder import SentenceTransformerEmbedder


@pytest.fixture(scope="session")
def minilm() -> SentenceTransformerEmbedder:
    """The default model, loaded once for all tests."""
    return SentenceTransformerEmbedder()


@pytest.fixture(scope="session")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Chroma server that these tests have to themselves."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folder = tmp_path_factory.mktemp("chroma-server")
    program = Path(sys.executable).with_name("chroma")
    address = ["--host", "127.0.0.1", "--port", port]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            [program, "run", "--path", folder, *address], stdout=log, stderr=log, cwd=folder
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/v2/heartbeat", server)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(10)


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        assert server.poll() is None, "the server ended by itself"
        assert time.monotonic() < deadline, f"{url} does not answer"
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.05)
