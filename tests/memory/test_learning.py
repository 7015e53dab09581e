"""``learn`` through ``Memory``: what is scored, what is kept, and what happens when it fails."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import BaseMessage
from sqlalchemy import text

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.config import LearnConfig
from memplugin.errors import ConfigError, EmbedderError, EmbedderUnavailable
from memplugin.ports import Vectors
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.testing import HashingEmbedder, ScriptedChatModel, memory_for_tests

TIPS = ("use update-crypto-policies", "restart sshd after the change", "check the Include line")
SCORES = "followed_llm, followed_cosine, follow_reasoning, follow_error, judge_version"


def attempt(number: int, **fields: Any) -> MemoryContext:
    return MemoryContext("ws", "s_1", task_id=f"rule_{number}", **fields)


@pytest.fixture
def memory(memory: Memory) -> Memory:
    return filled(memory, attempts=4)


def filled(memory: Memory, *, attempts: int) -> Memory:
    """Three tips, shown in each attempt; the actions differ."""
    for tip in TIPS:
        memory.write(tip, context=attempt(0), kind="tip")
    for number in range(attempts):
        shown = memory.recall("crypto policies of sshd", context=attempt(number), k=3)
        assert shown.shown == 3
        action = f"restart sshd after writing file {number}"
        memory.report(context=attempt(number), succeeded=True, action=action)
    return memory


def table(memory: Memory, columns: str = SCORES) -> list[tuple[Any, ...]]:
    """The rows as they are in the database."""
    ledger = memory.backend.ledger
    assert isinstance(ledger, SqlLedger)
    with ledger._database.reading() as connection:
        rows = connection.execute(text(f"SELECT {columns} FROM injections ORDER BY number"))
        return [tuple(row) for row in rows]


def pair(messages: list[BaseMessage]) -> tuple[str, str]:
    """The memory and the action that the judge was sent."""
    memory, action = str(messages[-1].text).splitlines()
    return json.loads(memory)["memory"], json.loads(action)["action"]


def fair(messages: list[BaseMessage]) -> dict[str, Any]:
    """Finds a tip followed when the action begins as the tip does."""
    tip, action = pair(messages)
    return {"reasoning": "compared", "followed": action.startswith(tip[:12])}


def judge() -> ScriptedChatModel:
    return ScriptedChatModel(fair)


# ---------------------------------------------------------------- what is scored


def test_every_shown_memory_is_judged_and_compared_once(memory: Memory) -> None:
    model = judge()
    report = memory.learn(model=model)
    assert (report.found, report.judged, report.compared, report.failed) == (12, 12, 12, 0)
    assert (report.followed, report.left, report.judge, report.stopped) == (4, 0, "1", None)
    assert sorted({pair(call)[0] for call in model.calls}) == sorted(TIPS)
    assert {row[3] for row in table(memory)} == {None}
    assert {row[4] for row in table(memory)} == {"1"}
    before = table(memory, f"{SCORES}, scored_at")
    again = memory.learn(model=model)
    assert (again.found, len(model.calls)) == (0, 12)
    assert table(memory, f"{SCORES}, scored_at") == before


def test_the_cosine_is_that_of_memory_and_action() -> None:
    with memory_for_tests() as memory:
        memory.write("alpha beta", context=attempt(1), kind="tip")
        memory.recall("alpha", context=attempt(1))
        memory.report(context=attempt(1), succeeded=True, action="alpha gamma")
        memory.learn()
        # Two words each, one of them shared: 1 / (sqrt(2) * sqrt(2))
        assert [row[1] for row in table(memory)] == [0.5]


def test_without_a_judge_only_the_cosine_is_scored_and_a_judge_may_come_later(
    memory: Memory,
) -> None:
    report = memory.learn()
    assert (report.compared, report.judged, report.judge) == (12, 0, None)
    cosines = [row[1] for row in table(memory)]
    assert all(-1 <= cosine <= 1 for cosine in cosines)
    assert memory.learn().found == 0
    assert memory.learn(model=judge()).judged == 12
    assert [row[1] for row in table(memory)] == cosines


def test_only_what_was_shown_in_a_reported_attempt_with_an_action_is_scored() -> None:
    with memory_for_tests() as memory:
        for tip in TIPS:
            memory.write(tip, context=attempt(0), kind="tip")
        memory.recall("sshd", context=attempt(1), k=1)
        memory.report(context=attempt(1), succeeded=True, action="did it")
        memory.recall("sshd", context=attempt(2), k=1)  # not reported
        memory.recall("sshd", context=attempt(3), k=1)
        memory.report(context=attempt(3), succeeded=True)  # without an action
        report = memory.learn(model=judge())
    assert (report.found, report.judged, report.without_action) == (1, 1, 1)


def test_a_limit_is_kept_and_the_next_run_goes_on(memory: Memory) -> None:
    model = judge()
    first = memory.learn(model=model, limit=5)
    assert (first.found, first.judged, first.left, len(model.calls)) == (12, 5, 7, 5)
    second = memory.learn(model=model, limit=100)
    assert (second.found, second.judged, second.left) == (7, 7, 0)


def test_one_workspace_can_be_learnt_alone(memory: Memory) -> None:
    assert memory.learn(model=judge(), workspace_id="ws_2").found == 0
    assert memory.learn(model=judge(), workspace_id="ws").judged == 12


def test_the_prompt_of_a_domain_is_sent_and_its_version_kept() -> None:
    mine = MemoryConfig(floor=-1.0, learn=LearnConfig(judge_prompt="You judge playbooks."))
    with memory_for_tests(config=mine) as memory:
        model = judge()
        report = filled(memory, attempts=1).learn(model=model)
        assert report.judge is not None
        assert report.judge.startswith("1+")
        assert {row[4] for row in table(memory)} == {report.judge}
    assert all(str(call[0].text).startswith("You judge playbooks.") for call in model.calls)


def test_an_action_longer_than_the_model_reads_is_counted(memory: Memory) -> None:
    embedder = memory.backend.embedder
    assert isinstance(embedder, HashingEmbedder)
    embedder.truncates = lambda texts: ["file 2" in t for t in texts]  # type: ignore[method-assign]
    assert memory.learn().cut_short == 1


def test_progress_is_told_up_to_the_last_row(memory: Memory) -> None:
    told: list[tuple[int, int]] = []
    memory.learn(model=judge(), limit=10, progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (10, 10)
    assert told == sorted(told)


@pytest.mark.parametrize("wrong", [{"limit": 0}, {"concurrency": 0}])
def test_a_number_that_can_not_work_is_refused(memory: Memory, wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="at least 1"):
        memory.learn(**wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------- several at a time


class _Busy:
    """A judge that notes how many of its calls run at the same time."""

    def __init__(self, together: int) -> None:
        self.most = self._now = 0
        self._lock, self._together = threading.Lock(), threading.Barrier(together)

    def __call__(self, messages: list[BaseMessage]) -> dict[str, Any]:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._together.wait(30)  # nobody answers before so many have been asked
        with self._lock:
            self._now -= 1
        return fair(messages)


def test_as_many_are_judged_at_a_time_as_asked_for(memory: Memory) -> None:
    busy = _Busy(4)
    assert memory.learn(model=ScriptedChatModel(busy), concurrency=4).judged == 12
    assert busy.most == 4


async def test_the_async_twin_does_the_same_at_as_many_a_time(memory: Memory) -> None:
    busy = _Busy(4)
    report = await memory.alearn(model=ScriptedChatModel(busy), concurrency=4)
    assert (report.judged, report.followed, busy.most) == (12, 4, 4)
    assert (await memory.alearn(model=judge())).found == 0
    with memory_for_tests() as other:
        filled(other, attempts=4).learn(model=judge())
        assert table(other) == table(memory)


async def test_the_async_twin_compares_without_a_judge(memory: Memory) -> None:
    assert (await memory.alearn()).compared == 12


# ---------------------------------------------------------------- failures


def _failing_on(word: str, error: Any) -> ScriptedChatModel:
    def reply(messages: list[BaseMessage]) -> Any:
        return error if word in pair(messages)[0] else fair(messages)

    return ScriptedChatModel(reply)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (TimeoutError("60 s"), "judge: error: TimeoutError: 60 s"),
        ("I think so.", "judge: no_decision: plain text and no decision: I think so."),
    ],
)
def test_rows_that_fail_stay_null_with_the_reason_and_the_next_run_scores_exactly_those(
    memory: Memory, error: Any, kept: str
) -> None:
    first = memory.learn(model=_failing_on("Include", error))
    assert (first.judged, first.failed, first.stopped) == (8, 4, None)
    failed = [row for row in table(memory) if row[0] is None]
    assert [row[3] for row in failed] == [kept] * 4
    assert all(row[1] is not None for row in failed)  # the cosine is there
    model = judge()
    second = memory.learn(model=model)
    assert (second.found, second.judged, second.failed) == (4, 4, 0)
    assert {pair(call)[0] for call in model.calls} == {"check the Include line"}
    with memory_for_tests() as undisturbed:
        filled(undisturbed, attempts=4).learn(model=judge())
        assert table(memory) == table(undisturbed)


@pytest.mark.parametrize("attempts", [1, 12])
def test_a_judge_that_can_not_be_reached_leaves_everything_null(attempts: int) -> None:
    model = ScriptedChatModel(lambda _: ConnectionError("refused"))
    with memory_for_tests() as memory:
        report = filled(memory, attempts=attempts).learn(model=model)
        assert report.stopped == "judge: error: ConnectionError: refused"
        assert (report.judged, report.compared, report.failed) == (0, 0, 0)
        assert report.left == report.found == 3 * attempts
        assert set(table(memory, f"{SCORES}, scored_at")) == {(None,) * 6}
        assert memory.learn(model=judge()).judged == 3 * attempts


def test_it_does_not_ask_a_judge_that_is_away_for_every_row() -> None:
    model = ScriptedChatModel(lambda _: ConnectionError("refused"))
    with memory_for_tests() as memory:
        report = filled(memory, attempts=120).learn(model=model)
        assert (report.found, report.left) == (360, 360)
    assert len(model.calls) < 200


def test_a_judge_that_goes_away_stops_the_run_and_what_it_said_is_kept() -> None:
    answers = iter(range(40))

    def reply(messages: list[BaseMessage]) -> Any:
        return fair(messages) if next(answers, None) is not None else ConnectionError("gone")

    with memory_for_tests() as memory:
        report = filled(memory, attempts=100).learn(model=ScriptedChatModel(reply), concurrency=1)
        assert report.stopped == "judge: error: ConnectionError: gone"
        assert (report.judged, report.failed) == (40, 24)
        assert report.left == 300 - 64
        assert memory.learn(model=judge()).judged == 260


def test_a_model_without_structured_output_is_refused_before_anything_is_done(
    memory: Memory,
) -> None:
    from langchain_core.language_models import FakeListChatModel

    with pytest.raises(ConfigError, match="can't give structured output"):
        memory.learn(model=FakeListChatModel(responses=["yes"]))
    assert {row[1] for row in table(memory)} == {None}


class _Fussy(HashingEmbedder):
    """Refuses texts with a word in them, and may be unavailable."""

    gone = False

    def embed(self, texts: Any) -> Vectors:
        if self.gone:
            raise EmbedderUnavailable("no model: install one.")
        if any("file 2" in text for text in texts):
            raise EmbedderError("file 2 has no vector.")
        return super().embed(texts)


def test_a_text_that_can_not_be_embedded_costs_no_other_row_its_cosine() -> None:
    with memory_for_tests(embedder=_Fussy()) as memory:
        report = filled(memory, attempts=4).learn(model=judge())
        assert (report.judged, report.compared, report.failed) == (12, 9, 3)
        assert {row[3] for row in table(memory) if row[1] is None} == {
            "cosine: file 2 has no vector."
        }
        assert memory.learn(model=judge()).found == 3


def test_without_its_embedding_model_a_judge_judges_all_the_same() -> None:
    embedder = _Fussy()
    with memory_for_tests(embedder=embedder) as memory:
        filled(memory, attempts=2)
        embedder.gone = True
        with pytest.raises(EmbedderUnavailable):
            memory.learn()
        report = memory.learn(model=judge())
        assert (report.judged, report.compared, report.failed) == (6, 0, 0)
        embedder.gone = False
        model = judge()
        assert memory.learn(model=model).compared == 6
        assert model.calls == []


# ---------------------------------------------------------------- killed in the middle

KILLED = """
import os, sys
from tests.memory.test_learning import fair
from memplugin import Memory
from memplugin.testing import HashingEmbedder, ScriptedChatModel

asked = 0

def reply(messages):
    global asked
    asked += 1
    if asked == 40:
        os._exit(9)
    return fair(messages)

with Memory.open(sys.argv[1], embeddings=HashingEmbedder()) as memory:
    memory.learn(model=ScriptedChatModel(reply), concurrency=4)
"""


def _store(folder: Path) -> Memory:
    config = MemoryConfig(floor=-1.0)
    return Memory.open(folder, embeddings=HashingEmbedder(), config=config)


def test_killed_in_the_middle_and_run_again_it_gives_the_same_table(tmp_path: Path) -> None:
    for name in ("disturbed", "undisturbed"):
        with _store(tmp_path / name) as memory:
            filled(memory, attempts=20)
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "disturbed")],
        cwd=Path(__file__).parents[2],
        timeout=120,
    )
    assert killed.returncode == 9
    with _store(tmp_path / "disturbed") as memory:
        done = sum(row[0] is not None for row in table(memory))
        assert 0 < done < 40
        assert memory.learn(model=judge()).judged == 60 - done
        disturbed = table(memory)
        credit = memory.backend.ledger.credit.totals("ws", LearnConfig().weights)
    with _store(tmp_path / "undisturbed") as memory:
        memory.learn(model=judge())
        assert table(memory) == disturbed
        assert memory.backend.ledger.credit.totals("ws", LearnConfig().weights) == credit


def test_interrupted_it_keeps_what_was_scored(memory: Memory) -> None:
    def interrupt(done: int, _: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled(memory, attempts=20).learn(model=judge(), progress=interrupt)
    assert sum(row[0] is not None for row in table(memory)) >= 16
