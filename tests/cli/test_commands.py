from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from memplugin.cli.main import app

WORKSPACE = ("--workspace", "ws_8841")
PROGRAM = Path(sys.executable).with_name("memplugin")


def commands(command: Any, path: str = "memplugin") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, f"{path} {name}")


ALL = dict(commands(typer.main.get_command(app)))


# ---------------------------------------------------------------- help and wrong use


@pytest.mark.parametrize("path", ALL)
def test_every_command_says_what_it_is_for(path):
    assert ALL[path].help


@pytest.mark.parametrize("path", ALL)
def test_every_option_and_argument_is_described(path):
    undescribed = [p.name for p in ALL[path].params if not getattr(p, "help", None)]
    assert undescribed == []


@pytest.mark.parametrize("path", [p for p in ALL if p != "memplugin"])
def test_every_command_shows_its_help(run, path):
    done = run(*path.split()[1:], "--help")
    assert (done.code, done.err) == (0, "")
    assert "Usage: " + path in done.out


def test_a_store_must_be_named(run):
    done = run("check", "tax", *WORKSPACE)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("memplugin: no store is named: give --store FOLDER before")


@pytest.mark.parametrize(
    "command",
    [
        ("check", "tax", *WORKSPACE),
        ("task", "t_0417"),
        ("diagnose", "t_0417"),
        ("doctor",),
        ("reindex",),
        ("prune", "--older-than", "1d"),
        ("forget", "m_1", *WORKSPACE, "--reason", "asked", "--yes"),
        ("db", "upgrade"),
    ],
)
def test_a_store_that_is_not_there_is_named_and_not_made(run, tmp_path, command):
    done = run(*command, store=tmp_path / "nowhere")
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert f"there is no store in {tmp_path / 'nowhere'} (no ledger.db): check --store" in done.err
    assert list(tmp_path.iterdir()) == []


def test_a_store_may_be_named_by_the_environment(run, filled, monkeypatch):
    monkeypatch.setenv("MEMPLUGIN_STORE", str(filled.path))
    assert run("check", "tax", *WORKSPACE).code == 0


def test_a_file_is_no_store(run, filled):
    done = run("check", "tax", *WORKSPACE, store=filled.path / "ledger.db")
    assert (done.code, done.out) == (2, "")
    assert "is a file: name the folder that holds ledger.db." in done.err


def test_a_ledgers_url_needs_an_index_where_the_index_is_used(run, filled):
    url = f"sqlite:///{filled.path}/ledger.db"
    assert run("check", "tax", *WORKSPACE, store=url).code == 0

    done = run("diagnose", "t_0417", store=url)
    assert done.code == 2
    assert "give --index URL too" in done.err


def test_a_database_without_a_ledger_is_an_error_that_says_so(run, tmp_path):
    (tmp_path / "ledger.db").touch()
    done = run("check", "tax", *WORKSPACE, store=tmp_path)
    assert done.code == 2
    assert done.err == "memplugin: The database holds no ledger: check the URL.\n"


def test_a_newer_store_is_an_error_that_says_what_to_upgrade(run, filled, as_of_revision):
    as_of_revision(filled.path, "9999")
    done = run("check", "tax", *WORKSPACE, store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "upgrade memplugin" in done.err


# ---------------------------------------------------------------- the entry point


def program(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )


def test_the_program_answers_yes_with_0(filled):
    done = program("check", "tax", *WORKSPACE, "--json", MEMPLUGIN_STORE=str(filled.path))
    assert (done.returncode, done.stderr) == (0, "")
    assert [turn["text"] for turn in json.loads(done.stdout)["turns"]] == [
        "Can you do these net of tax going forward?"
    ]


def test_the_program_answers_no_with_1_and_wrong_use_with_2(filled):
    store = str(filled.path)
    assert program("check", "zebra", *WORKSPACE, MEMPLUGIN_STORE=store).returncode == 1
    assert program("check", "zebra", MEMPLUGIN_STORE=store).returncode == 2
    assert program("--no-such-option").returncode == 2


def test_an_error_of_the_program_is_one_line_without_a_traceback(tmp_path):
    done = program("--store", str(tmp_path), "task", "t_1")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("memplugin: there is no store in ")


@pytest.mark.parametrize("command", [("check", "tax", *WORKSPACE), ("task", "t_0501")])
def test_looking_something_up_loads_no_model_and_no_index(filled, command):
    code = f"""
import sys
from memplugin.cli.main import app
try:
    app({["--store", str(filled.path), *command]!r})
except SystemExit as end:
    assert end.code == 0, end.code
loaded = {{"torch", "sentence_transformers", "chromadb", "alembic"}} & set(sys.modules)
sys.exit(str(loaded) if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_version_is_printed(run):
    done = run("--version")
    assert (done.code, done.out.startswith("memplugin ")) == (0, True)
