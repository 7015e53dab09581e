"""Which backend to read from, as a user writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from memplugin.errors import ConfigError
from memplugin.telemetry import names
from memplugin.telemetry.readers.jaeger import Jaeger
from memplugin.telemetry.readers.model import Note, Read, ReadSpan, Source, merged
from memplugin.telemetry.readers.otlp import OtlpFile
from memplugin.telemetry.readers.tempo import Tempo


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
    """
    read = source.spans_of_task(task_id, since, until)
    if not read.spans:
        return read
    referred = _referred(read.spans, task_id)
    if referred:
        read = merged([read, _told_once(source.spans_of_traces(referred, since, until))])
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


def _told_once(read: Read) -> Read:
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
