"""Ages and times as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from memplugin.errors import ConfigError

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def age(given: str, option: str) -> timedelta:
    """Reads ``12h``, ``90d`` or ``8w``.

    Raises:
        ConfigError: it is none.
    """
    found = re.fullmatch(r"(\d{1,5})([hdw])", given.strip())
    if not found:
        raise ConfigError(
            f"{option} is {given!r}: give a number of hours, days or weeks, such as 12h, 90d or 8w."
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment(given: str, option: str) -> datetime:
    """Reads an age before now, or a date or time in ISO 8601 (UTC where it says no zone).

    Raises:
        ConfigError: it is neither.
    """
    try:
        time = datetime.fromisoformat(given.strip())
    except ValueError:
        return datetime.now(UTC) - _age_or_date(given, option)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _age_or_date(given: str, option: str) -> timedelta:
    try:
        return age(given, option)
    except ConfigError:
        raise ConfigError(
            f"{option} is {given!r}: give an age (12h, 90d, 8w) or a date (2026-03-02, "
            "2026-03-02T09:14:11+01:00)."
        ) from None
