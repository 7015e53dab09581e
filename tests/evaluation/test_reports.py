"""The page: whole in itself, every text escaped, every task in it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from memplugin import Memory, MemoryContext, Need
from memplugin.evaluation.cases import Case, run_cases, store_cases
from memplugin.evaluation.charts import plots, ranks, shown_against_bearing, stages_over_time
from memplugin.evaluation.reports import Page, page_of, render
from memplugin.records import Judgement
from memplugin.testing import HashingEmbedder, memory_for_tests
from tests.evaluation import planted_run

NOW = datetime(2026, 4, 1, 12, 0, tzinfo=UTC)
VOID = {"meta", "link", "br", "img", "input", "hr"}


class Reader(HTMLParser):
    """Keeps every tag with its attributes, and refuses what is not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    assert reader.open == []
    return reader


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [Case(run.record.workspace_id if run.record else "", run) for run in planted_run.runs()]


def made(cases: list[Case]) -> Page:
    return page_of(cases, title="Which stage failed", about=[("suite", "planted")], now=NOW)


@pytest.fixture(scope="module")
def html(cases: list[Case]) -> str:
    return render(made(cases))


def test_the_page_asks_for_nothing_from_anywhere(html: str) -> None:
    tags = read(html).tags
    assert not {name for name, _ in tags} & {"script", "iframe", "object", "embed", "img", "form"}
    for name, given in tags:
        assert not any(attribute.startswith("on") for attribute in given)
        for key in ("src", "href", "xlink:href", "srcset", "action"):
            assert (given.get(key) or "#").startswith(("#", "data:")), (name, given)
    style = html[html.index("<style>") : html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in html


def test_what_a_user_wrote_is_text_in_the_page(html: str) -> None:
    assert "<script" not in html
    assert "onerror=alert(2)>" not in html
    assert planted_run.HOSTILE in "".join(read(html).words)


def test_every_tasks_record_is_in_the_page(html: str, cases: list[Case]) -> None:
    reader = read(html)
    summaries = re.findall(r"<summary><b>(t_\d+)</b>", html)
    assert sorted(summaries) == sorted(case.run.task_id for case in cases)
    text = "".join(reader.words)
    for case in cases:
        if case.run.record:
            assert f"m_{int(case.run.task_id[2:])}_9" in text


def test_links_lead_to_where_their_tasks_are(html: str) -> None:
    tags = read(html).tags
    anchors = {given["id"] for _, given in tags if "id" in given}
    links = [given["href"] or "" for name, given in tags if name == "a"]
    assert len(links) == len(planted_run.PLAN)
    assert {link.removeprefix("#") for link in links} <= anchors


def test_plots_and_tables_can_be_read_without_seeing(html: str) -> None:
    tags = read(html).tags
    for name, given in tags:
        if name == "svg":
            assert given.get("aria-label") or given.get("aria-hidden") == "true"
        if given.get("role") == "region":
            assert given.get("aria-label")
    assert dict(tags)["html"] == {"lang": "en"}


def test_tasks_are_counted_once_at_the_stage_that_failed(cases: list[Case]) -> None:
    page = made(cases)
    counted = [(g.stage, g.cause, len(g.cases)) for g in page.groups]
    assert counted == [
        ("write", "never_proposed", 6),
        ("write", "rejected", 3),
        ("retrieval", "below_cutoff", 7),
        ("retrieval", "beyond_depth", 2),
        ("use", "ignored", 4),
        ("use", "misapplied", 2),
        ("none", "passed", 55),
        ("undetermined", "no_need", 1),
    ]
    assert len(page.others) == 80
    assert (page.success["memory_on"].value, page.success["memory_on"].n) == (55 / 80, 80)
    assert page.review is None


def test_the_plots_show_the_numbers_they_were_drawn_from(cases: list[Case]) -> None:
    page = made(cases)
    time, rank, bearing, arms = plots(
        [case for group in page.groups for case in group.cases], page.arms
    )
    assert time.columns[1:] == (
        "write (tasks)",
        "retrieval (tasks)",
        "use (tasks)",
        "undetermined (tasks)",
    )
    sums = [sum(int(row[column]) for row in time.rows) for column in range(1, 5)]
    assert sums == [9, 9, 6, 1]
    by_rank = {row[0]: row[1:] for row in rank.rows}
    assert by_rank["7"] == ("0", "7")
    assert by_rank[">50"] == ("0", "2")
    # Ranks 1 and 2 of four and two tasks; the second is shown where two or three are.
    assert int(by_rank["1"][0]) == 4
    assert sum(int(n) for n in by_rank["2"]) == 2
    assert sum(int(row[1]) for row in bearing.rows) == 55
    assert sum(int(row[2]) for row in bearing.rows) == 55
    assert [row[0] for row in arms.rows] == ["success", "corrections", "tokens", "latency ms"]
    assert {row[3] for row in arms.rows} == {"80"}
    for plot in (time, rank, bearing, arms):
        ElementTree.fromstring(plot.svg)


def test_the_heights_of_bars_are_in_proportion(cases: list[Case]) -> None:
    plot = ranks([case for case in cases if case.run.verdict])
    assert plot is not None
    bars = re.findall(r'height="([\d.]+)"><title>([^:]+): (\d+)', plot.svg)
    heights = {name: float(height) / int(count) for height, name, count in bars}
    assert max(heights.values()) == pytest.approx(min(heights.values()), rel=0.02)


def test_days_without_a_failure_have_their_place_in_time(cases: list[Case]) -> None:
    failed = [case for case in cases if case.stage == "write"]
    plot = stages_over_time([failed[0], failed[8]])
    assert plot is not None
    # Tasks 1 and 9, nine hours apart each: 2 March, 18:00, and 5 March, 18:00.
    assert [row[0] for row in plot.rows] == ["02 Mar", "03 Mar", "04 Mar", "05 Mar"]
    assert [row[1] for row in plot.rows] == ["1", "0", "0", "1"]


def test_there_is_no_plot_of_nothing() -> None:
    assert stages_over_time([]) is None
    assert ranks([]) is None
    assert shown_against_bearing([]) is None
    page = page_of([], title="Empty", about=[], now=NOW)
    assert "There are no tasks." in render(page)


def test_what_people_agree_on_counts_and_their_disputes_do_not(cases: list[Case]) -> None:
    first, second = [case for case in cases if case.run.verdict][:2]
    by = [Judgement("ws_1", "t", name, "retrieval", NOW, note="<b>") for name in ("a", "b")]
    disputed = (by[0], replace(by[1], stage="none"))
    others = [case for case in cases if case not in (first, second)]
    page = made([replace(first, people=tuple(by)), replace(second, people=disputed), *others])
    counted = {(g.stage, g.cause): (len(g.cases), g.machine) for g in page.groups}
    assert counted["write", "never_proposed"] == (5, 6)
    assert counted["retrieval", "reviewed"] == (1, 0)
    assert page.review is not None
    assert (page.review.reviewed, page.review.disputed) == (2, 1)
    html = render(page)
    assert "before review" in html
    assert "<b></dd>" not in html


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, as WCAG 2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_colour_of_a_text_or_bar_has_enough_contrast(html: str, scheme: str) -> None:
    light, dark = re.findall(r":root \{(.*?)\}", html, flags=re.DOTALL)[:2]
    colours = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", light if scheme == "light" else dark))
    assert len(colours) == 14
    for ground in (colours.pop("back"), colours.pop("panel")):
        for name, colour in colours.items():
            lighter, darker = sorted((luminance(ground), luminance(colour)), reverse=True)
            # WCAG 2 AA: 4.5 for text. Lines only part things.
            assert name == "line" or (lighter + 0.05) / (darker + 0.05) >= 4.5, (ground, name)


# ---------------------------------------------------------------- from where


def test_a_run_is_read_with_what_people_said_of_it(tmp_path: Path) -> None:
    planted_run.write(tmp_path)
    header, cases = run_cases(tmp_path)
    assert (header.suite, len(cases)) == ("planted", 160)
    assert {case.stage for case in cases} == {
        "write",
        "retrieval",
        "use",
        "none",
        "undetermined",
        None,
    }


def filled(memory: Memory) -> None:
    write = MemoryContext("ws", "s_1", task_id="t_0")
    memory.write("revenue is reported net of tax", context=write, kind="fact")
    for task, passed in (("t_1", False), ("t_2", True), ("t_3", False)):
        context = MemoryContext("ws", "s_2", task_id=task)
        memory.recall("revenue", context=context)
        memory.report(context=context, succeeded=passed)


def test_a_store_is_read_with_the_verdicts_of_its_last_diagnoses() -> None:
    with memory_for_tests() as memory:
        filled(memory)
        memory.diagnose("t_1", workspace_id="ws", need=Need(text="paid in euros"))
        cases = store_cases(memory.backend.ledger, ["ws"])
        found = {c.run.task_id: (c.run.verdict.cause, c.needed) for c in cases if c.run.verdict}
        # t_0 asked nothing of memory and reported nothing: there is nothing to report on.
        assert found == {
            "t_1": ("turns_not_kept", "paid in euros"),
            "t_2": ("passed", None),
            "t_3": ("no_need", None),
        }


def test_the_command_writes_the_page_of_a_store_or_of_a_run(
    tmp_path: Path, cli: Callable[..., Any]
) -> None:
    with Memory.open(tmp_path / "store", embeddings=HashingEmbedder()) as memory:
        filled(memory)
    page = tmp_path / "page.html"
    done = cli("--store", tmp_path / "store", "report", "--html", page)
    assert (done.exit_code, done.stdout) == (0, f"3 tasks are in {page}.\n")
    assert "t_3" in page.read_text(encoding="utf-8")
    planted_run.write(tmp_path / "run")
    done = cli("report", "--html", page, "--run", tmp_path / "run", "--json")
    assert done.exit_code == 0
    assert '"tasks": 55' in done.stdout
    assert "t_0080" in page.read_text(encoding="utf-8")


def test_the_command_says_what_can_not_be_reported(tmp_path: Path, cli: Callable[..., Any]) -> None:
    page, store = tmp_path / "page.html", tmp_path / "store"
    Memory.open(store, embeddings=HashingEmbedder()).close()
    nothing = cli("--store", store, "report", "--html", page)
    assert (nothing.exit_code, page.exists()) == (1, False)
    assert cli("report", "--html", page, "--run", tmp_path / "none").exit_code == 2
    planted_run.write(tmp_path / "run")
    both = cli("report", "--html", page, "--run", tmp_path / "run", "-w", "ws")
    assert (both.exit_code, "exclude each other" in both.stderr) == (2, True)
    nowhere = cli("report", "--html", tmp_path / "no" / "x.html", "--run", tmp_path / "run")
    assert (nowhere.exit_code, "can't be written" in nowhere.stderr) == (2, True)
