from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.otlp_receivers import Received, attributes, grpc_receiver, http_receiver

WORKSPACE = ("--workspace", "ws_8841")


@pytest.fixture
def collector() -> Iterator[Received]:
    with http_receiver() as received:
        yield received


def test_a_task_is_sent_with_the_writes_of_what_it_recalled(run, filled, collector):
    done = run("emit", "t_0417", *WORKSPACE, "--otlp", collector.endpoint, store=filled.path)
    assert (done.code, done.err) == (0, "")
    sent = {(span.name, attributes(span)["memplugin.task.id"]) for span in collector.spans}
    assert sent >= {
        ("upsert_memory", "t_0311"),
        ("search_memory", "t_0417"),
        ("use_memory", "t_0417"),
        ("report_outcome", "t_0417"),
        ("memory_task", "t_0417"),
    }
    assert {task for _, task in sent} == {"t_0311", "t_0417"}
    assert all(attributes(span)["memplugin.rebuilt"] for span in collector.spans)
    assert f"{len(collector.spans)} spans of t_0417" in done.out
    assert collector.endpoint in done.out
    assert collector.spans[0].trace_id.hex() in done.out


def test_the_url_may_stand_before_the_command_and_grpc_works_too(run, filled):
    with grpc_receiver() as received:
        url = received.endpoint.replace("http", "grpc")
        done = run("--otlp", url, "emit", "t_0417", *WORKSPACE, store=filled.path)
        assert (done.code, done.err) == (0, "")
        assert received.named("search_memory")


def test_a_second_time_it_says_so_and_sends_nothing(run, filled, collector):
    arguments = ("emit", "t_0417", *WORKSPACE, "--otlp", collector.endpoint)
    first = run(*arguments, "--json", store=filled.path)
    count = len(collector.spans)
    second = run(*arguments, store=filled.path)
    assert second.code == 0
    assert "already" in second.out
    assert "--again" in second.out
    assert len(collector.spans) == count
    third = run(*arguments, "--again", "--json", store=filled.path)
    assert first.json["trace_ids"] == third.json["trace_ids"]
    assert len(collector.spans) == 2 * count


def test_the_service_is_memplugin_or_what_the_environment_says(
    run, filled, collector, monkeypatch: pytest.MonkeyPatch
):
    arguments = ("emit", "t_0417", *WORKSPACE, "--otlp", collector.endpoint, "--again")
    run(*arguments, store=filled.path)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "board-agent")
    run(*arguments, store=filled.path)
    services = [
        attributes(group.resource)["service.name"]
        for request in collector.requests
        for group in request.resource_spans
    ]
    assert sorted(set(services)) == ["board-agent", "memplugin"]


def test_without_a_collector_it_says_how_to_name_one(run, filled, monkeypatch: pytest.MonkeyPatch):
    for variable in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    done = run("emit", "t_0417", *WORKSPACE, store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "--otlp http://host:4318" in done.err


def test_a_collector_that_is_not_there_is_an_error_and_the_next_try_sends(run, filled, collector):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = run("emit", "t_0417", *WORKSPACE, "--otlp", dead, store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "did not arrive" in done.err
    done = run("emit", "t_0417", *WORKSPACE, "--otlp", collector.endpoint, store=filled.path)
    assert done.code == 0
    assert collector.named("search_memory")


def test_a_task_that_is_not_there_or_in_two_workspaces(run, filled, collector):
    to = ("--otlp", collector.endpoint)
    missing = run("emit", "t_9", *to, store=filled.path)
    assert (missing.code, "there is no task 't_9'" in missing.err) == (1, True)
    elsewhere = run("emit", "t_0417", "-w", "ws_3", *to, store=filled.path)
    assert (elsewhere.code, "workspace 'ws_3'" in elsewhere.err) == (1, True)
    unsaid = run("emit", "t_0417", *to, store=filled.path)
    assert (unsaid.code, "--workspace" in unsaid.err) == (2, True)
    assert collector.spans == []
