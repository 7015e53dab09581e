"""The sequence number of a workspace: it rises with every change of any record's state."""

from __future__ import annotations

from sqlalchemy import Connection

from memplugin.storage.engine import Database
from memplugin.storage.tables import workspaces


def next_seq(database: Database, connection: Connection, workspace_id: str) -> int:
    """Raises the workspace's number by one; holds back other writers until the commit."""
    row = database.insert(workspaces).values(workspace_id=workspace_id, seq=1)
    raised = row.on_conflict_do_update(
        index_elements=[workspaces.c.workspace_id], set_={"seq": workspaces.c.seq + 1}
    ).returning(workspaces.c.seq)
    return int(connection.execute(raised).scalar_one())
