"""A store of before confidence followed evidence, with data in it, brought up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from ledger_making import WORKSPACE, accept, batch, found, proposal, write
from sqlalchemy import Connection, MetaData, create_engine, insert, text

from memplugin.config import MemoryConfig
from memplugin.records import Evidence
from memplugin.storage import migrations
from memplugin.storage.ledger import SqlLedger
from memplugin.write.beliefs import weigher

NOW = datetime(2026, 3, 2, 9, 14, 11, tzinfo=UTC)
WEIGH = weigher(MemoryConfig())


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


def fill(connection: Connection) -> None:
    """Three beliefs as the first revision kept them, two with evidence that moved nothing."""
    tables = MetaData()
    tables.reflect(connection, only=["memory_records", "evidence", "workspaces"])

    def add(table: str, *rows: dict[str, Any]) -> None:
        connection.execute(insert(tables.tables[table]), list(rows))

    kept = {"workspace_id": WORKSPACE, "source_session": "s_1", "kind": "belief", "seq": 1}
    kept |= {"content_hash": "-", "polarity": "positive", "status": "active"}
    kept |= {"occurred_at": NOW, "created_at": NOW, "vector_covers_all": True}

    def record(id_: str, confidence: float, evidence_count: int, **fields: Any) -> dict[str, Any]:
        scope = fields.pop("scope", "{}")
        beta = {"alpha": confidence * 4.0, "beta": (1 - confidence) * 4.0}
        own = {"id": id_, "content": f"about {id_}", "scope": scope, "pinned": False}
        counts = {"evidence_count": evidence_count, "scope_size": 0 if scope == "{}" else 1}
        return {**kept, **own, **beta, **counts, "confidence": confidence, **fields}

    claim = {"claim": '{"vendor_id":"primex"}', "claim_fields": '["vendor_id"]'}
    add(
        "memory_records",
        record("m_told", 0.5, 3, scope='{"trade":"pest"}', **claim),
        record("m_pinned", 0.96, 1, pinned=True, claim=None, claim_fields=None),
        record("m_quiet", 0.81, 0, claim=None, claim_fields=None),
    )
    add("workspaces", {"workspace_id": WORKSPACE, "seq": 1})
    row = {"workspace_id": WORKSPACE, "task_id": "t_1", "session_id": "s_1", "trace_id": None}
    row |= {"span_id": None, "supports": True, "weight": 1.0, "salience": 0.5, "created_at": NOW}
    about = ["m_told", "m_pinned", "m_told", "m_told"]
    add(
        "evidence",
        *(
            {**row, "record_id": id_, "proposal_id": f"p_{n}", "note": None}
            for n, id_ in enumerate(about)
        ),
    )


@pytest.fixture
def upgraded(old_url: str) -> Iterator[SqlLedger]:
    assert SqlLedger.upgrade(old_url) == migrations.HEAD
    ledger = SqlLedger.open(old_url, create=False)
    yield ledger
    ledger.close()


def test_confidence_follows_the_evidence_that_was_kept_before(upgraded: SqlLedger) -> None:
    records = upgraded.records(WORKSPACE, ["m_told", "m_pinned", "m_quiet"])
    # (0.5 * 4 + 3 * 0.5) / (4 + 3 * 0.5); a pinned one and one without evidence stay
    assert records["m_told"].confidence == pytest.approx(3.5 / 5.5)
    assert (records["m_pinned"].confidence, records["m_quiet"].confidence) == (0.96, 0.81)
    assert [records[i].evidence_count for i in ("m_told", "m_pinned", "m_quiet")] == [3, 1, 0]


def test_what_an_upgrade_computes_is_what_the_next_observation_starts_from(
    upgraded: SqlLedger,
) -> None:
    before = upgraded.records(WORKSPACE, ["m_told"])["m_told"]
    nothing = Evidence(
        id="e_new",
        record_id="m_told",
        supports=True,
        weight=0.0,
        salience=0.5,
        scope={},
        at=NOW,
        session_id="s_2",
        task_id="t_2",
    )
    after = upgraded.observe(nothing, batch(), accept, WEIGH).record
    assert after.confidence == pytest.approx(before.confidence)
    assert after.evidence_count == 4


def test_old_evidence_keeps_its_order_and_gets_an_id_and_its_records_scope(
    upgraded: SqlLedger,
) -> None:
    told = upgraded.evidence(WORKSPACE, "m_told")
    assert [piece.proposal_id for piece in told] == ["p_0", "p_2", "p_3"]
    assert {(p.supports, p.weight, p.salience, p.at, p.task_id) for p in told} == {
        (True, 1.0, 0.5, NOW, "t_1")
    }
    assert [dict(piece.scope) for piece in told] == [{"trade": "pest"}] * 3
    everything = [*told, *upgraded.evidence(WORKSPACE, "m_pinned")]
    assert len({piece.id for piece in everything}) == 4


def test_a_pin_of_before_can_be_let_go(upgraded: SqlLedger) -> None:
    free = upgraded.set_pinned(WORKSPACE, "m_pinned", pinned=False, weigh=WEIGH)
    # (0.96 * 4 + 0.5) / 4.5
    assert free.confidence == pytest.approx(4.34 / 4.5)


def test_claims_of_before_are_found_and_new_records_can_be_written(upgraded: SqlLedger) -> None:
    from ledger_making import selection

    scopes = frozenset({"{}", '{"trade":"pest"}'})
    assert [r.id for r in upgraded.claims(selection(scopes=scopes), ["vendor_id"])] == ["m_told"]
    record = write(upgraded, "net of tax")
    upgraded.settle(batch(proposal("gross")), accept)
    assert found(upgraded, "tax") == [record.id]


def test_no_temporary_table_is_left_behind(old_url: str) -> None:
    SqlLedger.upgrade(old_url)
    with begun(old_url) as connection, pytest.raises(Exception, match="evidence_0001"):
        connection.execute(text("SELECT * FROM evidence_0001"))
