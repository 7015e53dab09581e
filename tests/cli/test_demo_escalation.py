"""The production escalation, sent to a collector: what arrives is enough."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from typer.testing import CliRunner

from memplugin.cli.main import app
from tests.otlp_receivers import attributes, http_receiver

BEFORE = "t_before_"


@dataclass(frozen=True)
class Played:
    """What the demo reported, and what the collector got."""

    told: Any
    spans: list[Any]

    @property
    def by_task(self) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for span in self.spans:
            shown = attributes(span)
            if task := shown.get("memplugin.task.id"):
                found[task].append(shown)
        return found


@pytest.fixture(scope="module")
def played() -> Iterator[Played]:
    with http_receiver() as received:
        arguments = ["--otlp", received.endpoint, "demo", "--story", "escalation", "--json"]
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, done.output
        assert done.stderr == ""
        yield Played(json.loads(done.stdout)["escalation"], received.spans)


def test_about_one_task_in_fifty_is_kept_and_none_is_split(played: Played) -> None:
    assert (played.told["tasks"], played.told["sessions"]) == (2_000, 4_000)
    # 99.9 % of binomial samples of 2,000 at 2 % have 21 to 62.
    assert 21 <= len(played.told["kept"]) <= 62
    assert played.told["split"] == []


def test_what_arrives_are_both_sessions_of_the_kept_tasks_and_one_sent_again(
    played: Played,
) -> None:
    promoted = played.told["promoted"]["task_id"]
    again = {task for task, shown in played.by_task.items() if shown[0].get("memplugin.rebuilt")}
    kept = {task for task in played.by_task if not task.startswith(BEFORE)} - again
    assert kept == set(played.told["kept"])
    assert promoted in again  # and with it the writes of other tasks that it found
    for task in (*kept, promoted):
        sessions = {shown["memplugin.session.id"] for shown in played.by_task[task]}
        assert sessions == {f"s{task[1:]}_1", f"s{task[1:]}_2"}
        rebuilt = {shown.get("memplugin.rebuilt", False) for shown in played.by_task[task]}
        assert rebuilt == {task == promoted}


def test_every_kept_task_is_in_the_highest_buckets(played: Played) -> None:
    for task in played.told["kept"]:
        assert {shown["memplugin.task.bucket"] for shown in played.by_task[task]} <= {98, 99}


def test_the_verdict_from_the_kept_traces_alone_is_the_ledgers(played: Played) -> None:
    judged = played.told["judged"]
    assert len({tuple(one["planted"]) for one in judged}) >= 4
    for one in (*judged, played.told["promoted"]):
        traced, known = one["from_traces"], one["from_ledger"]
        for field in ("stage", "cause", "record_id", "rank"):
            assert traced[field] == known[field]
        assert (known["stage"], known["cause"]) == tuple(one["planted"])


def test_a_task_that_was_not_kept_has_no_trace_until_it_is_sent_again(played: Played) -> None:
    assert played.told["lost"]["from_traces"] is None
    assert played.told["lost"]["from_ledger"]["stage"] in ("write", "retrieval", "use")
    assert played.told["sent"] >= 4


def test_no_text_of_a_customer_is_on_any_span(played: Played) -> None:
    shown = " ".join(str(span) for span in played.spans)
    for text in ("of tax", "board pack", "revenue", "project 1"):
        assert text not in shown.casefold()
