"""Requests to a trace server over HTTP, and the time windows that servers accept."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode, urlsplit

from memplugin.errors import ConfigError
from memplugin.telemetry.readers.model import Note, NoteKind, ReadSpan

LONGEST = timedelta(days=7)
"""Tempo refuses a search over more than 168 hours."""


def windows(since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Consecutive windows of at most seven days, the oldest first."""
    start = since
    while start < until:
        end = min(start + LONGEST, until)
        yield start, end
        start = end


def within(span: ReadSpan, since: datetime, until: datetime) -> bool:
    """Whether a span began in a window.

    Args:
        span: As it was read.
        since: The first moment of the window.
        until: The last one.

    Returns:
        True also where it began at one of the two.
    """
    return since.timestamp() <= span.start / 1e9 <= until.timestamp()


def rfc3339(time: datetime) -> str:
    """A time as Jaeger reads it."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


TIMEOUT = 20.0
"""Seconds for one request: a backend may look through weeks of blocks."""

_SHOWN = 200
"""Characters of a backend's own words that are shown."""


class Unusable(Exception):
    """A backend gave nothing to work with; reading ends with the note that says why."""

    def __init__(self, kind: NoteKind, text: str) -> None:
        super().__init__(text)
        self.note = Note(kind, text)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        document: The JSON in it; None when it is none.
        said: Its beginning, as text.
    """

    status: int
    document: Any
    said: str


class Web:
    """A backend's HTTP API.

    Args:
        name: What it is called in notes.
        base: Its URL; a path in it stays in front of the API's own.
        headers: Sent with every request (``Authorization``, ``X-Scope-OrgID``).
        timeout: Seconds for each request.

    Raises:
        ConfigError: the URL is none.
    """

    def __init__(
        self, name: str, base: str, headers: Mapping[str, str] | None, timeout: float
    ) -> None:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{base!r} is no URL of {name}: give http://host:port.")
        self.name = name
        self.base = base.rstrip("/")
        self._headers = {"Accept": "application/json", **(headers or {})}
        self._timeout = timeout

    def get(self, path: str, parameters: Mapping[str, str | int] | None = None) -> Answer:
        """Asks, and returns the answer whatever its status.

        Raises:
            Unusable: nobody answers, the request is not allowed, or a page came instead
                of JSON.
        """
        query = f"?{urlencode(parameters)}" if parameters else ""
        # Only http and https come this far.
        request = urllib.request.Request(self.base + path + query, headers=self._headers)  # noqa: S310 -- see above
        try:
            return self._checked(self._fetch(request))
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise Unusable(
                "refused",
                f"{self.name} at {self.base} does not answer ({reason}): check the URL, and that "
                "it is running and can be reached from here.",
            ) from error

    def _fetch(self, request: urllib.request.Request) -> Answer:
        try:
            with urllib.request.urlopen(request, timeout=self._timeout) as response:  # noqa: S310 -- see above
                return _answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            return _answer(error.code, error.read())

    def trouble(self, answer: Answer) -> Note:
        """A note on an answer that is neither the expected one nor one known by its status."""
        return Note(
            "refused", f"{self.name} at {self.base} answered {answer.status}: {answer.said}"
        )

    def _checked(self, answer: Answer) -> Answer:
        if answer.status in (401, 403):
            raise Unusable(
                "refused",
                f"{self.name} at {self.base} answered {answer.status}: give credentials with "
                "--headers (Authorization=…, or X-Scope-OrgID=… for the tenant).",
            )
        if answer.document is None and answer.said.lstrip().startswith("<"):
            raise Unusable(
                "unreadable",
                f"{self.base} answered {answer.status} with an HTML page: it is not the API of "
                f"{self.name}. Check host, port and path, and whether a login stands before it.",
            )
        return answer


def _answer(status: int, body: bytes) -> Answer:
    text = body.decode("utf-8", errors="replace")
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    return Answer(status, document, " ".join(text[:_SHOWN].split()))
