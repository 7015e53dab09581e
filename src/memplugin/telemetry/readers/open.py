"""Where spans are read from: ``open_source`` opens a place, ``read_task`` reads a task there.

A place is a Jaeger or Tempo server, or files of the collector's file exporter.
"""

from __future__ import annotations

import gzip
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from memplugin.errors import ConfigError
from memplugin.telemetry import names
from memplugin.telemetry.readers.http import within
from memplugin.telemetry.readers.model import (
    Note,
    Read,
    ReadSpan,
    Source,
    is_envelope,
    merged,
    spans_in,
)
from memplugin.telemetry.readers.servers import Jaeger, Tempo


def open_source(place: str, headers: Mapping[str, str] | None = None) -> Source:
    """Opens ``otlp:FILE``, ``jaeger:URL`` or ``tempo:URL``.

    Raises:
        ConfigError: it is none of these, or the file can't be read.
    """
    kind, _, where = place.partition(":")
    if kind == "otlp" and where:
        return OtlpFile(where)
    if kind == "jaeger" and where:
        return Jaeger(where, headers=headers)
    if kind == "tempo" and where:
        return Tempo(where, headers=headers)
    raise ConfigError(
        f"{place!r} is no place to read from: use ledger, otlp:FILE, jaeger:http://host:16686 or "
        "tempo:http://host:3200."
    )


def read_task(
    source: Source,
    task_id: str,
    since: datetime,
    until: datetime,
    record_ids: Iterable[str] = (),
) -> Read:
    """Reads a task's traces, and those that its spans refer to.

    Args:
        source: Where to read.
        task_id: The task.
        since: Traces from then on,
        until: up to then.
        record_ids: Records that should have been used: what wrote, replaced or deleted
            them is read too.

    Returns:
        The spans of all these traces, with notes on what is lacking.
    """
    read = source.spans_of_task(task_id, since, until)
    if not read.spans:
        return read
    referred = _referred(read.spans, task_id)
    if referred:
        read = merged([read, _one_missing_note(source.spans_of_traces(referred, since, until))])
    # What was written here may have been replaced or deleted in another task.
    others = [source.spans_of_record(record_id, since, until) for record_id in record_ids]
    return merged([read, *(_unless_empty(other) for other in others)])


def _referred(spans: Sequence[ReadSpan], task_id: str) -> list[str]:
    """Ids of traces that the task's spans point at and that were not read with them."""
    known = {span.trace_id for span in spans}
    pointers = [
        traceparent.split("-")
        for span in spans
        if span.text(names.TASK_ID) == task_id
        for key in (names.CANDIDATE_WRITTEN_BY, names.LINKED_SPANS)
        for traceparent in span.texts(key)
    ]
    # The last part says whether it was sampled: what was not is nowhere to be read.
    ids = (parts[1] for parts in pointers if len(parts) == 4 and parts[3] == "01")
    return [trace_id for trace_id in dict.fromkeys(ids) if trace_id not in known]


def _unless_empty(read: Read) -> Read:
    """Without the note that nothing is there: few records are ever written about again."""
    return Read(read.spans, tuple(note for note in read.notes if note.kind != "empty"))


def _one_missing_note(read: Read) -> Read:
    """One note for all traces that are missing: past retention there may be many."""
    missing = [note for note in read.notes if note.kind == "missing"]
    if len(missing) < 2:
        return read
    others = tuple(note for note in read.notes if note.kind != "missing")
    text = (
        f"{len(missing)} traces that wrote its candidates or came before it are not there: "
        "they may be past retention, or the sampling of others dropped them"
    )
    return Read(read.spans, (*others, Note("missing", text)))


# ---------------------------------------------------------------- files

_LENGTH = struct.Struct(">I")
"""Before each request of a file exporter with ``format: proto``."""


class OtlpFile:
    """Spans in a file, or in all files of a folder (the exporter rotates them).

    Accepted are JSON (one request a line, or one document), binary requests (one, or
    each with its length in front), and both compressed with gzip.

    Raises:
        ConfigError: there is no such file, or it can't be read.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path).expanduser()
        if not self._path.exists():
            raise ConfigError(f"there is no file {self._path}: check the path after otlp:.")
        self._read = merged(_read(file) for file in self._files())

    def spans_of_task(self, task_id: str, since: datetime, until: datetime) -> Read:
        """See ``Source``."""
        return self._traces_with(
            lambda span: span.text(names.TASK_ID) == task_id, f"task {task_id!r}", since, until
        )

    def spans_of_record(self, record_id: str, since: datetime, until: datetime) -> Read:
        """See ``Source``."""

        def touches(span: ReadSpan) -> bool:
            written = (*span.texts(names.RECORD_IDS), *span.texts(names.REPLACED_IDS))
            return record_id in written or span.text(names.RECORD_ID) == record_id

        return self._traces_with(touches, f"record {record_id!r}", since, until)

    def spans_of_traces(self, trace_ids: Iterable[str], since: datetime, until: datetime) -> Read:
        """See ``Source``."""
        del since, until  # an id is wherever it is
        wanted = set(trace_ids)
        spans = tuple(span for span in self._read.spans if span.trace_id in wanted)
        missing = wanted - {span.trace_id for span in spans}
        notes = tuple(
            Note("missing", f"trace {id_} is not in {self._path}") for id_ in sorted(missing)
        )
        return Read(spans, (*self._read.notes, *notes))

    def _traces_with(
        self, wanted: Callable[[ReadSpan], bool], what: str, since: datetime, until: datetime
    ) -> Read:
        there = [span for span in self._read.spans if within(span, since, until)]
        traces = {span.trace_id for span in there if wanted(span)}
        notes = list(self._read.notes)
        if not traces:
            text = f"no span of {what} is in {self._path}: check the id, --since and --until."
            notes.append(Note("empty", text))
        return Read(tuple(s for s in self._read.spans if s.trace_id in traces), tuple(notes))

    def _files(self) -> list[Path]:
        if self._path.is_file():
            return [self._path]
        return sorted(file for file in self._path.iterdir() if file.is_file())


def _read(file: Path) -> Read:
    try:
        data = file.read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError) as error:
        raise ConfigError(f"{file} can't be read ({error}): check it.") from error
    requests = _json_requests if data.lstrip()[:1] == b"{" else _binary_requests
    return merged(requests(data, file))


def _json_requests(data: bytes, file: Path) -> Iterator[Read]:
    try:
        # One document may stand on many lines.
        yield _spans_of(json.loads(data), file, 1)
        return
    except ValueError:
        pass  # then it is a document a line
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            document = json.loads(line)
        except ValueError:
            yield _unreadable(file, f"line {number} is no JSON: it may have been cut off.")
            continue
        yield _spans_of(document, file, number)


def _spans_of(document: Any, file: Path, number: int) -> Read:
    if not is_envelope(document):
        return Read()  # logs and metrics may stand in the same file
    try:
        return Read(tuple(spans_in(document)))
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        return _unreadable(file, f"request {number} is no OTLP ({error}).")


def _binary_requests(data: bytes, file: Path) -> Iterator[Read]:
    for number, message in enumerate(_framed(data) or [data], start=1):
        try:
            request = ExportTraceServiceRequest.FromString(message)
        except DecodeError:
            yield _unreadable(file, f"request {number} is no OTLP: name a file with spans.")
            continue
        yield _spans_of(MessageToDict(request), file, number)


def _framed(data: bytes) -> list[bytes] | None:
    """The messages of a file with lengths; None when the lengths do not add up."""
    messages: list[bytes] = []
    place = 0
    while place + _LENGTH.size <= len(data):
        (length,) = _LENGTH.unpack_from(data, place)
        place += _LENGTH.size
        messages.append(data[place : place + length])
        place += length
    return messages if place == len(data) else None


def _unreadable(file: Path, text: str) -> Read:
    return Read(notes=(Note("unreadable", f"{file}: {text}"),))
