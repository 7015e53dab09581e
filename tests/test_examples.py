"""Every example runs from end to end, without a key, and says what happened."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def main_of(name: str) -> Any:
    return runpy.run_path(str(EXAMPLES / name))["main"]


def test_there_is_a_test_for_every_example() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "board_pack.py",
        "hardening_run.py",
        "production_escalation.py",
        "wasp_work_order.py",
    }


def test_the_board_pack_fails_twice_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    main_of("board_pack.py")()
    said = capsys.readouterr().out
    assert said.count("act ") == 3
    for verdict in ("write / never_proposed", "retrieval / below_cutoff", "none / passed"):
        assert f"verdict: {verdict}" in said


def test_the_production_escalation_is_told_from_the_kept_traces(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main_of("production_escalation.py")(tasks=400)
    said = capsys.readouterr().out
    assert "400 tasks in 800 sessions" in said
    assert "only some sessions were kept: 0" in said
    assert "the ledger agrees: True" in said
    assert "agrees: False" not in said


def test_the_hardening_run_ends_with_the_misleading_tips_gone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main_of("hardening_run.py")()
    said = capsys.readouterr().out
    assert "the audit calls misleading: 5" in said
    assert "evicted: 5" in said
    assert "now passes: True" in said


def test_the_wasp_work_order_shows_both_rankings_and_both_rules(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main_of("wasp_work_order.py")()
    said = capsys.readouterr().out
    assert "1  1.91  The onsite manager" in said
    assert "4  0.81  Primex" in said
    for verdict in ("retrieval / below_cutoff", "use / overridden", "none / passed"):
        assert f"verdict: {verdict}" in said
    assert "the plumber: 0.81 before, 0.87 after" in said
    assert "the old rule on the same evidence: 0.50" in said
