"""The full-text index: FTS5 on SQLite, tsvector on PostgreSQL, one way of asking both.

Every entry holds a word that stands for its workspace and every match requires it, so a
search costs what its own workspace costs. FTS5's ``bm25()`` counts each word in *every*
row, so it grows with other workspaces, and PostgreSQL's ``ts_rank`` weighs a rare word
like a common one. So the database only says which entries hold a word, and
``vector.scoring`` does the rest, with each word counted once for each text: memories are
sentences. Scores do not depend on what other workspaces hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from memplugin.storage.sql.engine import Database
from memplugin.text import STOP_WORDS, digest

MAX_TERMS = 64
MAX_QUERY_CHARS = 20_000
MAX_CONTENT_CHARS = 100_000
MAX_AROUND_CHARS = 50_000
"""How much of a text is indexed. PostgreSQL refuses a tsvector above 1 MiB."""

Numbers = NDArray[np.int64]
"""Numbers of full-text entries, each its record's ``number``."""


@dataclass(frozen=True, slots=True)
class Postings:
    """The entries of a workspace that hold one word."""

    content: Numbers
    around: Numbers


_WORDS = re.compile(r"\w+")

_SQLITE_DELETE = text(
    "DELETE FROM lexical WHERE rowid IN"
    " (SELECT number FROM memory_records WHERE workspace_id = :workspace AND seq = :seq)"
)
_SQLITE_INSERT = text(
    "INSERT INTO lexical (rowid, workspace, content, around)"
    " SELECT number, :token, substr(content, 1, :most), substr(around, 1, :most_around)"
    " FROM memory_records WHERE workspace_id = :workspace AND seq = :seq AND status = 'active'"
)
_POSTGRES_DELETE = text(
    "DELETE FROM lexical WHERE number IN"
    " (SELECT number FROM memory_records WHERE workspace_id = :workspace AND seq = :seq)"
)
_POSTGRES_INSERT = text(
    "INSERT INTO lexical (number, vector)"
    " SELECT number, array_to_tsvector(ARRAY[CAST(:token AS text)])"
    " || setweight(to_tsvector('english', left(content, :most)), 'A')"
    " || setweight(to_tsvector('english', left(coalesce(around, ''), :most_around)), 'B')"
    " FROM memory_records WHERE workspace_id = :workspace AND seq = :seq AND status = 'active'"
)

# A question is [match in the content, match in the text around]; an answer lists numbers.
_SQLITE_POSTINGS = text(
    "SELECT (SELECT group_concat(rowid) FROM lexical"
    " WHERE lexical MATCH json_extract(q.value, '$[0]')) AS content,"
    " (SELECT group_concat(rowid) FROM lexical"
    " WHERE lexical MATCH json_extract(q.value, '$[1]')) AS around"
    " FROM json_each(:questions) AS q ORDER BY q.key"
)
_POSTGRES_POSTINGS = text(
    "SELECT (SELECT string_agg(CAST(number AS text), ',') FROM lexical"
    " WHERE vector @@ CAST(q.value ->> 0 AS tsquery)) AS content,"
    " (SELECT string_agg(CAST(number AS text), ',') FROM lexical"
    " WHERE vector @@ CAST(q.value ->> 1 AS tsquery)) AS around"
    " FROM jsonb_array_elements(CAST(:questions AS jsonb)) WITH ORDINALITY AS q (value, place)"
    " ORDER BY q.place"
)
_POSTGRES_LEXEMES = text("SELECT lexeme FROM unnest(to_tsvector('english', :query))")

_MERGE = text("INSERT INTO lexical (lexical, rank) VALUES ('merge', :pages)")
_MERGE_PAGES = 500
_CHANGES = text("SELECT total_changes()")


def workspace_token(workspace_id: str) -> str:
    """The word that stands for a workspace; its last letter keeps stemmers off it."""
    return f"w{digest(workspace_id)}x"


def refresh(database: Database, connection: Connection, workspace_id: str, seq: int) -> None:
    """Brings the entries of the records that changed at ``seq`` up to date.

    Active records have an entry, others have none.

    Args:
        database: Which database it is.
        connection: In whose transaction it happens.
        workspace_id: The workspace, compared by equality.
        seq: The workspace's number of the change.
    """
    changed = {"workspace": workspace_id, "seq": seq}
    lengths = {"most": MAX_CONTENT_CHARS, "most_around": MAX_AROUND_CHARS}
    token = workspace_token(workspace_id)
    connection.execute(_SQLITE_DELETE if database.sqlite else _POSTGRES_DELETE, changed)
    connection.execute(
        _SQLITE_INSERT if database.sqlite else _POSTGRES_INSERT,
        {**changed, **lengths, "token": token},
    )


def tidy(database: Database) -> None:
    """Merges the index's segments, in small steps between which others may write.

    Older segments hold the words of what was forgotten until they are merged. PostgreSQL
    does the same by itself (autovacuum).
    """
    pages = -_MERGE_PAGES  # below 0 for the first step: every segment takes part
    while database.sqlite:
        with database.writing() as connection:
            before = connection.execute(_CHANGES).scalar_one()
            connection.execute(_MERGE, {"pages": pages})
            # "Less than 2": how FTS5 says that nothing is left to merge.
            if connection.execute(_CHANGES).scalar_one() - before < 2:
                return
        pages = _MERGE_PAGES


def postings(
    database: Database, connection: Connection, workspace_id: str, query: str
) -> list[Postings]:
    """For each word of a query the entries of a workspace that hold it.

    Args:
        database: Says which syntax to use.
        connection: Where to read.
        workspace_id: Whose entries are looked through.
        query: A user's text; nothing in it is syntax.

    Returns:
        One for each word; empty when no entry holds any of them.
    """
    syntax = (_Sqlite if database.sqlite else _Postgres)(workspace_id)
    words = syntax.words(connection, query[:MAX_QUERY_CHARS])
    if not words:
        return []
    questions = [(syntax.match(word, "content"), syntax.match(word, "around")) for word in words]
    rows = connection.execute(syntax.postings, {"questions": json.dumps(questions)})
    found = [Postings(_numbers(row.content), _numbers(row.around)) for row in rows]
    return found if any(len(word.content) or len(word.around) for word in found) else []


def _numbers(listed: str | None) -> Numbers:
    return np.fromstring(listed, np.int64, sep=",") if listed else np.empty(0, np.int64)


class _Syntax:
    """How one database asks for a word. Words go in quoted, so none is an operator."""

    postings: Any

    def __init__(self, workspace_id: str) -> None:
        self._token = workspace_token(workspace_id)

    def words(self, connection: Connection, query: str) -> list[str]:
        """The words to look for, each once."""
        raise NotImplementedError

    def match(self, word: str, place: str) -> str:
        """Asks for a word in the ``content`` or ``around`` of the workspace's entries."""
        raise NotImplementedError


class _Sqlite(_Syntax):
    postings = _SQLITE_POSTINGS

    def words(self, connection: Connection, query: str) -> list[str]:
        found = _WORDS.findall(query.lower())
        return _first(word for word in found if word not in STOP_WORDS)

    def match(self, word: str, place: str) -> str:
        return f'workspace : "{self._token}" AND {place} : "{word}"'


class _Postgres(_Syntax):
    postings = _POSTGRES_POSTINGS

    def words(self, connection: Connection, query: str) -> list[str]:
        return _first(row.lexeme for row in connection.execute(_POSTGRES_LEXEMES, {"query": query}))

    def match(self, word: str, place: str) -> str:
        quoted = word.replace("\\", "\\\\").replace("'", "''")
        label = {"content": "A", "around": "B"}[place]
        return f"'{self._token}' & '{quoted}':{label}"


def _first(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))[:MAX_TERMS]
