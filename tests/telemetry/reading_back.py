"""Finished spans as a backend would give them back, and what of a record spans can carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from memplugin.diagnosis.task_record import TaskRecord
from memplugin.telemetry.readers.envelope import spans_in
from memplugin.telemetry.readers.model import ReadSpan


def read_back(spans: Iterable[ReadableSpan]) -> list[ReadSpan]:
    """Through OTLP's own encoding and the readers' parser."""
    return list(spans_in(MessageToDict(encode_spans(list(spans)))))


def comparable(record: TaskRecord, mode: str) -> Any:
    """A record without what spans of a content mode leave out."""
    told = record.to_json()
    if mode == "full":
        return told
    for entry in told["writes"]:
        entry["reason"] = (entry["reason"] or "").partition(":")[0]
        for text in ("content", "scope", "claim"):
            del entry[text]
    for retrieval in (told["retrieval"], *told["retrievals"]):
        if retrieval:
            del retrieval["query"]
            retrieval["filters"]["scope"] = sorted(retrieval["filters"]["scope"])
            for candidate in retrieval["candidates"]:
                del candidate["content"]
    del told["use"]["answer"]
    for override in told["use"]["overrides"]:
        for text in ("answer", "claimed", "scope"):
            del override[text]
    return told
