from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import settings
from sqlalchemy import create_engine, make_url

from memplugin.storage.embedding.embedder import SentenceTransformerEmbedder
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.sql.tables import metadata

# How long an example takes depends on the machine, and is measured in benchmarks/.
settings.register_profile("memplugin", deadline=None)
settings.load_profile("memplugin")


@pytest.fixture(autouse=True)
def no_given_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed does not depend on the terminal that the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL server that these tests have to themselves."""
    pgserver = pytest.importorskip(
        "pgserver", reason="pgserver is not installed: pip install 'memplugin[dev]'"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pgserver asks for a runtime directory it need not use
        # Not below pytest's folder: as root, the server runs as a user who can't read that.
        folder = tempfile.mkdtemp(prefix="memplugin-postgres-")
        server = pgserver.get_server(folder)
    url = server.get_uri().replace("postgresql://", "postgresql+psycopg://")
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        _run_sql(url, f"ALTER SYSTEM SET {setting} = off")  # it need not outlive a power cut
    _run_sql(url, "SELECT pg_reload_conf()")
    yield url
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def new_postgres_url(postgres_server: str) -> str:
    """An empty PostgreSQL database, which may be left in any state."""
    name = f"ledger_{uuid4().hex}"
    _run_sql(postgres_server, f"CREATE DATABASE {name}")
    return make_url(postgres_server).set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A PostgreSQL database with the ledger's tables and nothing in them."""
    SqlLedger.open(postgres_server).close()
    tables = ", ".join([*metadata.tables, "lexical"])
    yield postgres_server
    _run_sql(postgres_server, f"TRUNCATE {tables} RESTART IDENTITY")


def _run_sql(url: str, sql: str) -> None:
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(sql)
    engine.dispose()
