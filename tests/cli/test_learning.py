"""``learn``, ``audit``, ``evict`` and ``calibrate`` on a store that an application has left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.testing import HashingEmbedder, ScriptedChatModel

WORKSPACE = ("--workspace", "ws_1")
TIPS = ("use [bold]alpha[/bold] here", "use beta here")


def _open(folder: Path) -> Memory:
    config = MemoryConfig(floor=-1.0)
    return Memory.open(folder, embeddings=HashingEmbedder(), config=config)


@pytest.fixture
def store(tmp_path: Path, hashing: None) -> Path:
    """Two tips, shown in six attempts that broke the environment."""
    folder = tmp_path / "memory"
    with _open(folder) as memory:
        for content in TIPS:
            memory.write(content, context=MemoryContext("ws_1", "s_0"), kind="tip")
        for number in range(6):
            context = MemoryContext("ws_1", "s_1", task_id=f"t_{number}")
            memory.recall("use here", context=context, k=2)
            memory.report(
                context=context,
                succeeded=False,
                failure_mode="health_failure",
                action=f"used alpha {number}",
            )
    return folder


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What ``--model`` gives; replace the script to have another judge."""

    def reply(messages: list[BaseMessage]) -> Any:
        memory = json.loads(str(messages[-1].text).splitlines()[0])["memory"]
        return {"reasoning": "It uses alpha.", "followed": "alpha" in memory}

    script: list[Any] = [reply]

    @contextmanager
    def chat_model(name: str) -> Iterator[ScriptedChatModel]:
        assert name == "some:judge"
        yield ScriptedChatModel(script[0])

    monkeypatch.setattr("memplugin.cli.models.chat_model", chat_model)
    return script


JUDGED = ("learn", "--model", "some:judge")


def test_learn_says_what_it_did_and_a_second_run_finds_nothing(run, store, judge):
    done = run(*JUDGED, "--json", store=store)
    assert (done.code, done.err) == (0, "")
    assert done.json == {
        "found": 12,
        "judged": 12,
        "followed": 6,
        "compared": 12,
        "failed": 0,
        "left": 0,
        "without_action": 0,
        "cut_short": 0,
        "judge": "1",
        "stopped": None,
    }
    assert run(*JUDGED, "--json", store=store).json["found"] == 0


def test_learn_without_a_judge_says_that_only_the_cosine_was_taken(run, store):
    done = run("learn", store=store)
    assert done.code == 0
    assert "no judge: --model gives one" in done.out
    assert "12 compared" in done.out


def test_learn_keeps_to_its_limit_and_its_workspace(run, store, judge):
    assert run(*JUDGED, "--limit", "5", "--json", store=store).json["left"] == 7
    assert run(*JUDGED, "--workspace", "ws_2", "--json", store=store).json["found"] == 0


def test_a_judge_that_can_not_be_reached_ends_with_1_and_leaves_everything_empty(run, store, judge):
    judge[0] = lambda _: ConnectionError("refused")
    done = run(*JUDGED, "--json", store=store)
    assert done.code == 1
    assert "the judge can't be reached (judge: error: ConnectionError: refused)" in done.err
    assert "every score is left empty" in done.err
    assert (done.json["judged"], done.json["compared"], done.json["left"]) == (0, 0, 12)
    with _open(store) as memory:
        rows = memory.backend.ledger.follow_scores.shown(
            memory.backend.ledger.follow_scores.unscored(None, judge=True)
        )
    assert {(row.followed, row.cosine) for row in rows} == {(None, None)}


def test_rows_that_fail_are_counted_and_are_no_failure_of_the_command(run, store, judge):
    judge[0] = lambda _: "I could not say."
    done = run(*JUDGED, store=store)
    assert done.code == 0
    assert "12, tried again next time" in done.out


def test_the_scripted_model_is_no_judge(run, store):
    done = run("learn", "--model", "scripted", store=store)
    assert done.code == 2
    assert "is no judge" in done.err


def test_evict_first_says_who_would_go_then_retires_and_takes_back(run, store, judge):
    run(*JUDGED, store=store)
    dry = run("evict", *WORKSPACE, "--dry-run", store=store)
    assert "use [bold]alpha[/bold] here" in dry.out
    assert "following it did harm" in dry.out
    assert "1 record would be evicted." in dry.out
    (evicted,) = run("evict", *WORKSPACE, "--json", store=store).json
    assert (evicted["reason"], evicted["done"]) == ("negative_utility", True)
    assert "Nothing to evict" in run("evict", *WORKSPACE, store=store).out
    back = run("evict", *WORKSPACE, "--undo", evicted["record_id"], store=store)
    assert (back.code, back.out) == (0, f"{evicted['record_id']} is active again.\n")
    assert len(run("evict", *WORKSPACE, "--dry-run", "--json", store=store).json) == 1


def test_an_undo_that_can_not_be_is_said(run, store):
    done = run("evict", *WORKSPACE, "--undo", "m_none", store=store)
    assert done.code == 1
    assert "there is no record 'm_none'" in done.err
    assert run("evict", *WORKSPACE, "--undo", "m_1", "--dry-run", store=store).code == 2


@pytest.fixture
def lucky(store: Path, judge: list[Any]) -> Path:
    """The same tips, then shown in many successes, where neither was followed."""
    with _open(store) as memory:
        for number in range(10):
            context = MemoryContext("ws_1", "s_2", task_id=f"u_{number}")
            memory.recall("use here", context=context, k=2)
            memory.report(context=context, succeeded=True, action=f"went another way {number}")
        never = ScriptedChatModel(lambda _: {"reasoning": "It did not.", "followed": False})
        memory.learn(model=never)
    return store


def test_audit_has_misleading_records_first_and_says_what_followed_is(run, lucky):
    done = run("audit", *WORKSPACE, store=lucky)
    assert done.code == 0
    assert done.out.lstrip().startswith("Misleading: shown in successes")
    assert "use [bold]alpha[/bold] here" in done.out
    assert "0 of 10 (judge)" in done.out
    assert "a sign, no cause" in done.out


def test_audit_as_json_has_every_section(run, lucky):
    audit = run("audit", *WORKSPACE, "--json", store=lucky).json
    assert list(audit) == [
        "workspace_id",
        "records",
        "misleading",
        "far_apart",
        "never_shown",
        "duplicates",
        "contradictions",
        "notes",
    ]
    assert {entry["content"] for entry in audit["misleading"]} == set(TIPS)


def test_audit_of_a_memory_with_nothing_to_say(run, store):
    done = run("audit", "--workspace", "ws_none", store=store)
    assert done.code == 0
    assert done.out.count("none") == 5


def test_calibrate_without_anything_scored_says_what_to_run_first(run, store, judge):
    done = run("calibrate", "5", *WORKSPACE, "--model", "some:judge", store=store)
    assert done.code == 2
    assert "run `memplugin learn` first" in done.err
