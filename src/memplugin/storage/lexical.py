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

from sqlalchemy import (
    ColumnElement,
    Connection,
    Float,
    Integer,
    bindparam,
    case,
    func,
    select,
    text,
)

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

# A row for each (question, entry) pair; a question is [match, word, place, weight].
_SQLITE_HITS = (
    "SELECT lexical.rowid AS number, json_extract(q.value, '$[1]') AS word,"
    " json_extract(q.value, '$[2]') AS place, json_extract(q.value, '$[3]') AS weight"
    " FROM json_each(:questions) AS q"
    " CROSS JOIN lexical WHERE lexical MATCH json_extract(q.value, '$[0]')"
)
_POSTGRES_HITS = (
    "SELECT lexical.number AS number, CAST(q.value ->> 1 AS integer) AS word,"
    " CAST(q.value ->> 2 AS integer) AS place,"
    " CAST(q.value ->> 3 AS double precision) AS weight"
    " FROM jsonb_array_elements(CAST(:questions AS jsonb)) AS q (value)"
    " JOIN lexical ON lexical.vector @@ CAST(q.value ->> 0 AS tsquery)"
)
_OF_RECORD = ("id", "workspace_id", "status", "scope", "kind", "content", "around")
_WITH_RECORDS = (
    f"SELECT hits.*, {', '.join(f'record.{name}' for name in _OF_RECORD)} FROM ({{hits}}) AS hits"  # noqa: S608 -- constants of this module
    " {join} memory_records AS record ON record.number = hits.number"
)
_RECORD_TYPES = {name: memory_records.c[name].type for name in _OF_RECORD}
_POSTGRES_LEXEMES = text("SELECT lexeme FROM unnest(to_tsvector('english', :query))")

_MERGE = text("INSERT INTO lexical (lexical, rank) VALUES ('merge', :pages)")
_MERGE_PAGES = 500
_CHANGES = text("SELECT total_changes()")

_CONTENT, _AROUND = 1, 0
_Question = tuple[str, int, int, float]


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


def search(
    database: Database, connection: Connection, selection: Selection, query: str, limit: int
) -> list[tuple[str, float]]:
    """Selected records that hold a word of the query: (id, score), best first.

    A score is the share of the query's words that the record holds, each weighed by how
    rare it is in the workspace: close to 1 for a short record that holds them all.
    """
    spelling = _Sqlite if database.sqlite else _Postgres
    syntax = spelling(selection.workspace_id)
    words = syntax.words(connection, query[:MAX_QUERY_CHARS])
    if not words:
        return []
    found, rarity = _rarity(connection, syntax, words)
    questions = [
        (syntax.match(words[number], place), number, place, rarity[number] / sum(rarity) * weight)
        for number in found
        for place, weight in ((_CONTENT, CONTENT_WEIGHT), (_AROUND, AROUND_WEIGHT))
    ]
    return _best(connection, syntax.hits, selection, questions, limit) if questions else []


def _rarity(
    connection: Connection, syntax: _Syntax, words: Sequence[str]
) -> tuple[list[int], list[float]]:
    """Which words the workspace holds at all, and how rare each is there (BM25's idf)."""
    counted = [*(syntax.match(word, None) for word in words), syntax.match(None, None)]
    questions = [(match, number, 0, 0) for number, match in enumerate(counted)]
    rows = connection.execute(syntax.counts, {"questions": json.dumps(questions)})
    entries = {int(row.word): int(row.entries) for row in rows}
    total = entries.pop(len(words), 0)
    held = [entries.get(number, 0) for number in range(len(words))]
    return sorted(entries), [math.log1p((total - n + 0.5) / (n + 0.5)) for n in held]


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
        .columns(number=Integer, word=Integer, place=Integer, weight=Float, **_RECORD_TYPES)
        .subquery("hits")
    )
    place = case((hits.c.place == _CONTENT, hits.c.content), else_=hits.c.around)
    share = func.max(hits.c.weight * _shortness(func.length(place, type_=Float))).label("share")
    of_words = (
        select(hits.c.id, hits.c.number, share)
        .where(*selected(selection, hits.c))
        .group_by(hits.c.id, hits.c.number, hits.c.word)
        .subquery("of_words")
    )
    score = func.sum(of_words.c.share).label("score")
    statement = (
        select(of_words.c.id, score)
        .group_by(of_words.c.id, of_words.c.number)
        .order_by(score.desc(), of_words.c.number.desc())
        .limit(limit)
    )
    return [(row.id, float(row.score)) for row in connection.execute(statement)]


def _shortness(length: ColumnElement[float]) -> ColumnElement[Any]:
    """BM25's term for a word that occurs once, as a share of what it is in an empty text."""
    empty = 1 + SATURATION * (1 - LENGTH_NORMALISATION)
    return empty / (empty + length * (SATURATION * LENGTH_NORMALISATION / USUAL_LENGTH))


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
        f"SELECT word, count(*) AS entries FROM ({hits}) AS hits GROUP BY word"  # noqa: S608 -- constants of this module
    )


class _Sqlite(_Syntax):
    # CROSS JOIN keeps SQLite to this order. Left to itself it may ask the full-text index anew
    # for each record of the workspace, which takes hundreds of times as long.
    hits = _WITH_RECORDS.format(hits=_SQLITE_HITS, join="CROSS JOIN")
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
    hits = _WITH_RECORDS.format(hits=_POSTGRES_HITS, join="JOIN")
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
