from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import credit, importing, locomo, quality, results, scale, speed
from benchmarks.results import Figure, Part, Target
from benchmarks.timing import Timings, in_turns
from memplugin.testing import HashingEmbedder

CONVERSATION = {
    "sample_id": "conv-1",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ann", "dia_id": "D1:1", "text": "I bought a red kayak."},
            {"speaker": "Bob", "dia_id": "D1:2", "text": "Nice!", "blip_caption": "a lake"},
            {"speaker": "Ann", "dia_id": "D1:3", "text": "My sister plays chess."},
        ],
    },
    "qa": [
        {"question": "Who plays chess?", "evidence": ["D1:3"], "category": 4},
        {"question": "What did Ann buy?", "evidence": ["D1:1; D9:9"], "category": 1},
        {"question": "Where is it?", "evidence": ["D9:9"], "category": 1},
    ],
}


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([CONVERSATION]))
    return path


def test_contenders_take_turns_and_each_round_begins_with_the_next() -> None:
    order: list[str] = []
    contenders = {name: lambda _, name=name: order.append(name) for name in ("a", "b")}
    taken = in_turns(contenders, rounds=2, warm_up=0)
    assert order == ["a", "b", "b", "a"]
    assert {name: len(seconds) for name, seconds in taken.seconds.items()} == {"a": 2, "b": 2}


def test_a_ratio_is_the_median_of_the_ratios_of_rounds() -> None:
    taken = Timings({"slow": [2.0, 9.0, 40.0], "fast": [1.0, 3.0, 10.0]})
    assert taken.ratio("slow", "fast") == 3.0
    assert taken.difference("slow", "fast") == 6.0
    assert taken.p50("slow") == 9.0


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("x", 2.0, target=Target(1.0)), False),
        (Figure("x", 2.0, ratio=0.5, target=Target(1.0)), True),
        (Figure("x", 0.98, target=Target(0.99, "higher")), False),
        (Figure("x", 2.0), None),
        (Figure("x", target=Target(1.0), note="not installed"), None),
    ],
)
def test_a_target_is_for_the_ratio_where_there_is_one(figure: Figure, met: bool | None) -> None:
    assert figure.met is met


def test_speed_compares_recalls_with_floors_and_peers() -> None:
    sizes = speed.Sizes(workspaces=2, records=20, questions=3, k=3)
    recall, tracing, storing = speed.run(sizes, embedder=HashingEmbedder())
    assert recall.value(speed.RECALL) > 0
    assert recall.value("LangGraph InMemoryStore") > 0
    assert all(figure.ratio is not None for figure in tracing.figures[1:])
    assert all(figure.value for figure in storing.figures)


def test_scale_measures_growth_and_the_recall_of_the_index() -> None:
    sizes = scale.Sizes(small=20, large=60, others=2, records_each=2, questions=3, churned=40)
    crowd, growth, churn = scale.run(sizes)
    assert crowd.figures[1].ratio
    assert growth.figures[1].ratio
    # Chroma searches so few vectors whole.
    assert growth.value("recall@20 of the index") == 1.0
    assert churn.value("recall@20 of the index, after") == 1.0


def test_importing_times_fresh_processes_and_lists_what_is_loaded() -> None:
    part = importing.run(rounds=1)
    assert part.value("import langgraph.graph") > 0
    assert part.value("torch is loaded by these") == 0
    assert part.value("chromadb is loaded by these") == 0


def test_quality_counts_the_evidence_among_the_first(conversation: Path) -> None:
    part = quality.run(path=conversation, embedder=HashingEmbedder())
    assert part.value("balanced, with around: R@5") == 1.0
    assert part.value("balanced, without around: R@10") == 1.0
    assert part.value("  single-hop (1): R@5") == 1.0


def test_turns_carry_their_date_image_and_neighbours(conversation: Path) -> None:
    (read,) = locomo.load(conversation)
    date = "[1:56 pm on 8 May, 2023]"
    assert read.turns[1].content == f"{date} Bob: Nice! [image: a lake]"
    assert read.turns[0].around == f"{date} Ann: I bought a red kayak.\nBob: Nice! [image: a lake]"


def test_evidence_that_is_not_there_is_left_out_and_so_is_a_question_without_any(
    conversation: Path,
) -> None:
    (read,) = locomo.load(conversation)
    assert [question.evidence for question in read.questions] == [{"D1:3"}, {"D1:1"}]


def test_without_its_data_quality_is_skipped_and_says_where_the_data_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quality, "find", lambda: None)
    part = quality.run()
    assert "locomo10.json" in part.about
    assert locomo.VARIABLE in part.about
    assert [figure.note for figure in part.figures] == ["skipped: no data"]


def test_the_variable_names_the_data_and_a_wrong_name_is_not_replaced(conversation: Path) -> None:
    assert locomo.find({locomo.VARIABLE: str(conversation)}) == conversation
    assert locomo.find({locomo.VARIABLE: str(conversation) + "x"}) is None


def test_results_are_printed_and_kept_with_the_facts_of_the_machine(tmp_path: Path) -> None:
    part = Part("speed", "a few", [Figure("recall", 2.0, "ms", 1.5, "floor", Target(1.25))])
    console = Console(record=True, width=100)
    results.show(console, part)
    assert "misses" in console.export_text()
    kept = json.loads(results.save([part], quick=True, folder=tmp_path).read_text())
    assert kept["machine"]["cpus"] >= 1
    assert kept["parts"][0]["figures"][0]["met"] is False


def test_the_command_runs_one_part_and_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(quality, "find", lambda: None)
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    assert command.main(["quality", "--quick"]) == 0
    assert "LoCoMo is not here" in capsys.readouterr().out
    assert len(list(tmp_path.iterdir())) == 1


def test_the_credit_benchmark_measures_scoring_and_recall() -> None:
    sizes = credit.Sizes(judged=16, compared=8, records=20, history=32, rounds=4)
    learn, recall = credit.run(sizes, embedder=HashingEmbedder())
    # 16 rows of 0.2 s, 8 at a time, can't take less than 0.4 s.
    assert learn.value("learn with a judge") >= 0.4
    assert learn.value("learn by cosine alone") > 0
    assert recall.value(credit.WITH) > 0
