from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memplugin.storage.sql.ledger import SqlLedger

STORES = ("memory", "file", "postgresql")


@pytest.fixture(params=STORES)
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Each kind of store that a ledger runs on."""
    if request.param == "memory":
        return "sqlite://"
    if request.param == "file":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[SqlLedger]:
    """An empty ledger: what runs on it runs on every kind of store."""
    opened = SqlLedger.open(ledger_url)
    yield opened
    opened.close()


@pytest.fixture(params=STORES[1:])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Stores that several connections can share."""
    if request.param == "file":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    return request.getfixturevalue("postgres_url")
