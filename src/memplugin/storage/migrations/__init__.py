"""The ledger's tables, revision by revision, run by Alembic.

``REVISIONS`` repeats what is in ``versions/``, oldest first, so that a store that is up to
date opens without importing Alembic.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, Table, Text, inspect, select

from memplugin.errors import StoreVersionError

REVISIONS = ("0001",)
HEAD = REVISIONS[-1]

VERSION_TABLE = "memplugin_version"
"""Not Alembic's default: a database may be shared with an application's own migrations."""

_version = Table(VERSION_TABLE, MetaData(), Column("version_num", Text))


def revision(connection: Connection) -> str | None:
    """The revision of a store; None for a store without tables."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(select(_version.c.version_num))


def upgrade(connection: Connection) -> None:
    """Brings a store's tables to this release's, inside the connection's transaction."""
    # Alembic takes 0.2 s to import, and a store is upgraded once.
    from alembic import command  # noqa: PLC0415 -- see above
    from alembic.config import Config  # noqa: PLC0415 -- see above

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def check(found: str) -> None:
    """Makes sure that a store's revision is this release's.

    Raises:
        StoreVersionError: it is older or newer.
    """
    if found == HEAD:
        return
    if found in REVISIONS:
        raise StoreVersionError(
            f"The store's tables are of revision {found}, this release needs {HEAD}: "
            "make a backup, then run `memplugin db upgrade`."
        )
    raise StoreVersionError(
        f"The store's tables are of revision {found}, which this release does not know "
        f"(its own is {HEAD}): upgrade memplugin (pip install --upgrade memplugin)."
    )
