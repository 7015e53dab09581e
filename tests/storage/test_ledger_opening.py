from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from ledger_making import WORKSPACE, connection_of, found, write
from sqlalchemy import Connection, create_engine, inspect, make_url, text

from memplugin.errors import ConfigError, StoreError, StoreVersionError
from memplugin.storage import migrations
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.sql.tables import metadata


def run(url: str, *statements: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def test_what_is_written_is_there_when_the_store_is_opened_again(new_url: str) -> None:
    ledger = SqlLedger.open(new_url)
    record = write(ledger, "net of tax")
    ledger.close()
    again = SqlLedger.open(new_url, create=False)
    assert again.records.get_many(WORKSPACE, [record.id]) == {record.id: record}
    assert found(again, "taxes") == [record.id]
    again.close()


def test_the_key_of_content_hashes_stays_with_the_store(new_url: str) -> None:
    ledger = SqlLedger.open(new_url)
    key = ledger.facts.setdefault("hash_key", "other")
    assert len(bytes.fromhex(key)) == 32
    write(ledger, "net of tax")
    ledger.close()
    again = SqlLedger.open(new_url)
    write(again, "Net of tax", id="p_2")
    assert again.search.state(WORKSPACE).active == 1
    again.close()


def test_the_migrations_make_the_tables_that_the_code_describes(new_url: str) -> None:
    ledger = SqlLedger.open(new_url)
    with connection_of(ledger) as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "compare_type": True,
                "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables,
            },
        )
        assert compare_metadata(context, metadata) == []
    ledger.close()


def spelled(connection: Connection) -> dict[str, list[str]]:
    """How SQLite was told to make each table and index, the full-text index left out.

    In parts, sorted: the order in which columns and constraints are named says nothing.
    """
    made = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"
    outside_brackets = re.compile(r",(?![^(]*\))")

    def parts(sql: str) -> list[str]:
        before, _, inside = " ".join(sql.split()).partition("(")
        return [before, *sorted(part.strip(" )") for part in outside_brackets.split(inside))]

    return {
        row.name: parts(row.sql)
        for row in connection.execute(text(made))
        if not row.name.startswith(("lexical", migrations.VERSION_TABLE, "sqlite_"))
    }


def test_the_migrations_make_what_create_all_makes(tmp_path: Path) -> None:
    described = create_engine(f"sqlite:///{tmp_path / 'described.db'}")
    metadata.create_all(described)
    migrated = SqlLedger.open(f"sqlite:///{tmp_path / 'migrated.db'}")
    with described.connect() as one, connection_of(migrated) as other:
        assert spelled(one) == spelled(other)
    described.dispose()
    migrated.close()


def test_the_list_of_revisions_is_what_the_folder_holds() -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    scripts = ScriptDirectory.from_config(config)
    walked = [script.revision for script in scripts.walk_revisions()]
    assert tuple(reversed(walked)) == migrations.REVISIONS
    assert scripts.get_current_head() == migrations.HEAD


def test_an_older_store_asks_for_an_upgrade(new_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    SqlLedger.open(new_url).close()
    monkeypatch.setattr(migrations, "REVISIONS", (*migrations.REVISIONS, "9998"))
    monkeypatch.setattr(migrations, "HEAD", "9998")
    with pytest.raises(StoreVersionError, match="run `memplugin db upgrade`"):
        SqlLedger.open(new_url)


def test_a_newer_store_asks_for_a_newer_release(new_url: str) -> None:
    SqlLedger.open(new_url).close()
    run(new_url, "UPDATE memplugin_version SET version_num = '9999'")
    for touch in (SqlLedger.open, SqlLedger.upgrade):
        with pytest.raises(StoreVersionError, match=r"9999.*upgrade memplugin"):
            touch(new_url)


def test_upgrading_makes_a_store_and_leaves_a_current_one_alone(new_url: str) -> None:
    assert SqlLedger.upgrade(new_url) == migrations.HEAD
    ledger = SqlLedger.open(new_url, create=False)
    write(ledger, "net of tax")
    ledger.close()
    assert SqlLedger.upgrade(new_url) == migrations.HEAD
    again = SqlLedger.open(new_url)
    assert again.search.state(WORKSPACE).active == 1
    again.close()


def test_a_database_that_others_use_keeps_their_tables(new_url: str) -> None:
    run(new_url, "CREATE TABLE alembic_version (version_num TEXT)", "CREATE TABLE theirs (x INT)")
    ledger = SqlLedger.open(new_url)
    with connection_of(ledger) as connection:
        assert {"theirs", "alembic_version"} < set(inspect(connection).get_table_names())
    ledger.close()


def test_a_store_that_is_not_there_is_not_made_unless_asked_for(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "ledger.db"
    with pytest.raises(StoreError, match="There is no store"):
        SqlLedger.open(f"sqlite:///{missing}", create=False)
    assert not missing.parent.exists()
    SqlLedger.open(f"sqlite:///{missing}").close()
    assert missing.exists()


def test_an_empty_database_is_no_store_unless_asked_for(new_postgres_url: str) -> None:
    with pytest.raises(StoreError, match="holds no ledger"):
        SqlLedger.open(new_postgres_url, create=False)


@pytest.mark.parametrize("url", ["mysql://x", "no url", "sqlite+aiosqlite:///x", ""])
def test_other_databases_are_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="use sqlite:///path or postgresql"):
        SqlLedger.open(url)


def test_a_file_that_is_no_database_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("this is a diary, not a database, and long enough to be read as one" * 20)
    with pytest.raises(StoreError, match="file is not a database"):
        SqlLedger.open(f"sqlite:///{path}")


def test_a_server_that_does_not_answer_is_an_error_of_ours() -> None:
    with pytest.raises(StoreError, match="can be reached"):
        SqlLedger.open("postgresql+psycopg://nobody@127.0.0.1:9/none?connect_timeout=2")


def test_a_writer_that_waits_too_long_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memplugin.storage.sql.engine.BUSY_TIMEOUT_MS", 50)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger, other = SqlLedger.open(url), SqlLedger.open(url)
    with other._database.writing(), pytest.raises(StoreError, match="use PostgreSQL"):
        write(ledger, "net of tax")
    write(ledger, "net of tax")
    for each in (ledger, other):
        each.close()


def test_errors_never_quote_what_was_stored(ledger: SqlLedger) -> None:
    write(ledger, "my secret", id="p_1")
    with pytest.raises(StoreError) as caught:
        write(ledger, "my secret", workspace="ws_other", id="p_1")
    assert "my secret" not in str(caught.value)
    assert "my secret" not in str(caught.value.__cause__)


def test_sqlite_is_set_up_for_several_readers_and_real_constraints(tmp_path: Path) -> None:
    ledger = SqlLedger.open(f"sqlite:///{tmp_path / 'ledger.db'}")
    with connection_of(ledger) as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "foreign_keys": 1,
        "synchronous": 1,
        "busy_timeout": 10_000,
    }
    ledger.close()


def test_record_numbers_are_never_used_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = SqlLedger.open(url)
    write(ledger, "one")
    run(url, "DELETE FROM memory_records", "DELETE FROM lexical")
    write(ledger, "two")
    with connection_of(ledger) as connection:
        assert connection.execute(text("SELECT number FROM memory_records")).scalar_one() == 2
    ledger.close()


def test_a_store_that_is_up_to_date_opens_without_alembic(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    SqlLedger.open(url).close()
    code = (
        "import sys; from memplugin.storage.sql.ledger import SqlLedger;"
        f"SqlLedger.open({url!r}).close(); assert 'alembic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_plain_postgresql_url_means_psycopg(new_postgres_url: str) -> None:
    plain = make_url(new_postgres_url).set(drivername="postgresql")
    SqlLedger.open(plain.render_as_string(hide_password=False)).close()
