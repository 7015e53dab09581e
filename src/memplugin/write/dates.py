"""Relative dates, against the clock of the session they were said in."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from memplugin.errors import ConfigError
from memplugin.write.quotes import folded

_NUMBERS = ("a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_PART = r"(?: (?:morning|afternoon|evening|night))?"
_COUNT = rf"(?P<n>\d{{1,3}}|{'|'.join(_NUMBERS)}) (?P<unit>day|week)s?"
_PHRASES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"(?:earlier )?today|tonight|this (?:morning|afternoon|evening)"), 0),
    (re.compile(rf"yesterday{_PART}|last night"), -1),
    (re.compile(rf"tomorrow{_PART}"), 1),
    (re.compile(r"(?:the )?day before yesterday"), -2),
    (re.compile(r"(?:the )?day after tomorrow"), 2),
    (re.compile(rf"{_COUNT} ago"), -1),
    (re.compile(rf"in {_COUNT}"), 1),
)


def zone_of(name: str) -> ZoneInfo:
    """The time zone of this IANA name.

    Raises:
        ConfigError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError) as error:
        raise ConfigError(
            f"timezone is {name!r}: give an IANA name such as 'Europe/Berlin' "
            "(where the system has no time zones, install tzdata)."
        ) from error


def meant(phrase: str, said_on: date) -> date | None:
    """The day that a phrase such as "yesterday" or "in two weeks" means; None for others."""
    plain = " ".join(folded(phrase).split()).strip(" .,!?")
    for pattern, step in _PHRASES:
        if match := pattern.fullmatch(plain):
            return _moved(said_on, step * _count(match))
    return None


def occurred_at(
    value: str | None, phrase: str | None, *, said_at: datetime, zone: tzinfo
) -> datetime:
    """When it was, in UTC.

    What a phrase says by itself is calculated, since models are bad at it; anything else
    is the extractor's to resolve. A day without a time is noon of that day in the
    session's zone, so that it is the same day when read in UTC; today is now.

    Args:
        value: ISO 8601 date or time as the extractor gave it; naive is in ``zone``.
        phrase: The words it was said in, which stand in the turn.
        said_at: When it was said; also the answer where nothing else is known.
        zone: The session's time zone.

    Returns:
        With a time zone.
    """
    try:
        given = _parsed(value, zone) if value else None
        today = said_at.astimezone(zone).date()
        day = meant(phrase, today) if phrase else None
        if isinstance(given, datetime) and day in (None, given.date()):
            return given.astimezone(UTC)
        day = day or given
        if day is None or day == today:
            return said_at.astimezone(UTC)
        return datetime.combine(day, time(12), zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return said_at.astimezone(UTC)


def _parsed(value: str, zone: tzinfo) -> date | datetime:
    try:
        return date.fromisoformat(value.strip())
    except ValueError:
        moment = datetime.fromisoformat(value.strip())
    return moment.replace(tzinfo=zone) if moment.tzinfo is None else moment.astimezone(zone)


def _count(match: re.Match[str]) -> int:
    groups = match.groupdict()
    if not groups:
        return 1
    n = groups["n"]
    count = int(n) if n.isdecimal() else max(_NUMBERS.index(n), 1)
    return count * (7 if groups["unit"] == "week" else 1)


def _moved(day: date, days: int) -> date:
    return day + timedelta(days=days)
