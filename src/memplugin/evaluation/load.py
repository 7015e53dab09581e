"""Reads suites from files; every error names the file, the task and the field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from memplugin.errors import ConfigError
from memplugin.evaluation.suite import Suite

STARTER = "starter"
"""The name of the suite that comes with the package."""


def load_suite(path: Path) -> Suite:
    """Reads a suite from YAML (a mapping with ``tasks``) or JSONL (a task on each line).

    A line of JSONL without an ``id`` holds what belongs to the whole suite: ``name``,
    ``settings``, ``corpora``. Without a name the suite is called like its file.

    Raises:
        ConfigError: there is no such file, or it is no suite; the message names the task
            and the field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} can't be read as a suite ({error}): check the path.") from error
    given = _jsonl(path, text) if path.suffix in (".jsonl", ".ndjson") else _yaml(path, text)
    return suite_of({"name": path.stem, **given}, source=str(path))


def starter_suite() -> Suite:
    """The suite that comes with the package: the faults that users of memory report."""
    text = resources.files("memplugin.evaluation").joinpath("starter.yaml").read_text("utf-8")
    return suite_of(cast(dict[str, Any], yaml.safe_load(text)), source="starter.yaml")


def suite_of(given: Mapping[str, Any], *, source: str) -> Suite:
    """Makes a suite from plain values.

    Raises:
        ConfigError: something is missing or wrong; ``source`` is named in the message.
    """
    try:
        return Suite.model_validate(dict(given))
    except ValidationError as error:
        problems = [
            f"{_place(problem, given)}: {_message(problem)}"
            for problem in error.errors(include_url=False, include_context=False)
        ]
        more = f" (and {len(problems) - 5} more)" if len(problems) > 5 else ""
        raise ConfigError(
            f"{source} is no suite that can be run. {'; '.join(problems[:5])}{more}. Correct "
            "the file."
        ) from error


# ---------------------------------------------------------------- the two forms


def _yaml(path: Path, text: str) -> dict[str, Any]:
    try:
        given = cast(object, yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is no YAML: {_one_line(error)}. Correct the file.") from error
    if isinstance(given, list):
        return {"tasks": given}
    if not isinstance(given, Mapping):
        raise ConfigError(f"{path} holds no suite: give a mapping with tasks, or a list of tasks.")
    return {str(key): value for key, value in cast(Mapping[Any, Any], given).items()}


def _jsonl(path: Path, text: str) -> dict[str, Any]:
    suite: dict[str, Any] = {}
    tasks: list[Any] = []
    for number, line in _lines(text):
        try:
            value = cast(object, json.loads(line))
        except ValueError as error:
            raise ConfigError(
                f"{path}, line {number} is no JSON ({error}): give one task on each line."
            ) from error
        if isinstance(value, dict) and "id" not in value and {"name", "corpora"} & value.keys():
            suite |= cast(dict[str, Any], value)
        else:
            tasks.append(value)
    return {**suite, "tasks": tasks}


def _lines(text: str) -> Iterator[tuple[int, str]]:
    # Not splitlines(): JSON may hold characters that end a line for it.
    return ((n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip())


# ---------------------------------------------------------------- what was wrong, and where


def _place(problem: ErrorDetails, given: Mapping[str, Any]) -> str:
    path = list(problem["loc"])
    if len(path) < 2 or path[0] != "tasks" or not isinstance(path[1], int):
        return _dotted(path) or "the suite"
    number = path[1]
    task = cast(list[object], given["tasks"])[number]
    name = cast(dict[str, object], task).get("id") if isinstance(task, dict) else None
    where = f"task {name!r}" if name else f"task number {number + 1}"
    field = _dotted(path[2:])
    return f"{where}, {field}" if field else where


def _dotted(path: Iterable[int | str]) -> str:
    # Pydantic names the branches of a union too ("literal['a','b']"): no file has such a field.
    named = (step for step in path if isinstance(step, int) or "[" not in step)
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in named)
    return steps.lstrip(".")


def _message(problem: ErrorDetails) -> str:
    if problem["type"] == "extra_forbidden":
        return "there is no such field"
    return _one_line(problem["msg"].removeprefix("Value error, ")).rstrip(".")


def _one_line(error: object) -> str:
    return " ".join(str(error).split())
