"""A store as an application leaves it, and the command line on it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.cli.main import app
from memplugin.testing import FixedClock, HashingEmbedder, ScriptedChatModel

MARCH = MemoryContext("ws_8841", "s_march", "t_0311")
APRIL = MemoryContext("ws_8841", "s_april", "t_0417")
PASSED = MemoryContext("ws_8841", "s_may", "t_0501")
ELSEWHERE = MemoryContext("ws_2", "s_1", "t_0417")


class Pack(BaseModel):
    basis: str


@dataclass(frozen=True)
class Filled:
    """A store's folder, and the ids in it."""

    path: Path
    ranked_low: str
    cited: str
    retired: str


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("filled") / "memory"
    clock = FixedClock(datetime(2026, 3, 2, 9, 14, 11, tzinfo=UTC), timedelta(seconds=1))
    config = MemoryConfig(floor=-1.0, policy="similarity")
    with Memory.open(folder, embeddings=HashingEmbedder(), config=config, clock=clock) as memory:
        _march(memory)
        low, cited, retired = _known(memory)
        clock.set(datetime(2026, 4, 17, 10, 0, tzinfo=UTC))
        _april(memory, cited)
    return Filled(folder, low, cited, retired)


def _march(memory: Memory) -> None:
    said = [{"role": "user", "content": "Can you do these net of tax going forward?"}]
    memory.remember(said, context=MARCH, model=ScriptedChatModel([{"memories": []}]))
    said.append({"role": "user", "content": "Perhaps show the amounts in euros one day"})
    unsure = {
        "turn_index": 1,
        "quote": "show the amounts in euros",
        "polarity": "positive",
        "content": "The user may want amounts in euros.",
        "kind": "preference",
        "confidence": 0.2,
    }
    memory.remember(said, context=MARCH, model=ScriptedChatModel([{"memories": [unsure]}]))


def _known(memory: Memory) -> tuple[str, str, str]:
    def write(content: str, **more: Any) -> str:
        return str(memory.write(content, context=MARCH, **more).record_id)

    retired = write("The pack's auditor is Hale.", claim={"auditor": "Hale"})
    write("The pack's auditor is Moss.", claim={"auditor": "Moss"})
    cited = write("Prepare the board pack for April with the basis gross.")
    write("The April board pack has the basis of March.")
    low = write("Figures follow [bold]local[/bold] rules.")
    return low, cited, retired


def _april(memory: Memory, cited: str) -> None:
    question = "Prepare the board pack for April: which basis?"
    reply = {
        "memory_reasoning": "It says gross.",
        "considered": "Nothing else.",
        "cited_record_ids": [cited],
        "basis": "gross",
    }
    for context in (APRIL, PASSED, ELSEWHERE):
        retrieval = memory.recall(question, context=context, k=1)
        said = {**reply, "cited_record_ids": [cited] if retrieval.injected else []}
        memory.decide(
            question,
            context=context,
            answer=Pack,
            model=ScriptedChatModel([said]),
            retrieval=retrieval,
        )
        memory.report(context=context, succeeded=context is not APRIL)


@pytest.fixture
def filled(original: Filled, tmp_path: Path) -> Filled:
    """A copy, to do with as a test likes."""
    folder = tmp_path / "memory"
    shutil.copytree(original.path, folder)
    return replace(original, path=folder)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs a command in this process."""
    for name in ("MEMPLUGIN_STORE", "MEMPLUGIN_INDEX", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str | Path, store: Path | str | None = None, given: str = "") -> Ran:
        before = ["--store", str(store)] if store else []
        done = CliRunner().invoke(app, [*before, *map(str, arguments)], input=given)
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Ran(done.exit_code, done.stdout, done.stderr)

    return run


@pytest.fixture
def as_of_revision() -> Callable[[Path, str], None]:
    """Says of a store's tables that they are of another revision."""

    def change(folder: Path, revision: str) -> None:
        with closing(sqlite3.connect(folder / "ledger.db")) as connection:
            connection.execute("UPDATE memplugin_version SET version_num = ?", [revision])
            connection.commit()

    return change


@pytest.fixture
def hashing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the command line load the embedders ``hashing-64`` and ``hashing-32``."""

    def make(spec: Any, **_: Any) -> HashingEmbedder:
        if isinstance(spec, str):
            return HashingEmbedder(int(spec.removeprefix("hashing-")))
        return spec

    monkeypatch.setattr("memplugin.memory.open.make_embedder", make)


@pytest.fixture
def remember() -> Callable[..., None]:
    """Hears something in March, of which the extractor makes a reply."""

    def hear(folder: Path, text: str, reply: Any) -> None:
        said = [{"role": "user", "content": text}]
        with Memory.open(folder, embeddings=HashingEmbedder()) as memory:
            memory.remember(said, context=MARCH, model=ScriptedChatModel([reply]))

    return hear


@pytest.fixture
def many_records() -> Callable[[Path], str]:
    """Adds 40 records nearer to a task's query than the one whose id it returns."""

    def fill(folder: Path) -> str:
        config = MemoryConfig(floor=-1.0, policy="similarity")
        deep = MemoryContext("ws_8841", "s_deep", "t_deep")
        with Memory.open(folder, embeddings=HashingEmbedder(), config=config) as memory:
            memory.write_many([f"alpha beta note{n}" for n in range(40)], context=deep)
            far = memory.write("unrelated words entirely", context=deep)
            memory.recall("alpha beta", context=deep, k=1)
            memory.report(context=deep, succeeded=False)
        return str(far.record_id)

    return fill
