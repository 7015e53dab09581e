"""``--from``: a task's record and the verdict from traces, without a store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplugin.cli.options import moment
from memplugin.errors import ConfigError
from tests.telemetry.sent_task import TASK, Sent, W, send
from tests.telemetry.trace_servers import (
    HTML,
    JaegerShaped,
    TempoShaped,
    file_exporter_lines,
    serving,
)

NEED = "--need"
WORKSPACE = ("--workspace", W)


@pytest.fixture(scope="module")
def sent() -> Sent:
    return send("http", "hash")


@pytest.fixture
def file(sent: Sent, tmp_path: Path) -> str:
    path = tmp_path / "traces.json"
    path.write_text("\n".join(file_exporter_lines(sent.requests)), encoding="utf-8")
    return f"otlp:{path}"


def test_the_record_of_a_file_is_the_ledgers(
    run: Callable[..., Any], sent: Sent, file: str
) -> None:
    shown = run("task", TASK, "--from", file, "--json")
    assert (shown.code, shown.err) == (0, "")
    ranked = [c["record_id"] for c in shown.json["retrieval"]["candidates"]]
    assert sent.record.retrieval is not None
    assert ranked == [c.record_id for c in sent.record.retrieval.candidates]
    assert sent.needed in run("task", TASK, "--from", file).out


@pytest.mark.parametrize("shape", [JaegerShaped, TempoShaped])
def test_the_verdict_of_a_server_is_the_ledgers(
    run: Callable[..., Any], sent: Sent, shape: Any
) -> None:
    kind = "tempo" if shape is TempoShaped else "jaeger"
    with serving(shape(sent.requests)) as backend:
        place = f"{kind}:{backend.url}"
        shown = run("diagnose", TASK, NEED, sent.needed, "--from", place, *WORKSPACE, "--json")
    assert (shown.code, shown.err) == (0, "")
    (verdict,) = shown.json["verdicts"]
    assert (verdict["stage"], verdict["cause"], verdict["rank"]) == ("retrieval", "below_cutoff", 7)


def test_what_only_the_ledger_knows_is_undetermined_and_says_so(
    run: Callable[..., Any], file: str
) -> None:
    shown = run("diagnose", TASK, "--correction", "report net of tax", "--from", file, "--json")
    assert shown.code == 1
    (verdict,) = shown.json["verdicts"]
    assert (verdict["stage"], verdict["cause"]) == ("undetermined", "not_traced")
    assert "hashed or left out" in verdict["evidence"][0]


def test_a_task_without_spans_is_a_no_with_what_to_check(
    run: Callable[..., Any], file: str
) -> None:
    shown = run("task", "t_9999", "--from", file)
    assert shown.code == 1
    assert "no span of task 't_9999'" in shown.err
    assert "--since" in shown.err
    elsewhere = run("task", TASK, "--from", file, "--workspace", "ws_2")
    assert elsewhere.code == 1


def test_a_backend_that_refuses_is_one_line_and_exit_code_2(
    run: Callable[..., Any], sent: Sent
) -> None:
    with serving(TempoShaped(sent.requests, answer=HTML)) as backend:
        shown = run("task", TASK, "--from", f"tempo:{backend.url}")
    assert (shown.code, shown.out) == (2, "")
    assert len(shown.err.splitlines()) == 1
    assert "HTML page" in shown.err


def test_a_partial_trace_is_said_on_stderr_beside_the_result(
    run: Callable[..., Any], sent: Sent
) -> None:
    part = frozenset(s.trace_id.hex() for s in _spans(sent))
    with serving(TempoShaped(sent.requests, partial=part)) as backend:
        shown = run("task", TASK, "--from", f"tempo:{backend.url}", "--json")
    assert shown.code == 0
    assert json.loads(shown.out)["task_id"] == TASK
    assert "gave a part of trace" in shown.err


def _spans(sent: Sent) -> list[Any]:
    return [
        span
        for request in sent.requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def test_headers_are_sent_as_opentelemetry_writes_them(
    run: Callable[..., Any], sent: Sent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(JaegerShaped(sent.requests, token="Bearer secret")) as backend:
        place = ("--from", f"jaeger:{backend.url}")
        assert run("task", TASK, *place).code == 2
        given = ("--headers", "Authorization=Bearer%20secret,X-Scope-OrgID=one")
        assert run("task", TASK, *place, *given).code == 0
        monkeypatch.setenv("MEMPLUGIN_TRACE_HEADERS", given[1])
        assert run("task", TASK, *place).code == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--from", "zipkin:http://host"), "use ledger, otlp:FILE"),
        (("--from", "otlp:/nowhere"), "there is no file"),
        (("--since", "90d"), "give --from as well"),
        (("--from", "tempo:http://h", "--since", "soon"), "give an age"),
        (("--from", "tempo:http://h", "--since", "1d", "--until", "2d"), "is not before --until"),
    ],
)
def test_options_that_can_not_work_are_refused(
    run: Callable[..., Any], options: tuple[str, ...], words: str
) -> None:
    shown = run("task", TASK, *options)
    assert shown.code == 2
    assert words in shown.err


def test_without_a_task_there_is_nothing_to_search_traces_for(
    run: Callable[..., Any], file: str
) -> None:
    shown = run("diagnose", "--from", file, *WORKSPACE)
    assert shown.code == 2
    assert "give task ids" in shown.err


def test_a_time_without_a_zone_is_utc() -> None:
    assert moment("2026-03-02", "--since").isoformat() == "2026-03-02T00:00:00+00:00"
    assert moment("2026-03-02T09:14:11+01:00", "--since").utcoffset() is not None
    with pytest.raises(ConfigError, match="give an age"):
        moment("yesterday", "--since")
