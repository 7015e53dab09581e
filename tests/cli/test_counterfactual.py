"""``memplugin counterfactual`` on a store whose decisions a scripted model has made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.demo.board_pack import BoardPack
from memplugin.demo.models import decider
from memplugin.testing import HashingEmbedder

KNOWN = ("The fiscal year starts in April.", "EMEA accounts are their focus.")


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("counterfactual") / "store"
    config = MemoryConfig(floor=-1.0)
    with Memory.open(store, embeddings=HashingEmbedder(), config=config) as memory:
        written = MemoryContext("ws_8841", "s_1", task_id="t_0")
        memory.write_many(KNOWN, context=written)
        for task, passed in (("t_0417", False), ("t_0418", False), ("t_0419", True)):
            if passed:
                memory.write("Revenue is reported net of tax.", context=written)
            context = MemoryContext("ws_8841", "s_2", task_id=task)
            memory.decide("Revenue?", context=context, answer=BoardPack, model=decider())
            memory.report(context=context, succeeded=passed)
    return store


@pytest.fixture
def store(played: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(played, tmp_path / "store"))


def test_the_memory_that_bears_the_answer_is_told_from_those_that_do_not(
    store: Path, run: Callable[..., Any]
) -> None:
    done = run("counterfactual", "t_0419", "--model", "scripted", "--json", store=store)
    assert done.code == 0
    tried = done.json["counterfactuals"]
    bearing = [one["record_id"] for one in tried if one["verdict"] == "load_bearing"]
    assert [one["verdict"] for one in tried].count("not") == len(tried) - 1
    assert [one["cited"] for one in tried if one["record_id"] in bearing] == [True]
    assert done.json["citations"]["agreement"] == 1.0
    record = run("task", "t_0419", "--json", store=store).json
    assert record["use"]["counterfactual_flip"] is True
    assert f"another answer without {bearing[0]}" in run("task", "t_0419", store=store).out


def test_without_task_ids_failed_tasks_are_tried_and_passing_ones_by_sample(
    store: Path, run: Callable[..., Any]
) -> None:
    def tried(*more: str) -> set[str]:
        done = run("counterfactual", "-w", "ws_8841", "--json", "--runs", "4", *more, store=store)
        return {one["task_id"] for one in done.json["counterfactuals"]}

    assert tried() == {"t_0417", "t_0418"}
    assert tried("--sample", "5") == {"t_0417", "t_0418", "t_0419"}


def test_it_is_shown_for_people(store: Path, run: Callable[..., Any]) -> None:
    done = run("counterfactual", "t_0419", store=store)  # the model that decided then
    assert "load_bearing, cited, p = 0.0002, a change of 70% would be seen" in done.out
    assert 'with it: 8 x {"basis": "net of tax"' in done.out
    assert "agree on 100% of" in done.out


def test_what_can_not_be_tried_is_told(store: Path, run: Callable[..., Any]) -> None:
    def ended(*arguments: str) -> tuple[int, str]:
        done = run("counterfactual", *arguments, store=store)
        return done.code, done.err

    assert ended()[0] == 2
    assert "no task is named" in ended()[1]
    assert ended("t_9")[0] == 1
    other = ended("t_0419", "--record", "m_9")
    assert (other[0], "was not shown" in other[1]) == (2, True)
    assert "fewer than 4" in ended("t_0419", "--runs", "2")[1]
    assert ended("-w", "nowhere")[0] == 1
