"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memplugin.cli.main import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


def blocks(language: str) -> list[str]:
    return [body for name, body in BLOCKS if name == language]


def test_every_block_is_of_a_kind_that_a_test_runs() -> None:
    assert {name for name, _ in BLOCKS} == {"python", "bash", "console"}


def test_the_python_blocks_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "readme"}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), namespace)
    namespace["memory"].close()


def test_the_commands_answer_on_the_store_that_the_demo_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["demo", "--story", "board-pack"]).exit_code == 0
    commands = [line for block in blocks("bash") for line in block.splitlines()]
    asked = [shlex.split(line)[1:] for line in commands if line.startswith("memplugin")]
    assert len(asked) == 3
    outputs = [CliRunner().invoke(app, arguments) for arguments in asked]
    assert [output.exit_code for output in outputs] == [0, 0, 0]
    check, task, diagnose = (output.stdout for output in outputs)
    assert "net of tax going forward" in check
    assert "Revenue is reported net of tax." in check
    assert "below_cutoff" in task
    assert "never_proposed" in diagnose
    assert "below_cutoff" in diagnose


def test_the_make_targets_that_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {
        line.split()[1]
        for block in blocks("console")
        for line in block.splitlines()
        if line.startswith("make ")
    }
    assert named == {"demo", "test"}
    assert all(f"\n{target}:" in makefile for target in named)


def test_every_install_line_names_extras_that_exist() -> None:
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in re.findall(r"memplugin\[(\w+)\]", README):
        assert f"\n{extra} = [" in declared


def test_every_link_to_a_file_leads_somewhere() -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
