"""Full-text search: FTS5 on SQLite, tsvector on PostgreSQL, one way of scoring for both.

Every entry holds a word that stands for its workspace and every match requires it, so a
search costs what its own workspace costs. FTS5's ``bm25()`` counts each word in *every*
row, so it grows with other workspaces, and PostgreSQL's ``ts_rank`` weighs a rare word
like a common one. Both are replaced by BM25 (Robertson and Zaragoza, 2009) with what is
counted inside the workspace, and each word counted once for each text: memories are
sentences. Scores do not depend on what other workspaces hold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Float, Integer, bindparam, case, func, select, text

from memplugin.ports import Selection
from memplugin.storage.engine import Database
from memplugin.storage.selecting import selected
from memplugin.storage.stopwords import STOP_WORDS
from memplugin.storage.tables import memory_records
from memplugin.text import digest

CONTENT_WEIGHT = 1.0
AROUND_WEIGHT = 0.5
"""What a word found in a record's content, and in the text around it, counts."""

SATURATION = 1.2
"""BM25's k1."""

LENGTH_NORMALISATION = 0.4
"""BM25's b; low, because a word is counted once however long the text is."""

USUAL_LENGTH = 120.0
"""Characters of a usual memory. A constant, so that a score never moves with its neighbours."""

MAX_TERMS = 64
MAX_QUERY_CHARS = 20_000
MAX_CONTENT_CHARS = 100_000
MAX_AROUND_CHARS = 50_000
"""How much of a text is indexed. PostgreSQL refuses a tsvector above 1 MiB."""

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

# A row for each (question, entry) pair; a question is [match, weight, in content?].
_SQLITE_HITS = (
    "SELECT lexical.rowid AS number, json_extract(q.value, '$[1]') AS weight,"
    " json_extract(q.value, '$[2]') AS place FROM json_each(:questions) AS q"
    " CROSS JOIN lexical WHERE lexical MATCH json_extract(q.value, '$[0]')"
)
_POSTGRES_HITS = (
    "SELECT lexical.number AS number, CAST(q.value ->> 1 AS double precision) AS weight,"
    " CAST(q.value ->> 2 AS integer) AS place"
    " FROM jsonb_array_elements(CAST(:questions AS jsonb)) AS q (value)"
    " JOIN lexical ON lexical.vector @@ CAST(q.value ->> 0 AS tsquery)"
)
_POSTGRES_LEXEMES = text("SELECT lexeme FROM unnest(to_tsvector('english', :query))")

_CONTENT, _AROUND = 1, 0
_Question = tuple[str, float, int]


def workspace_token(workspace_id: str) -> str:
    """The word that stands for a workspace; its last letter keeps stemmers off it."""
    return f"w{digest(workspace_id)}x"


def refresh(database: Database, connection: Connection, workspace_id: str, seq: int) -> None:
    """Brings the entries of the records that changed at ``seq`` up to date.

    Active records have an entry, others have none.
    """
    changed = {"workspace": workspace_id, "seq": seq}
    lengths = {"most": MAX_CONTENT_CHARS, "most_around": MAX_AROUND_CHARS}
    token = workspace_token(workspace_id)
    connection.execute(_SQLITE_DELETE if database.sqlite else _POSTGRES_DELETE, changed)
    connection.execute(
        _SQLITE_INSERT if database.sqlite else _POSTGRES_INSERT,
        {**changed, **lengths, "token": token},
    )


def search(
    database: Database, connection: Connection, selection: Selection, query: str, limit: int
) -> list[tuple[str, float]]:
    """Selected records that hold a word of the query: (id, score), best first."""
    syntax = (
        _Sqlite(selection.workspace_id) if database.sqlite else _Postgres(selection.workspace_id)
    )
    words = syntax.words(connection, query[:MAX_QUERY_CHARS])
    if not words:
        return []
    weights = _weights(connection, syntax, words)
    questions = [
        question
        for word, weight in weights.items()
        for question in (
            (syntax.match(word, _CONTENT), weight * CONTENT_WEIGHT, _CONTENT),
            (syntax.match(word, _AROUND), weight * AROUND_WEIGHT, _AROUND),
        )
    ]
    return _best(connection, syntax.hits, selection, questions, limit) if questions else []


def _weights(connection: Connection, syntax: _Syntax, words: Sequence[str]) -> dict[str, float]:
    """How telling each word is in this workspace; words that nothing holds are left out."""
    counted = [syntax.match(None, None), *(syntax.match(word, None) for word in words)]
    questions = [(match, float(number), 0) for number, match in enumerate(counted)]
    rows = connection.execute(syntax.counts, {"questions": json.dumps(questions)})
    found = {int(row.word): int(row.entries) for row in rows}
    total = found.get(0, 0)
    return {
        word: math.log1p((total - found[number] + 0.5) / (found[number] + 0.5))
        for number, word in enumerate(words, start=1)
        if number in found
    }


def _best(
    connection: Connection,
    hits_sql: str,
    selection: Selection,
    questions: Sequence[_Question],
    limit: int,
) -> list[tuple[str, float]]:
    hits = (
        text(hits_sql)
        .bindparams(bindparam("questions", json.dumps(questions)))
        .columns(number=Integer, weight=Float, place=Integer)
        .subquery("hits")
    )
    found_in = case(
        (hits.c.place == _CONTENT, memory_records.c.content), else_=memory_records.c.around
    )
    shrink = SATURATION * (
        (1 - LENGTH_NORMALISATION)
        + func.length(found_in, type_=Float) * (LENGTH_NORMALISATION / USUAL_LENGTH)
    )
    score = func.sum(hits.c.weight * (SATURATION + 1) / (1 + shrink)).label("score")
    statement = (
        select(memory_records.c.id, score)
        .select_from(hits.join(memory_records, memory_records.c.number == hits.c.number))
        .where(*selected(selection))
        .group_by(memory_records.c.id, memory_records.c.number)
        .order_by(score.desc(), memory_records.c.number.desc())
        .limit(limit)
    )
    return [(row.id, float(row.score)) for row in connection.execute(statement)]


class _Syntax:
    """How one database asks for a word. Words go in quoted, so none is an operator."""

    hits: str
    counts: Any

    def __init__(self, workspace_id: str) -> None:
        self._token = workspace_token(workspace_id)

    def words(self, connection: Connection, query: str) -> list[str]:
        """The words to look for, each once."""
        raise NotImplementedError

    def match(self, word: str | None, place: int | None) -> str:
        """Asks for a word in one place or in both; without one, for the whole workspace."""
        raise NotImplementedError


def _counts(hits: str) -> Any:
    return text(
        f"SELECT weight AS word, count(*) AS entries FROM ({hits}) AS hits GROUP BY weight"  # noqa: S608 -- constants of this module
    )


class _Sqlite(_Syntax):
    hits = _SQLITE_HITS
    counts = _counts(_SQLITE_HITS)

    def words(self, connection: Connection, query: str) -> list[str]:
        found = _WORDS.findall(query.lower())
        return _first(word for word in found if word not in STOP_WORDS)

    def match(self, word: str | None, place: int | None) -> str:
        if word is None:
            return f'workspace : "{self._token}"'
        columns = {None: "content around", _CONTENT: "content", _AROUND: "around"}[place]
        return f'workspace : "{self._token}" AND {{{columns}}} : "{word}"'


class _Postgres(_Syntax):
    hits = _POSTGRES_HITS
    counts = _counts(_POSTGRES_HITS)

    def words(self, connection: Connection, query: str) -> list[str]:
        return _first(row.lexeme for row in connection.execute(_POSTGRES_LEXEMES, {"query": query}))

    def match(self, word: str | None, place: int | None) -> str:
        if word is None:
            return f"'{self._token}'"
        quoted = word.replace("\\", "\\\\").replace("'", "''")
        label = {None: "", _CONTENT: ":A", _AROUND: ":B"}[place]
        return f"'{self._token}' & '{quoted}'{label}"


def _first(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))[:MAX_TERMS]
