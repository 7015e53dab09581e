"""Reading what annotators exported from Label Studio."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast, get_args

from memplugin.errors import ConfigError
from memplugin.records import Json, Judgement, Stage
from memplugin.text import clean

_HOW = 'in Label Studio choose Export, and there "JSON" (not JSON-MIN or CSV)'


@dataclass(frozen=True, slots=True)
class Annotations:
    """What was in a file.

    Attributes:
        said: One for each task and annotator, the last.
        empty: Annotations that name no stage, or were skipped by the annotator.
        tasks: How many tasks the file has.
    """

    said: tuple[Judgement, ...]
    empty: int
    tasks: int


def read_annotations(path: Path) -> Annotations:
    """Reads Label Studio's JSON export.

    Raises:
        ConfigError: it is none, or not of tasks that memplugin has exported.
    """
    tasks = _tasks(path)
    said: dict[tuple[str, str, str], Judgement] = {}
    empty = 0
    for task in tasks:
        for annotation in sorted(_annotations(task, path), key=_when):
            judgement = _judgement(task["data"], annotation)
            if judgement is None:
                empty += 1
            else:
                said[judgement.workspace_id, judgement.task_id, judgement.by] = judgement
    return Annotations(tuple(said.values()), empty, len(tasks))


def _tasks(path: Path) -> list[Json]:
    try:
        read: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error}. Check the path.") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}): {_HOW}.") from error
    if not isinstance(read, list):
        raise ConfigError(f"{path} is no list of tasks: {_HOW}.")
    for task in cast(list[Any], read):
        data: Any = task.get("data") if isinstance(task, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- of a file
        if not isinstance(data, dict) or not {"workspace_id", "task_id"} <= set(cast(Json, data)):
            raise ConfigError(
                f"{path} has a task that memplugin did not export, or is no full export: {_HOW}."
            )
    return cast(list[Json], read)


def _annotations(task: Json, path: Path) -> Iterator[Json]:
    there = task.get("annotations", task.get("completions"))
    if not isinstance(there, list):
        raise ConfigError(f"{path} has no annotations: {_HOW}.")
    yield from cast(list[Json], there)


def _judgement(data: Mapping[str, Any], annotation: Json) -> Judgement | None:
    chosen = _chosen(annotation)
    stage = chosen.get("stage")
    if annotation.get("was_cancelled") or stage not in get_args(Stage):
        return None
    should_use = chosen.get("should_use")
    return Judgement(
        workspace_id=str(data["workspace_id"]),
        task_id=str(data["task_id"]),
        by=_annotator(annotation.get("completed_by")),
        stage=cast(Stage, stage),
        at=_when(annotation),
        should_use=None if should_use is None else should_use == "yes",
        note=chosen.get("note"),
    )


def _chosen(annotation: Json) -> dict[str, str]:
    found: dict[str, str] = {}
    for region in cast(list[Json], annotation.get("result") or []):
        value = cast(Json, region.get("value") or {})
        texts = cast(list[Any], value.get("choices") or value.get("text") or [])
        if texts:
            found[str(region.get("from_name"))] = clean(str(texts[0]))
    return found


def _annotator(by: object) -> str:
    """Label Studio gives a number, or an object with the address; people are told apart."""
    if isinstance(by, dict):
        who = cast(Json, by)
        by = who.get("email") or who.get("id")
    return f"annotator {clean(str(by))}" if by is not None else "annotator"


def _when(annotation: Json) -> datetime:
    given = str(annotation.get("updated_at") or annotation.get("created_at") or "")
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)  # an export without times: none is later
    return at if at.tzinfo else at.replace(tzinfo=UTC)
