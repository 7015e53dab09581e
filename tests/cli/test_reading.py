from __future__ import annotations

import pytest

from memplugin import Memory, MemoryContext
from memplugin.testing import HashingEmbedder, ScriptedChatModel
from tests.cli.conftest import Pack

WORKSPACE = ("--workspace", "ws_8841")


# ---------------------------------------------------------------- check


def test_what_was_said_and_never_proposed_is_found_as_a_turn_alone(run, filled):
    done = run("check", "report net of tax", *WORKSPACE, "--json", store=filled.path)
    assert (done.code, done.err) == (0, "")
    assert (done.json["records"], done.json["proposals"]) == ([], [])
    assert [(t["session_id"], t["role"], t["text"]) for t in done.json["turns"]] == [
        ("s_march", "user", "Can you do these net of tax going forward?")
    ]


def test_a_rejected_proposal_is_shown_with_its_reason(run, filled):
    done = run("check", "euros", *WORKSPACE, "--json", store=filled.path)
    (proposal,) = done.json["proposals"]
    assert done.json["records"] == []
    assert proposal["ruling"] == "rejected"
    assert proposal["reason"].startswith("low_confidence")


def test_a_failed_extraction_is_shown_with_the_turn_it_did_not_read(run, filled, remember):
    remember(filled.path, "Always call me Doctor Reyes", reply="no JSON at all")
    done = run("check", "Doctor Reyes", *WORKSPACE, "--json", store=filled.path)
    assert [(p["ruling"], p["content"]) for p in done.json["proposals"]] == [("failed", None)]
    assert [t["text"] for t in done.json["turns"]] == ["Always call me Doctor Reyes"]


def test_records_of_every_status_are_found_the_active_first(run, filled):
    done = run("check", "auditor", *WORKSPACE, "--json", store=filled.path)
    assert [(r["content"], r["status"]) for r in done.json["records"]] == [
        ("The pack's auditor is Moss.", "active"),
        ("The pack's auditor is Hale.", "superseded"),
    ]


@pytest.mark.parametrize("text", ["board pack", "BOARD PACKS", "oard pac", "the basis of March."])
def test_a_record_is_found_by_a_part_of_it_and_by_its_words(run, filled, text):
    done = run("check", text, *WORKSPACE, "--json", store=filled.path)
    assert "The April board pack has the basis of March." in [
        r["content"] for r in done.json["records"]
    ]


@pytest.mark.parametrize("text", ["", "  ", "%", "_", "' OR 1=1 --", "\x00"])
def test_a_text_without_words_finds_nothing(run, filled, text):
    assert run("check", "--json", *WORKSPACE, "--", text, store=filled.path).code == 1


def test_nothing_is_an_answer_of_its_own(run, filled):
    done = run("check", "zebra", *WORKSPACE, store=filled.path)
    assert (done.code, done.err) == (1, "")
    assert "Nothing in workspace ws_8841 mentions it." in done.out


def test_another_workspace_is_not_looked_into(run, filled):
    done = run("check", "board pack", "--workspace", "ws_884", store=filled.path)
    assert done.code == 1
    assert "check the workspace's name" in done.out


def test_all_three_sections_are_always_shown(run, filled):
    done = run("check", "auditor", *WORKSPACE, store=filled.path)
    for section in ("Records: 2", "Proposals that made no record: 0", "Turns that mention it: 0"):
        assert section in done.out


def test_a_long_list_says_what_it_leaves_out(run, filled):
    done = run("check", "auditor", *WORKSPACE, "--limit", "1", store=filled.path)
    assert "and 1 more: --limit 2 shows all" in done.out
    assert "Hale" not in done.out


def test_a_stored_text_does_nothing_to_the_terminal(run, filled):
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        memory.write(
            "zebra \x1b[31mred\x1b[0m \x1b]0;title\x07 [red]markup[/red] :smile:",
            context=MemoryContext("ws_8841", "s\x1b[2J"),
        )
    done = run("check", "zebra", *WORKSPACE, store=filled.path)
    assert "\x1b" not in done.out
    assert "\x07" not in done.out
    assert "[red]markup[/red] :smile:" in done.out


# ---------------------------------------------------------------- task


def test_a_task_is_shown_with_its_writes_candidates_and_decision(run, filled):
    done = run("task", "t_0417", *WORKSPACE, store=filled.path)
    assert (done.code, done.err) == (0, "")
    assert "The pack's auditor is Moss." in done.out
    assert "no: below_cutoff" in done.out
    assert "[bold]local[/bold]" in done.out
    assert '{"basis": "gross"}' in done.out
    assert "outcome    failed" in done.out


def test_every_score_part_has_a_column(run, filled):
    done = run("task", "t_0417", *WORKSPACE, store=filled.path)
    (header,) = [line for line in done.out.splitlines() if line.split()[:1] == ["rank"]]
    assert header.split() == ["rank", "score", "dense", "shown"]


def test_a_decision_against_memory_is_shown_with_the_claim_and_its_record(run, filled):
    context = MemoryContext("ws_8841", "s_june", "t_0601")
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        claim = {"basis": "net [of] tax"}
        written = memory.write("Net of tax.", context=context, claim=claim, pinned=True)
        reply = {"memory_reasoning": "", "considered": "", "cited_record_ids": [], "basis": "gross"}
        model = ScriptedChatModel([reply])
        memory.decide("Which basis?", context=context, answer=Pack, model=model)
    done = run("task", "t_0601", store=filled.path)
    shown = " ".join(done.out.split())
    assert "flags memory_override" in shown
    assert f'against basis: the model said "gross", {written.record_id} (pinned, rank ' in shown
    assert 'shown) claims "net [of] tax"' in shown


def test_a_task_as_json_is_its_record(run, filled):
    done = run("task", "t_0417", *WORKSPACE, "--json", store=filled.path)
    with Memory.open(filled.path, embeddings=HashingEmbedder()) as memory:
        record = memory.task_record("t_0417", workspace_id="ws_8841")
    assert done.json == record.to_json()


def test_the_workspace_may_be_left_out_when_one_has_the_task(run, filled):
    done = run("task", "t_0501", "--json", store=filled.path)
    assert done.json["workspace_id"] == "ws_8841"


@pytest.mark.parametrize("command", ["task", "diagnose"])
def test_a_task_of_several_workspaces_must_be_told_apart(run, filled, command):
    done = run(command, "t_0417", "--json", store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "is in several workspaces (ws_2, ws_8841): say which with --workspace." in done.err


@pytest.mark.parametrize("command", ["task", "diagnose"])
@pytest.mark.parametrize("place", [(), ("--workspace", "ws_2")])
def test_an_unknown_task_is_an_answer_of_no(run, filled, command, place):
    done = run(command, "t_0501x", *place, "--json", store=filled.path)
    assert (done.code, done.out) == (1, "")
    assert "there is no task 't_0501x' in " in done.err


# ---------------------------------------------------------------- diagnose


def test_what_was_said_and_never_proposed_is_a_write_failure(run, filled):
    done = run(
        "diagnose",
        "t_0417",
        *WORKSPACE,
        "--correction",
        "report net of tax",
        "--json",
        store=filled.path,
    )
    (verdict,) = done.json["verdicts"]
    assert (done.code, done.err) == (0, "")
    assert (verdict["task_id"], verdict["stage"], verdict["cause"]) == (
        "t_0417",
        "write",
        "never_proposed",
    )
    assert done.json["table"] == [{"stage": "write", "cause": "never_proposed", "tasks": 1}]


def test_a_record_that_ranked_too_low_is_a_retrieval_failure_with_its_rank(run, filled):
    done = run("diagnose", "t_0417", *WORKSPACE, "--need", filled.ranked_low, store=filled.path)
    assert done.code == 0
    assert "Task t_0417: retrieval, below_cutoff" in done.out
    assert f"record  {filled.ranked_low}" in done.out
    assert "rank    4" in done.out


def test_a_record_that_was_cited_is_a_use_failure(run, filled):
    done = run(
        "diagnose", "t_0417", *WORKSPACE, "--need", filled.cited, "--json", store=filled.path
    )
    assert [(v["stage"], v["cause"]) for v in done.json["verdicts"]] == [("use", "misapplied")]


def test_needs_may_be_several_and_the_earliest_stage_counts(run, filled):
    needs = ("--need", filled.cited, "--need", filled.retired)
    done = run("diagnose", "t_0417", *WORKSPACE, *needs, "--json", store=filled.path)
    assert [(v["stage"], v["cause"]) for v in done.json["verdicts"]] == [("write", "retired")]


def test_without_a_task_the_failed_ones_are_diagnosed(run, filled):
    need = ("--need", filled.ranked_low)
    done = run("diagnose", *WORKSPACE, *need, "--json", store=filled.path)
    assert [v["task_id"] for v in done.json["verdicts"]] == ["t_0417"]


def test_all_tasks_are_counted_by_stage_and_cause(run, filled):
    need = ("--need", filled.ranked_low)
    done = run("diagnose", *WORKSPACE, *need, "--all", "--json", store=filled.path)
    assert {v["task_id"] for v in done.json["verdicts"]} == {"t_0311", "t_0417", "t_0501"}
    assert done.json["table"] == [
        {"stage": "retrieval", "cause": "below_cutoff", "tasks": 1},
        {"stage": "retrieval", "cause": "not_queried", "tasks": 1},
        {"stage": "none", "cause": "passed", "tasks": 1},
    ]


def test_without_a_need_nothing_can_be_said_of_a_failed_task(run, filled):
    done = run("diagnose", "t_0417", *WORKSPACE, store=filled.path)
    assert done.code == 1
    assert "Say what should have been used: --need ID" in done.out


def test_tasks_or_a_workspace_must_be_named(run, filled):
    done = run("diagnose", store=filled.path)
    assert (done.code, done.out) == (2, "")
    assert "give task ids, or --workspace for its failed tasks" in done.err


def test_a_workspace_without_failed_tasks_is_an_answer_of_no(run, filled):
    done = run("diagnose", "--workspace", "ws_2", store=filled.path)
    assert (done.code, done.out) == (1, "")
    assert "no task of workspace 'ws_2' was reported as failed" in done.err


def test_a_rank_that_can_not_be_computed_here_is_left_out_and_said(run, filled, many_records):
    beyond = many_records(filled.path)
    done = run("diagnose", "t_deep", *WORKSPACE, "--need", beyond, "--json", store=filled.path)
    (verdict,) = done.json["verdicts"]
    assert (verdict["stage"], verdict["cause"], verdict["rank"]) == (
        "retrieval",
        "beyond_depth",
        None,
    )
    assert "hashing-64" in done.err


def test_the_exact_rank_is_given_where_the_model_is_there(run, filled, many_records, hashing):
    beyond = many_records(filled.path)
    done = run("diagnose", "t_deep", *WORKSPACE, "--need", beyond, "--json", store=filled.path)
    (verdict,) = done.json["verdicts"]
    assert (verdict["cause"], done.err) == ("beyond_depth", "")
    # The 40 notes share both words of the query, and the other 4 records share none.
    assert 41 <= verdict["rank"] <= 45
