"""The wasp work order: the seed's figures, three verdicts, and a plumber, in one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memplugin.cli.main import app


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any]]:
    """A store that the story has left, and what it reported."""
    store = str(tmp_path_factory.mktemp("demo") / "store")
    told = json.loads(run("--store", store, "demo", "--story", "wasp", "--json"))
    return store, told["wasp"]


Played = tuple[str, dict[str, Any]]


def test_the_bonus_gives_the_two_scores_and_puts_the_right_one_fourth(played: Played) -> None:
    ended = played[1]
    bonus = {c["record_id"]: c for c in ended["rankings"][0]["candidates"]}
    manager, primex = bonus[ended["manager_id"]], bonus[ended["primex_id"]]
    assert (round(manager["score"], 2), manager["rank"]) == (1.91, 1)
    assert (round(primex["score"], 2), primex["rank"]) == (0.81, 4)


def test_balanced_puts_the_right_one_first_on_the_same_records(played: Played) -> None:
    ended = played[1]
    assert ended["rankings"][1]["policy"] == "balanced@2"
    assert ended["rankings"][1]["candidates"][0]["record_id"] == ended["primex_id"]


def test_a_cut_and_an_override_are_told_apart(played: Played) -> None:
    acts = played[1]["acts"]
    assert [(a["verdict"]["stage"], a["verdict"]["cause"], a["vendor"]) for a in acts] == [
        ("retrieval", "below_cutoff", "dever"),
        ("use", "overridden", "dever"),
        ("none", "passed", "primex"),
    ]
    assert [a["flags"] for a in acts] == [["memory_override"], ["memory_override"], []]
    assert [[(o["rank"], o["shown"]) for o in a["overrides"]] for a in acts] == [
        [(4, False)],
        [(4, True)],
        [],
    ]


def test_the_plumber_keeps_his_trade_and_loses_his_exceptions(played: Played) -> None:
    plumber = played[1]["plumber"]
    assert (plumber["supports"], plumber["against"]) == (10, 9)
    assert plumber["beta"] == pytest.approx(5.24 / 6)
    assert plumber["ema"] == pytest.approx(0.50, abs=0.005)
    assert [(where, who) for where, who, _ in plumber["answers"]] == [
        ("any plumbing", "yonic"),
        ("toilet", "abraham"),
        ("drain", "the_drain_specialist"),
        ("heater", "yonic"),
    ]


def test_a_task_of_it_shows_each_score_part_in_a_column(played: Played) -> None:
    shown = run("--store", f"{played[0]}/wasp", "task", "wo_wasp_2")
    header = next(line for line in shown.splitlines() if "rank" in line and "score" in line)
    assert header.split() == ["rank", "score", "evidence", "structural", "shown"]
    assert "1.913" in shown
    assert "0.806" in shown


def test_for_people_both_rankings_and_both_rules_are_shown(tmp_path: Path) -> None:
    shown = run("--store", str(tmp_path / "s"), "demo", "--story", "wasp")
    for part in ("evidence_bonus@1", "balanced@2", "1.91", "0.81", "0.87", "0.50"):
        assert part in shown


def test_another_story_can_be_played_on_the_same_store_afterwards(tmp_path: Path) -> None:
    store = str(tmp_path / "s")
    run("--store", store, "demo", "--story", "wasp")
    run("--store", store, "demo", "--story", "board-pack")
