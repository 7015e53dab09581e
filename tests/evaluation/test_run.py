from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from memplugin.errors import ConfigError
from memplugin.evaluation import agents
from memplugin.evaluation.agents import AgentRequest, Models
from memplugin.evaluation.results import RESULTS_FILE, TaskRun, read_results
from memplugin.evaluation.setup import OnDisk
from memplugin.memory.client import Memory
from memplugin.testing import ScriptedChatModel
from tests.evaluation.suites import WIDE, door, header_of, run, session, suite


def test_each_task_has_a_workspace_and_a_task_id_of_its_own(tmp_path: Path) -> None:
    runs = run(tmp_path, suite(door(1), door(2)))
    records = [r.record for r in runs if r.record]
    assert [(r.workspace_id, r.task_id) for r in records] == [("door-1",) * 2, ("door-2",) * 2]
    assert [r.retrieval.total for r in records if r.retrieval] == [1, 1]
    assert all(r.success for r in runs)


def test_every_line_is_on_the_disk_before_the_next_task_begins(tmp_path: Path) -> None:
    seen: list[int] = []

    def count(_: TaskRun) -> None:
        seen.append(len((tmp_path / RESULTS_FILE).read_text().splitlines()))

    run(tmp_path, suite(door(1), door(2), door(3)), done=count)
    assert seen == [2, 3, 4]  # the header, then a line for each task


def test_results_read_back_are_the_results(tmp_path: Path) -> None:
    made = suite(door(1), door(2))
    runs = run(tmp_path, made)
    assert read_results(tmp_path) == (header_of(made), runs)


def test_without_memory_nothing_is_written_and_nothing_is_blamed(tmp_path: Path) -> None:
    on, off = run(tmp_path, suite(door(1)), arms=("memory_on", "memory_off"))
    assert (on.success, off.success) == (True, False)
    assert off.verdict is None
    assert off.record is not None
    assert off.record.arm == "memory_off"
    assert off.record.writes == ()


def test_an_unknown_arm_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no arm 'off'"):
        run(tmp_path, suite(door(1)), arms=("off",))


def test_a_user_corrects_until_the_answer_is_right(tmp_path: Path) -> None:
    wrong = door(2, planted={"stage": "use", "cause": "ignored"})
    right, corrected = run(tmp_path, suite(door(1), wrong), corrections=2)
    assert (right.corrections, corrected.corrections) == (0, 1)
    # The first answer is what counts, and what the verdict is on.
    assert corrected.success is False
    assert corrected.verdict is not None
    assert corrected.verdict.cause == "ignored"
    assert corrected.cost.tokens > right.cost.tokens


def test_a_user_gives_up_after_so_many_corrections(tmp_path: Path) -> None:
    stubborn = Models(ScriptedChatModel([]), ScriptedChatModel(lambda _: {"code": -1}))
    (given_up,) = run(tmp_path, suite(door(1)), corrections=2, models=lambda _: stubborn)
    assert given_up.corrections == 2


def test_tokens_are_what_the_model_reports(tmp_path: Path) -> None:
    usage = {"input_tokens": 120, "output_tokens": 30, "total_tokens": 150}
    reply = AIMessage('{"code": 1}', usage_metadata=usage, response_metadata={"model_name": "m"})
    named = {"model_name": "m"}
    nothing = '{"memories": []}'
    remembered = AIMessage(nothing, usage_metadata=usage, response_metadata=named)
    models = Models(ScriptedChatModel([remembered]), ScriptedChatModel([reply]))
    task = door(1, sessions=[session("Good morning.")])
    (counted,) = run(tmp_path, suite(task), models=lambda _: models)
    assert (counted.cost.tokens_in, counted.cost.tokens_out) == (120, 30)
    assert counted.cost.tokens_remembering == 150
    assert not counted.cost.estimated


def test_tokens_are_estimated_where_the_model_reports_none(tmp_path: Path) -> None:
    (estimated,) = run(tmp_path, suite(door(1)))
    assert estimated.cost.estimated
    assert estimated.cost.tokens_in > 100
    assert estimated.cost.tokens_of_memory == 6  # "The code of door 1 is 1.": 24 characters


def test_latency_is_the_time_from_request_to_answer(tmp_path: Path) -> None:
    ticks = iter([10.0, 10.25])
    (timed,) = run(tmp_path, suite(door(1)), timer=lambda: next(ticks))
    assert timed.cost.answer_ms == 250.0


def test_an_agent_of_ones_own_answers_every_request(tmp_path: Path) -> None:
    asked: list[str] = []

    def agent(request: AgentRequest) -> dict[str, Any]:
        asked.append(request.question)
        return {"code": 1}

    (answered,) = run(tmp_path, suite(door(1)), agent=agent)
    assert asked == ["What is the code of door 1?"]
    assert (answered.success, answered.answer) == (True, {"code": 1})


def test_tasks_of_one_corpus_share_its_records(tmp_path: Path) -> None:
    codes = [{"key": f"c{n}", "content": f"The code of door {n} is {n}."} for n in (1, 2, 3)]
    tasks = [door(n, corpus="house", records=[], need={"records": [f"c{n}"]}) for n in (1, 2)]
    runs = run(tmp_path, suite(*tasks, corpora={"house": codes}))
    records = [r.record for r in runs if r.record]
    assert {r.workspace_id for r in records} == {"house"}
    assert [r.retrieval.total for r in records if r.retrieval] == [3, 3]
    assert [r.task_id for r in records] == ["door-1", "door-2"]


# ---------------------------------------------------------------- what can't be run


def test_a_task_that_can_not_be_run_does_not_stop_the_others(tmp_path: Path) -> None:
    judged = door(1, success={"judge": "It is one."}, planted=None)
    judge = ScriptedChatModel(["I can't say."])

    def models(task: Any) -> Models:
        made = agents.scripted_models(task)
        return Models(made.extractor, made.decider, judge)

    failed, passed = run(tmp_path, suite(judged, door(2)), models=models)
    assert failed.error is not None
    assert "the judge gave no usable reply" in failed.error
    assert passed.success


def test_a_task_that_could_not_be_run_is_tried_again(tmp_path: Path) -> None:
    made = suite(door(1, success={"judge": "It is one."}))
    replies = [["no idea"], [{"reasoning": "1 is one", "right": True}]]
    for resume, reply in zip((False, True), replies, strict=True):
        judge = ScriptedChatModel(reply)
        models = Models(ScriptedChatModel([]), ScriptedChatModel([{"code": 1}]), judge)
        (last,) = run(tmp_path, made, resume=resume, models=lambda _, m=models: m)
    assert (last.error, last.success) == (None, True)
    assert read_results(tmp_path)[1] == [last]


def test_a_record_that_is_needed_and_refused_is_an_error_of_the_suite(tmp_path: Path) -> None:
    refused = door(1)
    refused["records"][0]["confidence"] = 0.1
    with pytest.raises(ConfigError, match="record 'code' of task 'door-1' was rejected"):
        run(tmp_path, suite(refused))


def test_a_task_that_is_judged_by_a_model_needs_one(tmp_path: Path) -> None:
    task = door(1, success={"judge": "It is one."}, decider={"then": {"code": 1}})
    with pytest.raises(ConfigError, match="judged by a model, and there is none: give --judge"):
        run(tmp_path, suite(task))


# ---------------------------------------------------------------- going on


class Stopped(BaseException):
    """The run is killed."""


def stop_after(tasks: int) -> Any:
    left = iter(range(tasks - 1))

    def count(_: TaskRun) -> None:
        if next(left, None) is None:
            raise Stopped

    return count


def test_a_stopped_run_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    made = suite(*(door(n) for n in range(1, 6)))
    with pytest.raises(Stopped):
        run(tmp_path, made, done=stop_after(2))
    begun: list[str] = []

    def note(task: Any, memory: Memory) -> Memory:
        begun.append(task.id)
        return memory

    runs = run(tmp_path, made, resume=True, prepare=note)
    assert begun == ["door-3", "door-4", "door-5"]
    assert [r.task_id for r in runs] == [f"door-{n}" for n in range(1, 6)]


def test_a_resumed_run_leaves_the_same_file_as_an_undisturbed_one(tmp_path: Path) -> None:
    made = suite(*(door(n) for n in range(1, 5)))
    run(tmp_path / "whole", made)
    with pytest.raises(Stopped):
        run(tmp_path / "stopped", made, done=stop_after(3))
    run(tmp_path / "stopped", made, resume=True)
    whole, stopped = (tmp_path / name / RESULTS_FILE for name in ("whole", "stopped"))
    assert stopped.read_bytes() == whole.read_bytes()


def test_half_a_line_is_dropped_and_its_task_is_run_again(tmp_path: Path) -> None:
    made = suite(door(1), door(2), door(3))
    run(tmp_path, made)
    file = tmp_path / RESULTS_FILE
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + lines[2][:50])
    run(tmp_path, made, resume=True)
    assert file.read_bytes() == whole


def test_a_task_that_was_half_done_leaves_nothing_on_the_disk(tmp_path: Path) -> None:
    made = suite(door(1))
    stores = OnDisk(tmp_path / "stores", WIDE)

    def fall(_: AgentRequest) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        run(tmp_path / "out", made, stores=stores, agent=fall)
    (done,) = run(tmp_path / "out", made, stores=stores, resume=True)
    assert done.record is not None
    assert len(done.record.writes) == 1
    with Memory.open(tmp_path / "stores" / "memory_on" / "door-1", embeddings=WIDE) as memory:
        assert memory.task_record("door-1", workspace_id="door-1") == done.record


def test_results_that_are_there_are_not_written_over(tmp_path: Path) -> None:
    run(tmp_path, suite(door(1)))
    with pytest.raises(ConfigError, match="holds results: go on with them"):
        run(tmp_path, suite(door(1)))


def test_results_of_another_suite_are_not_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path, suite(door(1)))
    with pytest.raises(ConfigError, match="is of another version of this suite"):
        run(tmp_path, suite(door(1, tags={"kind": "fact"})), resume=True)


def test_results_in_other_arms_are_not_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path, suite(door(1)))
    with pytest.raises(ConfigError, match="is of another run"):
        run(tmp_path, suite(door(1)), arms=("memory_on", "memory_off"), resume=True)


def test_a_file_of_something_else_is_not_touched(tmp_path: Path) -> None:
    file = tmp_path / RESULTS_FILE
    file.write_text(json.dumps({"not": "ours"}) + "\n")
    with pytest.raises(ConfigError, match="line 1 is no line of a run's results"):
        run(tmp_path, suite(door(1)), resume=True)
    assert json.loads(file.read_text()) == {"not": "ours"}
