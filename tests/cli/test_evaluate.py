from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplugin.evaluation.load import starter_suite
from memplugin.evaluation.results import RESULTS_FILE
from tests.evaluation.suites import door

TASKS = 200


def many(folder: Path) -> Path:
    path = folder / "doors.jsonl"
    fault = {"planted": {"stage": "use", "cause": "ignored"}}
    tasks = [door(n, **(fault if n % 3 == 0 else {})) for n in range(1, TASKS + 1)]
    path.write_text("\n".join(json.dumps(task) for task in tasks))
    return path


def begun(suite: Path, out: Path) -> subprocess.Popen[bytes]:
    program = [sys.executable, "-c", "from memplugin.cli.main import main; main()"]
    log = subprocess.DEVNULL
    command = [*program, "eval", "run", str(suite), "--out", str(out)]
    return subprocess.Popen(command, stdout=log, stderr=log)


def lines(out: Path) -> int:
    file = out / RESULTS_FILE
    return file.read_bytes().count(b"\n") if file.exists() else 0


def test_a_run_of_200_tasks_killed_by_sigkill_goes_on_to_the_same_report(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    suite = many(tmp_path)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    undisturbed, stopped = begun(suite, whole), begun(suite, killed)
    deadline = time.monotonic() + 120
    while lines(killed) < 40:
        assert stopped.poll() is None, "the run ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(stopped.pid, signal.SIGKILL)
    stopped.wait()
    assert 40 <= lines(killed) < TASKS
    assert run("eval", "run", suite, "--out", killed, "--resume").code == 0
    assert undisturbed.wait(120) == 0
    for name in ("report.json", RESULTS_FILE):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    assert lines(whole) == TASKS + 1


def test_the_starter_suite_prints_the_attribution_table(run: Callable[..., Any]) -> None:
    done = run("eval", "run", "starter")
    total = len(starter_suite().tasks)
    assert done.code == 0
    assert f"{total} of {total} verdicts are right, 0 passing tasks are blamed" in done.out
    assert "never_proposed" in done.out
    assert "Waste" in done.out


def test_a_verdict_that_is_not_the_planted_one_ends_with_1(
    tmp_path: Path, run: Callable[..., Any]
) -> None:
    path = tmp_path / "doors.jsonl"
    path.write_text(json.dumps(door(1, planted={"stage": "write", "cause": "failed"})))
    done = run("eval", "run", path)
    assert done.code == 1
    assert "none/passed, planted was write/failed" in done.out


def test_success_below_the_bar_ends_with_1(tmp_path: Path, run: Callable[..., Any]) -> None:
    path = tmp_path / "doors.jsonl"
    path.write_text(json.dumps(door(3, planted={"stage": "use", "cause": "ignored"})))
    assert run("eval", "run", path, "--fail-under", "0.5").code == 1
    assert run("eval", "run", path).code == 0


def test_both_arms_write_and_retrieval_give_json(tmp_path: Path, run: Callable[..., Any]) -> None:
    path = tmp_path / "doors.jsonl"
    said = {
        "messages": [{"user": "Ana is vegetarian."}],
        "gold": [{"content": "Ana is vegetarian."}],
    }
    path.write_text("\n".join(json.dumps(door(n, sessions=[said])) for n in (1, 2)))
    assert run("eval", "arms", path, "--json").json["arms"]["helped"] == ["door-1", "door-2"]
    assert run("eval", "write", path, "--json").json["overall"]["recall"]["value"] == 1.0
    found = run("eval", "retrieval", path, "--embeddings", "hashing", "--json").json
    assert found["overall"]["hit"]["1"]["value"] == 1.0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "nowhere.yaml"), "nowhere.yaml can't be read"),
        (("run", "starter", "--task", "none"), "has no task 'none'"),
        (("run", "starter", "--resume"), "give --out DIR"),
        (("truth", "elsewhere"), "use locomo or memorybench1"),
    ],
)
def test_wrong_use_ends_with_2_and_says_what_to_do(
    run: Callable[..., Any], arguments: tuple[str, ...], said: str
) -> None:
    done = run("eval", *arguments)
    assert (done.code, said in done.err) == (2, True)


def test_absent_data_end_with_1(
    tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMPLUGIN_LOCOMO", str(tmp_path / "nowhere.json"))
    done = run("eval", "truth", "locomo")
    assert done.code == 1
    assert "LoCoMo is not here: set MEMPLUGIN_LOCOMO" in done.err
