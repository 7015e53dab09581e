from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from memplugin.cli.otlp import Spans
from memplugin.errors import ConfigError
from tests.otlp_receivers import Received, attributes, grpc_receiver, http_receiver

WORKSPACE = ("--workspace", "ws_8841")
LONGEST = 2.0
"""Seconds that a dead collector may cost."""


@dataclass
class Collector:
    url: str
    received: Received


@pytest.fixture(params=["http", "grpc"])
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    receiver = http_receiver if request.param == "http" else grpc_receiver
    with receiver() as received:
        yield Collector(received.endpoint.replace("http", request.param), received)


@pytest.fixture
def http_collector() -> Iterator[Received]:
    with http_receiver() as received:
        yield received


@pytest.fixture(params=["refuses", "is silent"])
def dead_port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port where nobody listens, and one where somebody listens and never answers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            taken.listen()
        yield taken.getsockname()[1]


def forget(filled: Any) -> tuple[str, ...]:
    return ("forget", filled.cited, *WORKSPACE, "--reason", "asked", "--yes", "--json")


def test_forgetting_is_a_span_of_the_task_that_wrote_the_record(run, filled, collector):
    done = run("--otlp", collector.url, *forget(filled), store=filled.path)
    assert done.code == 0
    (span,) = collector.received.spans
    assert span.name == "delete_memory"
    assert attributes(span)["memplugin.task.id"] == "t_0311"
    assert attributes(span)["gen_ai.memory.record.id"] == filled.cited


def test_a_verdict_is_a_span_under_the_tasks_id(run, filled, collector):
    arguments = ("diagnose", "t_0417", *WORKSPACE, "--need", filled.ranked_low)
    done = run("--otlp", collector.url, *arguments, store=filled.path)
    assert (done.code, done.err) == (0, "")
    (span,) = collector.received.spans
    shown = attributes(span)
    assert (span.name, shown["memplugin.task.id"]) == ("memory_task", "t_0417")
    assert shown["memplugin.verdict.stage"] == "retrieval"
    assert shown["memplugin.verdict.cause"] == "below_cutoff"


def test_the_service_is_memplugin(run, filled, http_collector):
    run("--otlp", http_collector.endpoint, "diagnose", "t_0417", *WORKSPACE, store=filled.path)
    (request,) = http_collector.requests
    assert attributes(request.resource_spans[0].resource)["service.name"] == "memplugin"


@pytest.mark.parametrize(
    ("path", "arrives"), [("", True), ("/", True), ("/v1/traces", True), ("/other", False)]
)
def test_a_urls_path_is_kept_and_the_usual_one_is_added(run, filled, http_collector, path, arrives):
    url = http_collector.endpoint + path
    done = run("--otlp", url, "diagnose", "t_0417", *WORKSPACE, store=filled.path)
    assert (len(http_collector.spans) == 1) is arrives
    assert ("could not be sent" in done.err) is not arrives


def test_opentelemetrys_own_variable_works_too(run, filled, http_collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", http_collector.endpoint)
    run("diagnose", "t_0417", *WORKSPACE, store=filled.path)
    assert len(http_collector.spans) == 1


def test_commands_that_only_look_send_nothing(run, filled, http_collector):
    for command in (("check", "tax", *WORKSPACE), ("task", "t_0501"), ("doctor",)):
        run("--otlp", http_collector.endpoint, *command, store=filled.path)
    assert http_collector.requests == []


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_dead_collector_changes_no_result_and_is_said_in_one_line(run, filled, dead_port, scheme):
    url = f"{scheme}://127.0.0.1:{dead_port}"
    done = run("--otlp", url, *forget(filled), store=filled.path)
    assert (done.code, done.json["status"]) == (0, "forgotten")
    assert done.err.splitlines()[-1] == (
        f"memplugin: spans could not be sent to {url}: check that a collector listens there."
    )
    assert len(done.err.splitlines()) == 2  # and the record that was to be erased


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_dead_collector_costs_two_seconds_at_most(dead_port, scheme, capsys):
    spans = Spans(f"{scheme}://127.0.0.1:{dead_port}")
    provider = spans.provider()
    assert provider is not None
    provider.get_tracer("test").start_span("one").end()

    begun = time.monotonic()
    spans.close()
    assert time.monotonic() - begun < LONGEST
    assert "could not be sent" in capsys.readouterr().err


def test_without_a_collector_there_is_no_provider(run, monkeypatch):
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", raising=False)
    spans = Spans(None)
    assert (spans.target, spans.provider()) == (None, None)
    spans.close()


@pytest.mark.parametrize(
    "url", ["localhost:4318", "4318", "ftp://host", "http://", "http://host:port", "http://[::1"]
)
def test_a_url_of_no_collector_is_refused_with_one_that_works(url):
    with pytest.raises(ConfigError, match=r"give --otlp http://host:4318 .* or grpc://host:4317"):
        Spans(url).provider()
