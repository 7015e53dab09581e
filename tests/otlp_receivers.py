"""Real OTLP receivers on loopback sockets: gRPC and HTTP."""

from __future__ import annotations

import gzip
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span

Request = trace_service_pb2.ExportTraceServiceRequest
Response = trace_service_pb2.ExportTraceServiceResponse


@dataclass
class Received:
    """What came in, and where to send it."""

    endpoint: str
    requests: list[Any] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def add(self, request: Any) -> None:
        with self.lock:
            self.requests.append(request)

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


def attributes(span: Any) -> dict[str, Any]:
    """A span's or link's attributes as Python values."""
    return {pair.key: _value(pair.value) for pair in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]
    return getattr(value, kind) if kind else None


@contextmanager
def grpc_receiver() -> Generator[Received]:
    """An OTLP/gRPC receiver on a free port."""
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    received = Received(f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")

    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 -- the protocol's name
            received.add(request)
            return Response()

    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
    server.start()
    try:
        yield received
    finally:
        server.stop(grace=None).wait()


@contextmanager
def http_receiver() -> Generator[Received]:
    """An OTLP/HTTP receiver (binary protobuf) on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path != "/v1/traces":
                self.send_error(404)
                return
            request = Request()
            request.ParseFromString(body)
            received.add(request)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.end_headers()
            self.wfile.write(Response().SerializeToString())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Received(f"http://127.0.0.1:{server.server_address[1]}")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
