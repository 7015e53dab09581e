"""A store of before there was credit, with data in it, brought up to date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, MetaData, create_engine, insert

from memplugin.learn_config import CreditWeights
from memplugin.records import CreditTotals, Outcome
from memplugin.storage import migrations
from memplugin.storage.ledger import SqlLedger

NOW = datetime(2026, 3, 2, 9, 14, 11, tzinfo=UTC)
HOP = {"workspace_id": "ws", "session_id": "s_1", "arm": "memory_on", "created_at": NOW}
SAID_NOTHING = CreditTotals(**dict.fromkeys(CreditTotals.__dataclass_fields__, 0))


@pytest.fixture(params=["file", "postgresql"])
def old_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of the first revision."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("new_postgres_url")
    with begun(url) as connection:
        config = Config()
        config.set_main_option("script_location", str(Path(migrations.__file__).parent))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        fill(connection)
    return url


@contextmanager
def begun(url: str) -> Iterator[Connection]:
    engine = create_engine(url)
    with engine.begin() as connection:
        yield connection
    engine.dispose()


def outcome(**fields: Any) -> Outcome:
    values: dict[str, Any] = {
        "id": "a_3",
        "workspace_id": "ws",
        "task_id": "t",
        "session_id": "s_1",
    }
    values |= {"attempt": 3, "succeeded": True, "value": 0.8, "confidence": 1.0, "action": "did"}
    values |= {"failure_mode": None, "arm": "memory_on", "created_at": NOW}
    return Outcome(**{**values, **fields})


def fill(connection: Connection) -> None:
    """Attempts 1 to 3 of a task, the first reported with a pass; a and b shown in some."""
    tables = MetaData()
    tables.reflect(connection, only=["retrievals", "injections", "attempts"])

    def add(table: str, rows: Sequence[dict[str, Any]]) -> None:
        connection.execute(insert(tables.tables[table]), rows)

    blank = {"query": "q", "filters": "{}", "policy": "balanced@1", "candidates": "[]"}
    blank |= {"degraded": "[]", "text": ""}
    counts = {"k": 3, "total": 2, "shown": 1, "pending_index": 0, "stale_dropped": 0}
    seen = [("r_1", 1, "a"), ("r_2", 1, "a"), ("r_2", 1, "b"), ("r_3", 2, "a"), ("r_4", 3, "b")]
    attempts = {retrieval: attempt for retrieval, attempt, _ in seen}
    add(
        "retrievals",
        [
            {**HOP, **blank, **counts, "task_id": "t", "id": i, "attempt": n}
            for i, n in attempts.items()
        ],
    )
    row = {**HOP, "task_id": "t", "rank": 1, "score": 0.5}
    add(
        "injections",
        [{**row, "retrieval_id": i, "attempt": n, "record_id": record} for i, n, record in seen],
    )
    values = [(1, True, 1.0, 0.5), (2, False, 0.0, 1.0)]  # the third was never reported
    add(
        "attempts",
        [
            {**HOP, "task_id": "t", "id": f"a_{n}", "attempt": n, "succeeded": passed}
            | {"value": value, "confidence": confidence, "action": "did it"}
            for n, passed, value, confidence in values
        ],
    )


def test_rows_of_before_have_no_scores_and_count_as_the_neutral_weight(old_url: str) -> None:
    assert SqlLedger.upgrade(old_url) == migrations.HEAD
    ledger = SqlLedger.open(old_url, create=False)
    assert ledger.credit_totals("ws", CreditWeights()) == {
        # a: attempt 1 (shown twice, one chance) 1.0 * 0.5 * 0.5, attempt 2: 0
        "a": replace(SAID_NOTHING, attempts=2, successes=1, outcome=0.5, credited=0.25),
        # b: attempt 1; attempt 3 was not reported
        "b": replace(SAID_NOTHING, attempts=1, successes=1, outcome=0.5, credited=0.25),
    }
    ledger.close()


def test_every_score_of_before_is_null(old_url: str) -> None:
    SqlLedger.upgrade(old_url)
    with begun(old_url) as connection:
        tables = MetaData()
        tables.reflect(connection, only=["injections"])
        kept = connection.execute(tables.tables["injections"].select()).mappings().all()
    assert {name: row[name] for row in kept for name in row if name.startswith("follow")} == {
        "followed_llm": None,
        "followed_cosine": None,
        "follow_reasoning": None,
        "follow_error": None,
    }
    assert [row["scored_at"] for row in kept] == [None] * 5


def test_outcomes_reported_after_the_upgrade_change_the_sums_of_before(old_url: str) -> None:
    SqlLedger.upgrade(old_url)
    ledger = SqlLedger.open(old_url, create=False)
    ledger.save_outcome(outcome(), None)
    ledger.save_outcome(outcome(id="a_1", attempt=1, succeeded=False, value=-0.2), None)
    sums = ledger.credit_totals("ws", CreditWeights())
    # attempt 1 is now worth -0.2, attempt 2 is worth 0 and attempt 3 (of b) 0.8; half each
    assert {name: (t.attempts, t.successes, t.credited) for name, t in sums.items()} == {
        "a": (2, 0, -0.1),
        "b": (2, 1, 0.3),
    }
    ledger.close()
