"""The demo: the story is told by what really happened, and its store can be asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memplugin.cli.main import app
from tests.otlp_receivers import Received, attributes, grpc_receiver, http_receiver

RECEIVERS: dict[str, Callable[[], AbstractContextManager[Received]]] = {
    "grpc": grpc_receiver,
    "http": http_receiver,
}
BOARD_PACK = ("--story", "board-pack")
STAGES = {"write", "retrieval", "use", "none", "undetermined"}


def run(*arguments: str) -> Any:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    """A store that the scripted demo has left, and what it reported."""
    store = str(tmp_path_factory.mktemp("demo") / "store")
    told = json.loads(run("--store", store, "demo", *BOARD_PACK, "--json").stdout)
    return store, told["board_pack"]


Played = tuple[str, list[dict[str, Any]]]


def test_it_fails_at_write_then_at_retrieval_then_passes(played: Played) -> None:
    verdicts = [(act["verdict"]["stage"], act["verdict"]["cause"]) for act in played[1]]
    assert verdicts == [
        ("write", "never_proposed"),
        ("retrieval", "below_cutoff"),
        ("none", "passed"),
    ]
    assert [act["record"]["use"]["answer"]["basis"] for act in played[1]] == [
        "gross",
        "gross",
        "net of tax",
    ]


def test_the_task_has_a_candidate_that_was_not_injected_with_its_rank(played: Played) -> None:
    task = json.loads(run("--store", played[0], "task", "t_0418", "--json").stdout)
    (below,) = [c for c in task["retrieval"]["candidates"] if "net of tax" in c["content"]]
    assert (below["rank"], below["injected"], task["retrieval"]["k"]) == (7, False, 3)
    (write,) = [w for w in task["writes"] if "net of tax" in w["content"]]
    assert (write["session"], write["gate"], write["extractor_confidence"]) == (
        "s_1",
        "accepted",
        0.81,
    )
    assert task["success"] is False


def test_diagnose_names_the_planted_stages_afterwards(played: Played) -> None:
    asked = ("diagnose", "t_0417", "t_0418", "--correction", "report net of tax", "--json")
    answer = json.loads(run("--store", played[0], *asked).stdout)
    assert [(v["task_id"], v["stage"], v["cause"]) for v in answer["verdicts"]] == [
        ("t_0417", "write", "never_proposed"),
        ("t_0418", "retrieval", "below_cutoff"),
    ]


def test_check_finds_the_turn_and_the_record(played: Played) -> None:
    found = run("--store", played[0], "check", "tax", "--workspace", "ws_8841").stdout
    assert "Can you do these net of tax going forward?" in found
    assert "Revenue is reported net of tax." in found


def test_a_second_demo_replaces_only_what_a_demo_made(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    refused = CliRunner().invoke(app, ["--store", str(mine), "demo"])
    assert refused.exit_code == 2
    assert "no demo made it" in refused.output
    assert (mine / "thesis.txt").read_text() == "years of work"


@pytest.mark.parametrize("transport", RECEIVERS)
def test_its_spans_reach_a_collector_with_the_task_on_each_and_the_sessions_linked(
    transport: str, tmp_path: Path
) -> None:
    with RECEIVERS[transport]() as received:
        url = received.endpoint.replace("http://", "grpc://" if transport == "grpc" else "http://")
        run("--store", str(tmp_path / "store"), "--otlp", url, "demo", *BOARD_PACK)
        spans = received.spans
    ours = [span for span in spans if "memplugin.operation" in attributes(span)]
    assert {attributes(span)["memplugin.task.id"] for span in ours} == {
        "t_0401",
        "t_0417",
        "t_0418",
        "t_0419",
    }
    of_pass = [span for span in ours if attributes(span)["memplugin.task.id"] == "t_0419"]
    search = next(span for span in of_pass if span.name == "search_memory")
    wrote = next(
        span
        for span in ours
        if span.name == "upsert_memory"
        and attributes(span)["memplugin.task.id"] == "t_0418"
        and attributes(span)["memplugin.write.accepted"] == 1
    )
    assert (wrote.span_id, "written_by") in {
        (link.span_id, attributes(link)["memplugin.link.relation"]) for link in search.links
    }
    assert wrote.trace_id != search.trace_id


def test_on_the_local_model_it_shows_what_really_happened(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: make install")
    store = str(tmp_path / "store")
    told = json.loads(run("--store", store, "demo", "--model", "local", "--json").stdout)
    acts = told["board_pack"]
    assert [act["verdict"]["stage"] for act in acts[:2]] == ["write", "retrieval"] or any(
        act["record"]["success"] for act in acts[:2]
    )
    for act in acts:
        use = act["record"]["use"]
        assert use["status"] in ("decided", "truncated", "invalid", "no_decision")
        passed = (use["answer"] or {}).get("basis") == "net of tax"
        assert act["record"]["success"] is passed
        assert (act["verdict"]["cause"] == "passed") is passed
        assert act["verdict"]["stage"] in STAGES


def test_a_model_that_is_none_is_refused(tmp_path: Path) -> None:
    refused = CliRunner().invoke(app, ["--store", str(tmp_path / "s"), "demo", "--model", "gpt"])
    assert refused.exit_code == 2
    assert "scripted, local or PROVIDER:NAME" in refused.output


def test_the_hardening_run_retires_the_misleading_tips_and_its_store_can_be_asked(
    tmp_path: Path,
) -> None:
    store = tmp_path / "store"
    told = json.loads(run("--store", str(store), "demo", "--story", "hardening", "--json").stdout)
    ended = told["hardening"]
    assert {e["record_id"] for e in ended["evicted"]} == set(ended["misleading"])
    asked = ("--store", str(store / "hardening"))
    workspace = ("--workspace", "ws_hardening")
    run(*asked, "evict", *workspace, "--undo", ended["misleading"][0])
    audit = json.loads(run(*asked, "audit", *workspace, "--json").stdout)
    assert [m["record_id"] for m in audit["misleading"]] == [ended["misleading"][0]]
