"""What of a task's record spans can carry, by content mode."""

from __future__ import annotations

from typing import Any

from memplugin.diagnosis.task_record import TaskRecord


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
