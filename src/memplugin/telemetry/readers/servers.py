"""Trace servers: Jaeger 2 (HTTP API v3) and Grafana Tempo (TraceQL and ``/api/v2/traces``)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from memplugin.telemetry import names
from memplugin.telemetry.readers.http import TIMEOUT, Answer, Unusable, Web, rfc3339, windows
from memplugin.telemetry.readers.model import (
    TRACE_ID_LENGTH,
    Note,
    Read,
    ReadSpan,
    hex_id,
    is_envelope,
    merged,
    spans_in,
)

Json = dict[str, Any]

LIMIT = 1_000
"""Traces requested in one window. Without it Jaeger gives 100 of them, and Tempo 20."""


class Jaeger:
    """Traces in a Jaeger.

    Args:
        url: Of its query service, ``http://localhost:16686``.
        headers: Sent with every request.
        timeout: Seconds for each request.

    Raises:
        ConfigError: the URL is none.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float = TIMEOUT
    ) -> None:
        self._web = Web("Jaeger", url, headers, timeout)
        self._services: list[str] | None = None
        """Known once it turns out to be an older release, which is asked service by service."""

    def spans_of_task(self, task_id: str, since: datetime, until: datetime) -> Read:
        """See ``Source``."""
        return self._traces_with(names.TASK_ID, task_id, since, until)

    def spans_of_record(self, record_id: str, since: datetime, until: datetime) -> Read:
        """See ``Source``. Only of spans about one record: arrays can't be searched."""
        return self._traces_with(names.RECORD_ID, record_id, since, until)

    def spans_of_traces(self, trace_ids: Iterable[str], since: datetime, until: datetime) -> Read:
        """See ``Source``."""
        reads: list[Read] = []
        # Elasticsearch looks three days back unless the request says how far.
        window = {"startTime": rfc3339(since), "endTime": rfc3339(until)}
        try:
            for trace_id in trace_ids:
                answer = self._web.get(f"/api/v3/traces/{trace_id}", window)
                missing = Note("missing", f"trace {trace_id} is not in Jaeger")
                reads.append(self._read(answer, missing))
        except Unusable as error:
            reads.append(Read(notes=(error.note,)))
        return merged(reads)

    def _traces_with(self, key: str, value: str, since: datetime, until: datetime) -> Read:
        reads: list[Read] = []
        try:
            for start, end in windows(since, until):
                reads += self._search(key, value, start, end)
        except Unusable as error:
            reads.append(Read(notes=(error.note,)))
        read = merged(reads)
        if read.spans or any(note.kind in ("refused", "unreadable") for note in read.notes):
            return read
        text = (
            f"Jaeger at {self._web.base} has no span with {key} = {value} from "
            f"{since:%Y-%m-%d} to {until:%Y-%m-%d}: check the id, --since, sampling and retention."
        )
        return Read(notes=(*read.notes, Note("empty", text)))

    def _search(self, key: str, value: str, start: datetime, end: datetime) -> Iterator[Read]:
        attributes = json.dumps({key: value})
        if self._services is None:
            answer = self._web.get(
                "/api/v3/traces",
                {
                    "query.attributes": attributes,
                    "query.startTimeMin": rfc3339(start),
                    "query.startTimeMax": rfc3339(end),
                    "query.searchDepth": LIMIT,
                },
            )
            if answer.status != 400:
                yield self._with(self._read(answer), key, value)
                return
            self._services = self._older(answer)
        for service in self._services:
            answer = self._web.get(
                "/api/v3/traces",
                {
                    "query.service_name": service,
                    "query.attributes": attributes,
                    "query.start_time_min": rfc3339(start),
                    "query.start_time_max": rfc3339(end),
                    "query.num_traces": LIMIT,
                },
            )
            if answer.status == 400:
                raise Unusable("refused", self._web.trouble(answer).text)
            yield self._with(self._read(answer), key, value)

    def _older(self, refusal: Answer) -> list[str]:
        """The services of a release that searches one service at a time."""
        answer = self._web.get("/api/v3/services")
        if answer.status != 200 or not isinstance(answer.document, dict):
            raise Unusable("refused", self._web.trouble(refusal).text)
        return cast(list[str], cast(Json, answer.document).get("services") or [])

    def _read(self, answer: Answer, missing: Note | None = None) -> Read:
        document: Any = answer.document
        if answer.status == 404 and isinstance(document, dict) and "error" in document:
            return Read(notes=(missing,) if missing else ())
        if answer.status == 404 or (answer.status == 200 and not _holds_spans(document)):
            raise Unusable(
                "unreadable",
                f"{self._web.base} answered {answer.status} and no traces: it is not a Jaeger with "
                "the API v3 (2.0 or later). Check the URL and the version.",
            )
        if answer.status != 200:
            return Read(notes=(self._web.trouble(answer),))
        try:
            return Read(tuple(spans_in(cast(Json, document))))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise Unusable(
                "unreadable", f"Jaeger at {self._web.base} gave what is no OTLP ({error})."
            ) from error

    def _with(self, read: Read, key: str, value: str) -> Read:
        """Only the traces that have it: older releases search for the service alone."""
        traces = {span.trace_id for span in read.spans}
        wanted = {span.trace_id for span in read.spans if _has(span, key, value)}
        notes = list(read.notes)
        notes += _full("Jaeger", len(traces))
        return Read(tuple(s for s in read.spans if s.trace_id in wanted), tuple(notes))


def _holds_spans(document: Any) -> bool:
    return document == {} or is_envelope(document)


def _has(span: ReadSpan, key: str, value: str) -> bool:
    return span.text(key) == value or any(
        str(event.attributes.get(key)) == value for event in span.events
    )


class Tempo:
    """Traces in a Tempo.

    Args:
        url: Of its query frontend, ``http://localhost:3200``; or of Grafana's proxy to it.
        headers: Sent with every request.
        timeout: Seconds for each request.

    Raises:
        ConfigError: the URL is none.
    """

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, timeout: float = TIMEOUT
    ) -> None:
        self._web = Web("Tempo", url, headers, timeout)
        self._by_id = "/api/v2/traces/"

    def spans_of_task(self, task_id: str, since: datetime, until: datetime) -> Read:
        """See ``Source``."""
        return self._traces_with(_query((names.TASK_ID,), task_id), since, until)

    def spans_of_record(self, record_id: str, since: datetime, until: datetime) -> Read:
        """See ``Source``."""
        keys = (names.RECORD_ID, names.RECORD_IDS, names.REPLACED_IDS)
        return self._traces_with(_query(keys, record_id), since, until)

    def spans_of_traces(self, trace_ids: Iterable[str], since: datetime, until: datetime) -> Read:
        """See ``Source``."""
        del since, until  # without a time, Tempo looks everywhere
        reads: list[Read] = []
        try:
            reads += [self._trace(trace_id) for trace_id in trace_ids]
        except Unusable as error:
            reads.append(Read(notes=(error.note,)))
        return merged(reads)

    def _traces_with(self, query: str, since: datetime, until: datetime) -> Read:
        reads: list[Read] = []
        try:
            found = [self._search(query, *window) for window in windows(since, until)]
            reads += [Read(notes=tuple(notes)) for _, notes in found]
            ids = dict.fromkeys(id_ for traces, _ in found for id_ in traces)
            reads += [self._trace(trace_id) for trace_id in ids]
        except Unusable as error:
            reads.append(Read(notes=(error.note,)))
        read = merged(reads)
        if read.spans or read.notes:
            return read
        text = (
            f"Tempo at {self._web.base} has no trace for {query} from {since:%Y-%m-%d} to "
            f"{until:%Y-%m-%d}: check the id, --since, sampling and retention."
        )
        return Read(notes=(Note("empty", text),))

    def _search(
        self, query: str, start: datetime, end: datetime
    ) -> tuple[list[str], Iterable[Note]]:
        """Ids of the traces of one window."""
        window = {"start": math.floor(start.timestamp()), "end": math.ceil(end.timestamp())}
        if window["end"] - window["start"] > 7 * 24 * 3600:
            window["end"] -= 1  # parts of a second at both ends; the next window has them
        answer = self._web.get("/api/search", {"q": query, "limit": LIMIT, **window})
        if answer.status == 404:
            raise Unusable("unreadable", self._no_tempo(answer))
        if answer.status != 200:
            return [], [self._web.trouble(answer)]
        if not isinstance(answer.document, dict):
            raise Unusable("unreadable", self._no_tempo(answer))
        found = cast(list[Json], cast(Json, answer.document).get("traces") or [])
        try:
            ids = [hex_id(trace.get("traceID"), TRACE_ID_LENGTH) for trace in found]
        except (ValueError, AttributeError) as error:
            raise Unusable("unreadable", self._no_tempo(answer)) from error
        return ids, _full("Tempo", len(ids))

    def _trace(self, trace_id: str) -> Read:
        answer = self._web.get(self._by_id + trace_id)
        if answer.status == 404 and self._by_id != "/api/traces/":
            # A trace that is not there, or a release that does not have this path yet.
            older = self._web.get("/api/traces/" + trace_id)
            if older.status == 200:
                self._by_id, answer = "/api/traces/", older
        document: Any = answer.document
        if answer.status == 404 or (answer.status == 200 and document == {}):
            return Read(notes=(Note("missing", f"trace {trace_id} is not in Tempo"),))
        if answer.status != 200:
            return Read(notes=(self._web.trouble(answer),))
        if not is_envelope(document):
            raise Unusable("unreadable", self._no_tempo(answer))
        try:
            return Read(tuple(spans_in(document)), tuple(_partial(document, trace_id)))
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise Unusable(
                "unreadable", f"Tempo at {self._web.base} gave what is no OTLP ({error})."
            ) from error

    def _no_tempo(self, answer: Answer) -> str:
        return (
            f"{self._web.base} answered {answer.status}, and not as Tempo does ({answer.said}): "
            "check the URL (its query frontend, port 3200) and the version (2.0 or later)."
        )


def _query(keys: Iterable[str], value: str) -> str:
    # TraceQL's strings are quoted and escaped as JSON's.
    quoted = json.dumps(value, ensure_ascii=False)
    return "{ " + " || ".join(f"span.{key} = {quoted}" for key in keys) + " }"


def _full(server: str, traces: int) -> list[Note]:
    if traces < LIMIT:
        return []
    text = f"{server} gave {LIMIT} traces of one week and may have more: narrow --since."
    return [Note("partial", text)]


def _partial(document: Json, trace_id: str) -> Iterator[Note]:
    if str(document.get("status") or "").upper() == "PARTIAL":
        why = document.get("message") or "it is too large"
        yield Note("partial", f"Tempo gave a part of trace {trace_id} only: {why}")
