"""Column types that give back on every database what was put in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Integer, Text
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from memplugin.text import canonical_json

BigKey = BigInteger().with_variant(Integer, "sqlite")
"""A surrogate key: SQLite numbers rows by itself only in an INTEGER column."""


class UtcTime(TypeDecorator[datetime]):
    """A point in time: goes in with any zone, comes back in UTC.

    SQLite drops time zones, so a time without one can't be told from a local one later:
    it is refused.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Converts to UTC.

        Raises:
            ValueError: the time has no zone.
        """
        if value is None:
            return None
        if value.utcoffset() is None:
            raise ValueError(f"{value!r} has no time zone: give one, datetime.now(UTC)")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Returns the time in UTC."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    def result_processor(self, dialect: Dialect, coltype: object) -> Any:  # SQLAlchemy's own type
        """On SQLite in one step: the four times of a record are a third of reading it."""
        if dialect.name == "sqlite":
            return _read_utc
        return super().result_processor(dialect, coltype)


def _read_utc(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(f"{value}+00:00")


class CanonicalJson(TypeDecorator[Any]):
    """JSON as one text for equal values, so that it can be compared by equality."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Writes sorted keys; None is SQL's NULL, not JSON's null."""
        return None if value is None else canonical_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Reads it back."""
        return None if value is None else json.loads(value)


class VerbatimJson(TypeDecorator[Any]):
    """JSON in the order of keys in which it was received, which is what a reply proves."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Writes keys as they stand; None is SQL's NULL, not JSON's null."""
        return None if value is None else verbatim_json(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        """Reads it back."""
        return None if value is None else json.loads(value)


def verbatim_json(value: object) -> str:
    """JSON with keys as they stand and characters unescaped."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
