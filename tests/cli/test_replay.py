from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from memplugin import Memory, MemoryContext
from memplugin.cli.models import name_of_recorded
from memplugin.demo.models import decider
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.testing import HashingEmbedder

WORKSPACE = ("--workspace", "ws_8841")


@pytest.fixture
def decision(run: Any, filled: Any) -> str:
    """Id of the decision of task t_0417, as `memplugin task` shows it."""
    record = run("task", "t_0417", *WORKSPACE, "--json", store=filled.path).json
    shown = run("task", "t_0417", *WORKSPACE, store=filled.path).out
    found = record["use"]["decision_id"]
    assert f"decision         {found}" in shown
    return str(found)


def test_with_nothing_changed_the_same_is_sent_and_both_runs_are_shown(run, filled, decision):
    done = run("replay", decision, store=filled.path)
    assert (done.code, done.err) == (0, "")
    assert "changed    messages and schema are byte for byte those that were sent" in done.out
    assert "answers    the same" in done.out
    assert "Prepare the board pack for April with the basis gross." in " ".join(done.out.split())
    rows = [line.split() for line in done.out.splitlines()]
    assert ["model", "scripted", "scripted"] in rows
    assert ["basis", '"gross"', '"gross"'] in rows


def test_as_json_it_is_the_replay(run, filled, decision):
    shown = run("replay", decision, "--json", store=filled.path).json
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        context = MemoryContext("ws_8841", "s")
        same = memory.replay(decision, context=context, model=decider()).to_json()
    for one in (shown, same):
        one["replayed"].pop("raw")  # each reply has an id of its own
    assert shown == same


def test_a_memory_is_left_out(run, filled, decision):
    done = run("replay", decision, "--without", filled.cited, store=filled.path)
    assert done.code == 0
    assert f"changed    without {filled.cited}" in done.out
    assert "User message, then and now" in done.out
    assert f'- <memory id="{filled.cited}"' in done.out


def test_the_candidates_are_cut_with_another_k_and_texts_are_no_markup(run, filled, decision):
    done = run("replay", decision, "--k", "4", store=filled.path)
    assert "changed    k=4" in done.out
    assert f'+ <memory id="{filled.ranked_low}"' in done.out
    assert "[bold]local[/bold]" in done.out


@pytest.mark.usefixtures("hashing")
def test_another_policy_recalls_again(run, filled, decision):
    done = run("replay", decision, "--policy", "balanced", "--json", store=filled.path)
    assert done.code == 0
    assert done.json["changes"]["policy"] == "balanced"


def test_a_replay_changes_nothing_in_the_store(run, filled, decision):
    before = run("task", "t_0417", *WORKSPACE, "--json", store=filled.path).json
    run("replay", decision, "--k", "2", store=filled.path)
    assert run("task", "t_0417", *WORKSPACE, "--json", store=filled.path).json == before


@pytest.mark.parametrize("place", [(), WORKSPACE])
def test_an_unknown_decision_is_an_answer_of_no(run, filled, place):
    done = run("replay", "d_x", *place, store=filled.path)
    assert (done.code, done.out) == (1, "")
    assert "there is no decision 'd_x' in " in done.err


def test_a_decision_of_several_workspaces_must_be_told_apart(run, filled, decision):
    ledger = SqlLedger.open(f"sqlite:///{filled.path / 'ledger.db'}")
    kept = ledger.decisions.get("ws_8841", decision)
    assert kept is not None
    ledger.decisions.save(replace(kept, workspace_id="ws_2"), "memory_on", 1)
    ledger.close()
    done = run("replay", decision, store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "(ws_2, ws_8841): say which with --workspace." in done.err
    assert run("replay", decision, *WORKSPACE, store=filled.path).code == 0


def test_what_was_not_shown_can_not_be_left_out(run, filled, decision):
    done = run("replay", decision, "--without", "m_x", store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "record 'm_x' was not shown to this decision" in done.err


def test_a_model_that_can_not_be_made_says_what_to_give(run, filled, decision):
    pytest.importorskip("langchain", reason="langchain is not installed: make install")
    done = run("replay", decision, "--model", "nobody:nothing", store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "give --model PROVIDER:NAME" in done.err


def _set_model(filled: Any, decision: str, model: str | None) -> str:
    ledger = SqlLedger.open(f"sqlite:///{filled.path / 'ledger.db'}")
    kept = ledger.decisions.get("ws_8841", decision)
    assert kept is not None
    ledger.decisions.save(replace(kept, id="d_other", model=model), "memory_on", 1)
    ledger.close()
    return "d_other"


def test_a_decision_of_an_unnamed_model_asks_for_one(run, filled, decision):
    other = _set_model(filled, decision, None)
    done = run("replay", other, store=filled.path)
    assert done.code == 2
    assert "does not say which model made it: give --model" in done.err
    assert run("replay", other, "--model", "scripted", store=filled.path).code == 0


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        ("/models/SmolLM2-135M-Instruct.Q4_1.gguf", "local"),
        ("SmolLM2-135M-Instruct", "local"),
        ("scripted", "scripted"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini-2025-08-07"),
    ],
)
def test_the_model_of_then_is_found_by_the_name_that_it_gave(recorded: str, name: str) -> None:
    assert name_of_recorded(recorded) == name


def test_the_small_local_model_replays_within_limits_that_are_shown(run, filled, decision):
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: make install")
    done = run("replay", decision, "--model", "local", "--json", store=filled.path)
    assert done.json["changes"]["max_reasoning_chars"] == 160
    assert done.json["changes"]["cite_by_enum"] is True
    assert "SmolLM2" in done.json["replayed"]["model"]
    assert done.code == (0 if done.json["replayed"]["status"] == "decided" else 1)
    assert done.json["replayed"]["status"] == "decided"
