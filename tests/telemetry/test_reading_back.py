"""What a receiver got, replayed into files and servers, reads back into the ledger's record."""

from __future__ import annotations

import gzip
import socket
import struct
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from memplugin import Need
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_from_spans import evidence_from_spans
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.errors import ConfigError
from memplugin.telemetry.readers.model import Read, Source, hex_id, spans_in
from memplugin.telemetry.readers.open import OtlpFile, open_source, read_task
from memplugin.telemetry.readers.servers import Jaeger, Tempo
from tests.telemetry.sent_task import TASK, Sent, W, send, trace_of
from tests.telemetry.trace_servers import (
    HTML,
    NO_PAGE,
    Answer,
    JaegerShaped,
    TempoShaped,
    file_exporter_lines,
    moved,
    serving,
)

NOW = datetime.now(UTC)
SINCE, UNTIL = NOW - timedelta(days=90), NOW + timedelta(days=1)


@pytest.fixture(
    scope="module", params=[("grpc", "hash"), ("http", "full")], ids=lambda p: "-".join(p)
)
def sent(request: pytest.FixtureRequest) -> Sent:
    return send(*request.param)


def read(source: Source, *record_ids: str) -> Read:
    return read_task(source, TASK, SINCE, UNTIL, record_ids)


# ---------------------------------------------------------------- files


def _lines(requests: list[Any]) -> bytes:
    return "\n".join(file_exporter_lines(requests)).encode() + b"\n"


def _framed(requests: list[Any]) -> bytes:
    messages = (request.SerializeToString() for request in requests)
    return b"".join(struct.pack(">I", len(message)) + message for message in messages)


def _one_request(requests: list[Any]) -> bytes:
    merged = type(requests[0])()
    for request in requests:
        merged.MergeFrom(request)
    return merged.SerializeToString()


FILES: dict[str, Callable[[list[Any]], bytes]] = {
    "JSON, a request a line": _lines,
    "JSON, compressed": lambda requests: gzip.compress(_lines(requests)),
    "binary, with lengths": _framed,
    "binary, one request": _one_request,
}


@pytest.mark.parametrize("form", FILES)
def test_a_file_reads_back_into_the_ledgers_record(sent: Sent, tmp_path: Path, form: str) -> None:
    file = tmp_path / "traces"
    file.write_bytes(FILES[form](sent.requests))
    found = read(OtlpFile(file))
    sent.agrees(found)
    assert found.notes == ()


def test_a_folder_of_rotated_files_is_read_as_one(sent: Sent, tmp_path: Path) -> None:
    lines = _lines(sent.requests).splitlines(keepends=True)
    for number, line in enumerate([*lines, lines[0]]):
        (tmp_path / f"traces-{number}.json").write_bytes(line)
    sent.agrees(read(OtlpFile(tmp_path)))


def test_a_line_that_was_cut_off_is_said_and_the_others_are_read(
    sent: Sent, tmp_path: Path
) -> None:
    file = tmp_path / "traces.json"
    file.write_bytes(_lines(sent.requests) + b'{"resourceMetrics":[]}\n{"resourceSp')
    found = read(OtlpFile(file))
    sent.agrees(found)
    (note,) = found.notes
    assert note.kind == "unreadable"
    assert "is no JSON" in note.text


def test_a_file_without_the_task_is_a_reading_that_says_so(sent: Sent, tmp_path: Path) -> None:
    file = tmp_path / "traces.json"
    file.write_bytes(_lines(sent.requests))
    found = read_task(OtlpFile(file), "t_9999", SINCE, UNTIL)
    assert found.spans == ()
    assert [note.kind for note in found.notes] == ["empty"]
    before = read_task(OtlpFile(file), TASK, SINCE, SINCE + timedelta(days=1))
    assert [note.kind for note in before.notes] == ["empty"]


def test_what_is_no_file_and_what_is_no_place_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        open_source(f"otlp:{tmp_path / 'none.json'}")
    for place in ("traces.json", "zipkin:http://host", "jaeger:", "tempo:host:3200"):
        with pytest.raises(ConfigError, match=r"use ledger, otlp:FILE|give http://host:port"):
            open_source(place)


# ---------------------------------------------------------------- servers

SERVERS: dict[str, Callable[[list[Any]], Any]] = {
    "jaeger": JaegerShaped,
    "jaeger, an older release": lambda requests: JaegerShaped(requests, older=True),
    "jaeger on Elasticsearch": lambda requests: JaegerShaped(requests, flat=True),
    "tempo": TempoShaped,
    "tempo, an older release": lambda requests: TempoShaped(requests, v2=False),
}


def source_of(backend: Any, **options: Any) -> Source:
    return (Tempo if isinstance(backend, TempoShaped) else Jaeger)(backend.url, **options)


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_reads_back_into_the_ledgers_record(sent: Sent, name: str) -> None:
    with serving(SERVERS[name](sent.requests)) as backend:
        found = read(source_of(backend))
        with_need = read(source_of(backend), sent.needed)
    sent.agrees(found)
    sent.agrees(with_need)
    assert found.notes == ()
    assert all(len(span.trace_id) == 32 for span in found.spans)


@pytest.mark.parametrize("name", SERVERS)
def test_sessions_weeks_apart_are_found_in_windows_and_put_together(sent: Sent, name: str) -> None:
    first = trace_of(sent, "s_1")
    weeks_ago = moved(sent.requests, {first: timedelta(days=-36)})
    with serving(SERVERS[name](weeks_ago)) as backend:
        sent.agrees(read(source_of(backend)))
    for path, query in backend.asked:
        if path == "/api/search":
            assert int(query["end"]) - int(query["start"]) <= 168 * 3600


@pytest.mark.parametrize("name", SERVERS)
def test_a_window_without_the_task_is_empty_and_says_what_to_check(sent: Sent, name: str) -> None:
    with serving(SERVERS[name](sent.requests)) as backend:
        found = read_task(source_of(backend), "t_9999", SINCE, UNTIL)
    assert found.spans == ()
    (note,) = found.notes
    assert note.kind == "empty"
    assert note.text.endswith("check the id, --since, sampling and retention.")


def test_a_trace_of_which_tempo_has_a_part_is_read_with_a_note(sent: Sent) -> None:
    part = trace_of(sent, "s_2").hex()
    with serving(TempoShaped(sent.requests, partial=frozenset({part}))) as backend:
        found = read(source_of(backend))
    (note,) = [note for note in found.notes if note.kind == "partial"]
    assert part in note.text
    assert "exceeds the limit of 5000000 bytes" in note.text
    assert found.spans


@pytest.mark.parametrize("name", ["jaeger", "tempo"])
def test_a_trace_that_wrote_candidates_and_is_gone_is_noted_and_the_verdict_stands(
    sent: Sent, name: str
) -> None:
    gone = trace_of(sent, "s_0")
    kept = moved(sent.requests, {})
    for request in kept:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                left = [span for span in scope.spans if span.trace_id != gone]
                del scope.spans[:]
                scope.spans.extend(left)
    with serving(SERVERS[name](kept)) as backend:
        found = read(source_of(backend))
    assert [note.kind for note in found.notes] == ["missing"]
    record = record_from_spans(found.spans, W, TASK)
    assert record is not None
    assert record.retrieval is not None
    assert len(record.retrieval.candidates) == 7
    for need in (sent.needed, record.retrieval.candidates[4].record_id):
        evidence = evidence_from_spans(found.spans, record, Need(record_ids=(need,)))
        verdict = attribute(record, Need(record_ids=(need,)), evidence)
        assert (verdict.stage, verdict.cause) == ("retrieval", "below_cutoff")


# ---------------------------------------------------------------- servers that do not answer so


@contextmanager
def _nobody() -> Generator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.parametrize("kind", [Jaeger, Tempo])
def test_nobody_listening_is_one_note_that_says_what_to_check(kind: Any) -> None:
    with _nobody() as url:
        found = read(kind(url))
    (note,) = found.notes
    assert note.kind == "refused"
    assert f"at {url} does not answer" in note.text
    assert "check the URL" in note.text


def test_something_that_speaks_no_http_is_one_note() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        answering = Thread(target=_greet, args=(listener,), daemon=True)
        answering.start()
        found = read(Jaeger(url, timeout=5))
        answering.join()
    assert [note.kind for note in found.notes] == ["refused"]


def _greet(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")


def test_a_server_that_is_silent_costs_one_timeout() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = read(Tempo(url, timeout=0.2))
    assert [note.kind for note in found.notes] == ["refused"]


ANSWERS: dict[str, tuple[Answer, str, str]] = {
    "a login page": (HTML, "unreadable", "HTML page"),
    "another service": (NO_PAGE, "unreadable", "Check the URL|check the URL"),
    "another JSON": (Answer(["ok"]), "unreadable", "Check the URL|check the URL"),
    "an error": (Answer("out of memory", 500), "refused", "answered 500: out of memory"),
    "a gateway": (Answer("<html>Bad Gateway</html>", 502), "unreadable", "502 with an HTML"),
}


@pytest.mark.parametrize("shape", [JaegerShaped, TempoShaped])
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_that_is_none_is_a_note_in_words(shape: Any, name: str) -> None:
    answer, kind, words = ANSWERS[name]
    with serving(shape([], answer=answer)) as backend:
        found = read(source_of(backend))
    assert found.spans == ()
    (note,) = found.notes
    assert note.kind == kind
    assert any(word in note.text for word in words.split("|"))


@pytest.mark.parametrize("shape", [JaegerShaped, TempoShaped])
def test_credentials_are_asked_for_and_sent(sent: Sent, shape: Any) -> None:
    with serving(shape(sent.requests, token="Bearer secret")) as backend:
        refused = read(source_of(backend))
        sent.agrees(read(source_of(backend, headers={"Authorization": "Bearer secret"})))
    (note,) = refused.notes
    assert note.kind == "refused"
    assert "answered 401" in note.text
    assert "--headers" in note.text


# ---------------------------------------------------------------- the model


@pytest.mark.parametrize(
    ("given", "length", "expected"),
    [
        ("0af7651916cd43dd8448eb211c80319c", 32, "0af7651916cd43dd8448eb211c80319c"),
        ("AF7651916CD43DD8448EB211C80319C", 32, "0af7651916cd43dd8448eb211c80319c"),
        ("CvdlGRbNQ92ESOshHIAxnA==", 32, "0af7651916cd43dd8448eb211c80319c"),
        ("t62q6zOADMU=", 16, "b7adaaeb33800cc5"),
        ("b7adaaeb33800cc5", 16, "b7adaaeb33800cc5"),
        ("5", 16, "0000000000000005"),
    ],
)
def test_an_id_is_read_from_hex_and_base64_with_and_without_zeros(
    given: str, length: int, expected: str
) -> None:
    assert hex_id(given, length) == expected


@pytest.mark.parametrize("given", ["", None, "no hex", "0af7651916cd43dd8448eb211c80319c0"])
def test_what_is_no_id_is_refused(given: str | None) -> None:
    with pytest.raises(ValueError, match="is no id"):
        hex_id(given, 32)


def test_enums_and_numbers_are_read_as_numbers_names_and_strings() -> None:
    def span(**fields: Any) -> Any:
        whole = {"traceId": "1", "spanId": "2", "name": "x", **fields}
        envelope = {"resourceSpans": [{"scopeSpans": [{"spans": [whole]}]}]}
        return next(iter(spans_in(envelope)))

    for kind in (3, "3", "SPAN_KIND_CLIENT"):
        assert span(kind=kind).kind == "CLIENT"
    for code in (2, "STATUS_CODE_ERROR"):
        assert span(status={"code": code}).status == "ERROR"
    assert span(startTimeUnixNano="1700000000000000001").start == 1700000000000000001
    assert span(startTimeUnixNano=1700000000000000001).start == 1700000000000000001
    counted = span(attributes=[{"key": "n", "value": {"intValue": "7"}}])
    assert (counted.whole("n"), counted.number("n"), counted.text("n")) == (7, 7.0, "7")


def test_arrays_that_a_store_made_text_are_arrays_again() -> None:
    def span(value: str) -> Any:
        attributes = [{"key": "a", "value": {"stringValue": value}}]
        whole = {"traceId": "1", "spanId": "2", "attributes": attributes}
        return next(iter(spans_in({"batches": [{"scopeSpans": [{"spans": [whole]}]}]})))

    assert span('["m_1","m_2"]').texts("a") == ("m_1", "m_2")
    assert span("[0.5,1]").numbers("a") == (0.5, 1.0)
    assert span("[true,false]").flags("a") == (True, False)
    assert span("no array").texts("a") == ()
