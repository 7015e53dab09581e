from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memplugin.storage.sql.ledger import SqlLedger

CONFORMANCE = {
    "test_ledger_concurrency",
    "test_ledger_forget",
    "test_ledger_opening",
    "test_ledger_reading",
    "test_ledger_settle",
}
"""Modules whose tests run on every kind of store. SQLite in memory and in a file are one
dialect, so the others run on one of the two, and on PostgreSQL."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "ledger_url" in metafunc.fixturenames:
        file = ["file"] if metafunc.module.__name__ in CONFORMANCE else []
        metafunc.parametrize("ledger_url", ["memory", *file, "postgresql"], indirect=True)


@pytest.fixture
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of store that a ledger runs on."""
    if request.param == "memory":
        return "sqlite://"
    return _shared(request, tmp_path)


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[SqlLedger]:
    """An empty ledger: what runs on it runs on every kind of store."""
    opened = SqlLedger.open(ledger_url)
    yield opened
    opened.close()


@pytest.fixture(params=["file", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Stores that several connections can share."""
    return _shared(request, tmp_path)


@pytest.fixture(params=["file", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that nobody has opened yet."""
    return _shared(request, tmp_path, new=True)


def _shared(request: pytest.FixtureRequest, tmp_path: Path, *, new: bool = False) -> str:
    if request.param == "file":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return request.getfixturevalue("new_postgres_url" if new else "postgres_url")
