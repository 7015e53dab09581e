"""A Jaeger-shaped and a Tempo-shaped HTTP server over OTLP requests as they were received.

Both answer as the real ones do where it matters to a reader: Jaeger with ids in hex and all
traces merged into one envelope, Tempo with ids in base64, enums by name and trace ids
without leading zeros.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from google.protobuf.json_format import MessageToDict

from tests.otlp_receivers import Request

Json = dict[str, Any]
Query = Mapping[str, str]
LONGEST_SEARCH = timedelta(hours=168)


@dataclass(frozen=True)
class Answer:
    body: Any
    status: int = 200

    @property
    def payload(self) -> bytes:
        text = self.body if isinstance(self.body, str) else json.dumps(self.body)
        return text.encode()


HTML = Answer("<!doctype html><html><body>Log in</body></html>")
NO_PAGE = Answer("404 page not found\n", 404)


@dataclass
class Backend:
    """What a server holds, and what was asked of it.

    Attributes:
        answer: Given to every request instead, when set.
        token: Needed in the header ``Authorization``, when set.
    """

    requests: list[Any]
    url: str = ""
    asked: list[tuple[str, Query]] = field(default_factory=list)
    answer: Answer | None = None
    token: str | None = None

    def groups(self, wanted: Callable[[Any], bool]) -> list[Json]:
        """Resource spans as JSON, ids in base64, of the spans wanted."""
        kept: list[Json] = []
        for request in self.requests:
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    one = Request()
                    group = one.resource_spans.add()
                    group.resource.CopyFrom(resource.resource)
                    inner = group.scope_spans.add()
                    inner.scope.CopyFrom(scope.scope)
                    inner.spans.extend(span for span in scope.spans if wanted(span))
                    if inner.spans:
                        kept += MessageToDict(one)["resourceSpans"]
        return kept

    def traces(self, wanted: Callable[[Any], bool], start: float, end: float) -> list[bytes]:
        """Ids of traces with such a span that began in a window, in the order of arrival."""
        spans = (
            s
            for r in self.requests
            for g in r.resource_spans
            for c in g.scope_spans
            for s in c.spans
        )
        found = (
            span.trace_id
            for span in spans
            if wanted(span) and start <= span.start_time_unix_nano / 1e9 <= end
        )
        return list(dict.fromkeys(found))

    def handle(self, target: str, headers: Mapping[str, str]) -> Answer:
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        self.asked.append((parts.path, query))
        if self.token and headers.get("Authorization") != self.token:
            return Answer("no", 401)
        return self.answer or self.respond(parts.path, query)

    def respond(self, path: str, query: Query) -> Answer:
        raise NotImplementedError


@dataclass
class JaegerShaped(Backend):
    """Jaeger 2's API v3.

    Attributes:
        older: Needs a service and snake_case times, and does not search by attributes.
        flat: Stores arrays as JSON text and drops links' attributes, as on Elasticsearch.
    """

    older: bool = False
    flat: bool = False

    def respond(self, path: str, query: Query) -> Answer:
        if path == "/api/v3/services":
            return Answer({"services": ["other", "agent"]})
        if path == "/api/v3/traces":
            return self._search(query)
        if match := re.fullmatch(r"/api/v3/traces/([0-9a-f]{32})", path):
            return self._merged([bytes.fromhex(match[1])])
        return NO_PAGE

    def _search(self, query: Query) -> Answer:
        names = (
            ("start_time_min", "start_time_max") if self.older else ("startTimeMin", "startTimeMax")
        )
        bounds = [query.get(f"query.{name}") for name in names]
        if None in bounds or (self.older and "query.service_name" not in query):
            message = f"query.{names[0]} and query.{names[1]} are required"
            return Answer({"error": {"httpCode": 400, "message": message}}, 400)
        start, end = (datetime.fromisoformat(str(bound)).timestamp() for bound in bounds)
        wanted = json.loads(query.get("query.attributes", "{}"))
        if self.older:
            mine = query["query.service_name"] == "agent"
            return self._merged(self.traces(lambda _: mine, start, end))
        return self._merged(self.traces(lambda span: _matches(span, wanted), start, end))

    def _merged(self, ids: Iterable[bytes]) -> Answer:
        known = set(ids)
        groups = self.groups(lambda span: span.trace_id in known)
        if not groups:
            return Answer({"error": {"httpCode": 404, "message": "No traces found"}}, 404)
        in_hex = [_as_jaeger(group, flat=self.flat) for group in groups]
        return Answer({"result": {"resourceSpans": in_hex}})


def _matches(span: Any, wanted: Mapping[str, str]) -> bool:
    places = [span.attributes, *(event.attributes for event in span.events)]
    return all(
        any(
            pair.key == key and pair.value.string_value == value
            for attributes in places
            for pair in attributes
        )
        for key, value in wanted.items()
    )


KINDS = {"SPAN_KIND_UNSPECIFIED": 0, "SPAN_KIND_INTERNAL": 1, "SPAN_KIND_CLIENT": 3}


def _as_jaeger(group: Json, *, flat: bool) -> Json:
    for scope in group["scopeSpans"]:
        for span in scope["spans"]:
            span["kind"] = KINDS[span["kind"]]
            for holder in (span, *span.get("links", ())):
                for key in {"traceId", "spanId", "parentSpanId"} & holder.keys():
                    holder[key] = base64.b64decode(holder[key]).hex()
            if flat:
                for link in span.get("links", ()):
                    link.pop("attributes", None)
                for pair in span.get("attributes", ()):
                    if "arrayValue" in pair["value"]:
                        items = pair["value"]["arrayValue"].get("values", [])
                        values = [_plain(item) for item in items]
                        pair["value"] = {"stringValue": json.dumps(values)}
    return group


def _plain(value: Json) -> Any:
    (kind, inner) = next(iter(value.items()))
    return int(inner) if kind == "intValue" else inner


@dataclass
class TempoShaped(Backend):
    """Tempo's search and its look-up by id.

    Attributes:
        v2: Whether ``/api/v2/traces`` is there.
        partial: Trace ids, in hex, of which only a part is given.
    """

    v2: bool = True
    partial: frozenset[str] = frozenset()

    def respond(self, path: str, query: Query) -> Answer:
        if path == "/api/search":
            return self._search(query)
        if self.v2 and (match := re.fullmatch(r"/api/v2/traces/([0-9a-f]{32})", path)):
            return self._trace(match[1])
        if match := re.fullmatch(r"/api/traces/([0-9a-f]{32})", path):
            groups = self._of(match[1])
            return Answer({"batches": groups}) if groups else Answer("trace not found", 404)
        return NO_PAGE

    def _search(self, query: Query) -> Answer:
        if not {"start", "end"} <= query.keys():
            return Answer({"traces": [], "metrics": {}})  # the last minutes only
        start, end = int(query["start"]), int(query["end"])
        if end - start > LONGEST_SEARCH.total_seconds():
            return Answer("range specified by start and end exceeds 168h0m0s", 400)
        conditions = re.findall(r'span\.([\w.]+) = ("(?:[^"\\]|\\.)*")', query["q"])
        wanted = [(key, json.loads(value)) for key, value in conditions]
        ids = self.traces(lambda span: _any(span, wanted), start, end)
        found = [
            {"traceID": id_.hex().lstrip("0"), "rootServiceName": "agent"}
            for id_ in ids[: int(query.get("limit", 20))]
        ]
        return Answer({"traces": found, "metrics": {}})

    def _trace(self, trace_id: str) -> Answer:
        groups = self._of(trace_id)
        if not groups:
            return Answer("", 404)
        if trace_id in self.partial:
            message = "trace exceeds the limit of 5000000 bytes"
            return Answer(
                {"trace": {"resourceSpans": groups[:1]}, "status": "PARTIAL", "message": message}
            )
        return Answer({"trace": {"resourceSpans": groups}})

    def _of(self, trace_id: str) -> list[Json]:
        return self.groups(lambda span: span.trace_id.hex() == trace_id)


def _any(span: Any, wanted: Iterable[tuple[str, str]]) -> bool:
    return any(
        pair.key == key and value in _texts(pair.value)
        for key, value in wanted
        for pair in span.attributes
    )


def _texts(value: Any) -> list[str]:
    return [value.string_value, *(item.string_value for item in value.array_value.values)]


@contextmanager
def serving(backend: Backend) -> Generator[Any]:
    """Serves a backend on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = backend.handle(self.path, self.headers)  # pyright: ignore[reportArgumentType]
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(answer.payload)))
            self.end_headers()
            self.wfile.write(answer.payload)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    backend.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield backend
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def file_exporter_lines(requests: Iterable[Any]) -> Iterator[str]:
    """As the collector's file exporter writes them: a request a line, ids in hex."""
    for request in requests:
        groups = [
            _as_jaeger(group, flat=False) for group in MessageToDict(request)["resourceSpans"]
        ]
        yield json.dumps({"resourceSpans": groups})


def moved(requests: Iterable[Any], by: Mapping[bytes, timedelta]) -> list[Any]:
    """Copies in which the spans of some traces began earlier or later."""
    copies: list[Any] = []
    for request in requests:
        copy = Request()
        copy.CopyFrom(request)
        for resource in copy.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    shift = int(by.get(span.trace_id, timedelta()).total_seconds() * 1e9)
                    span.start_time_unix_nano += shift
                    span.end_time_unix_nano += shift
        copies.append(copy)
    return copies
