"""Traces read by people: the sample, Label Studio's files, and who agrees with whom."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplugin import Memory, MemoryContext
from memplugin.errors import ConfigError
from memplugin.evaluation.agreement import agreement, name_scores
from memplugin.evaluation.cases import Case
from memplugin.evaluation.review import (
    labelling_config,
    read_annotations,
    stratified,
    to_label_studio,
)
from memplugin.testing import HashingEmbedder
from tests.evaluation import planted_run

approx = pytest.approx


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [Case("ws_1", run) for run in planted_run.runs()]


@pytest.fixture(scope="module")
def label_studio() -> Iterator[Any]:
    """Label Studio's own reader of labelling configurations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its models are written for an older Pydantic
        pytest.importorskip(
            "label_studio_sdk", reason="label-studio-sdk is not installed: memplugin[dev]"
        )
        from label_studio_sdk.label_interface import LabelInterface

        yield LabelInterface


def verdict(case: Case) -> tuple[str, str]:
    assert case.run.verdict
    return case.run.verdict.stage, case.run.verdict.cause


# ---------------------------------------------------------------- the sample


def test_a_sample_has_something_of_every_verdict_and_the_rest_in_proportion(
    cases: list[Case],
) -> None:
    chosen = Counter(verdict(case) for case in stratified(cases, 20))
    assert sum(chosen.values()) == 20
    assert set(chosen) == {(stage, cause) for stage, cause, _, _ in planted_run.PLAN}
    # 55 of 80 are 13.75 of 20: what is left when each of the others has at least one.
    assert chosen["none", "passed"] in (11, 12, 13)


def test_the_same_seed_gives_the_same_sample_and_another_one_another(cases: list[Case]) -> None:
    def ids(seed: int) -> list[str]:
        return [case.run.task_id for case in stratified(cases, 20, seed)]

    assert ids(1) == ids(1)
    assert ids(1) != ids(2)
    assert len(set(ids(1))) == 20


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 200))
def test_a_sample_is_as_large_as_was_asked_for(n: int) -> None:
    runs = [Case("ws_1", run) for run in planted_run.runs()]
    assert len(stratified(runs, n)) == min(n, 80)  # those without a verdict are left out


# ---------------------------------------------------------------- Label Studio's files


def test_label_studio_takes_the_config_and_every_task(label_studio: Any, cases: list[Case]) -> None:
    interface = label_studio(labelling_config())
    interface.validate()
    tasks = to_label_studio(stratified(cases, 80))
    assert len(tasks) == 80
    for task in tasks:
        assert interface.validate_task(task)
        assert interface.validate_annotation(annotation(1, "retrieval", should_use="no", note="x"))
    assert not interface.validate_annotation(annotation(1, "another stage"))


def test_annotators_do_not_see_the_verdict(cases: list[Case]) -> None:
    for task in to_label_studio(cases):
        said = json.dumps(task)
        assert "as it was planted" not in said
        assert "never_proposed" not in said
        assert "predictions" not in task


def test_annotators_see_what_was_asked_found_written_and_answered(cases: list[Case]) -> None:
    (task,) = to_label_studio([case for case in cases if case.run.task_id == "t_0010"][:1])
    data = task["data"]
    assert "Which basis for pack 10?" in data["request"]
    assert data["answer"] == '{\n "basis": "gross"\n}\n(reported as failed)'
    assert "7. not shown (below_cutoff) m_needed" in data["candidates"]
    assert data["candidates"].startswith("1. shown, cited m_10_1: ")
    assert "rejected (low) : so so" in data["writes"]


# ---------------------------------------------------------------- what came back


def annotation(by: int, stage: str | None, *, at: str = "2026-04-01T10:00:00Z", **more: Any) -> Any:
    def region(name: str, value: dict[str, Any]) -> dict[str, Any]:
        kind = "textarea" if "text" in value else "choices"
        return {"id": name, "from_name": name, "to_name": "request", "type": kind, "value": value}

    result = [region("stage", {"choices": [stage]})] if stage else []
    if "should_use" in more:
        result.append(region("should_use", {"choices": [more["should_use"]]}))
    if "note" in more:
        result.append(region("note", {"text": [more["note"]]}))
    cancelled = bool(more.get("cancelled"))
    return {"completed_by": by, "result": result, "updated_at": at, "was_cancelled": cancelled}


def exported(path: Path, *tasks: tuple[str, list[Any]], workspace: str = "ws_1") -> Path:
    """A file as Label Studio exports it."""
    said = [
        {"id": n, "data": {"workspace_id": workspace, "task_id": task_id}, "annotations": given}
        for n, (task_id, given) in enumerate(tasks)
    ]
    path.write_text(json.dumps(said), encoding="utf-8")
    return path


def test_annotations_are_read_with_who_when_and_what_else(tmp_path: Path) -> None:
    path = exported(
        tmp_path / "export.json",
        ("t_1", [annotation(7, "write", should_use="yes", note="see turn 2")]),
        ("t_2", [annotation(7, "none", should_use="no"), annotation(8, None)]),
        ("t_3", [annotation(8, "use", cancelled=True)]),
    )
    found = read_annotations(path)
    assert [(j.task_id, j.by, j.stage, j.should_use, j.note) for j in found.judgements] == [
        ("t_1", "annotator 7", "write", True, "see turn 2"),
        ("t_2", "annotator 7", "none", False, None),
    ]
    assert (found.empty, found.tasks) == (2, 3)
    assert found.judgements[0].at.isoformat() == "2026-04-01T10:00:00+00:00"


def test_of_two_annotations_of_a_task_by_the_same_person_the_later_counts(tmp_path: Path) -> None:
    later, earlier = (
        annotation(7, "use", at="2026-04-02T10:00:00.123Z"),
        annotation(7, "write", at="2026-04-01T10:00:00.5Z"),
    )
    found = read_annotations(exported(tmp_path / "e.json", ("t_1", [later, earlier])))
    assert [j.stage for j in found.judgements] == ["use"]


def test_an_annotator_is_also_told_by_address(tmp_path: Path) -> None:
    one = {**annotation(0, "use"), "completed_by": {"id": 3, "email": "ann@example.org"}}
    found = read_annotations(exported(tmp_path / "e.json", ("t_1", [one])))
    assert found.judgements[0].by == "annotator ann@example.org"


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "{}",
        '[{"id": 1}]',
        '[{"data": {"text": "of another project"}, "annotations": []}]',
        '[{"workspace_id": "ws", "task_id": "t", "stage": "use"}]',
        '[{"data": {"workspace_id": "ws", "task_id": "t"}}]',
    ],
)
def test_another_file_is_refused_and_says_which_export_to_choose(tmp_path: Path, text: str) -> None:
    path = tmp_path / "export.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="choose Export"):
        read_annotations(path)
    with pytest.raises(ConfigError, match="can't be read"):
        read_annotations(tmp_path / "none.json")


# ---------------------------------------------------------------- agreement, by hand


FIRST = ["write"] * 4 + ["retrieval"] * 3 + ["use"] * 3
SECOND = ["write"] * 3 + ["use"] + ["retrieval"] * 2 + ["write"] + ["use"] * 3


def test_the_agreement_of_two_is_what_is_worked_out_by_hand() -> None:
    found = agreement(list(zip(FIRST, SECOND, strict=True)))
    # They agree on 3 + 2 + 3 of 10. By chance: write .4 * .4, retrieval .3 * .2, use .3 * .4,
    # together .34; kappa is (.8 - .34) / (1 - .34).
    assert (found.agreed, found.share.n, found.share.value) == (8, 10, 0.8)
    assert found.kappa == approx(0.46 / 0.66)
    # Wilson for 8 of 10: (.8 + .19208 -+ 1.96 * sqrt(.016 + .009604)) / 1.38416.
    assert found.share.low == approx(0.4902, abs=5e-4)
    assert found.share.high == approx(0.9433, abs=5e-4)


def test_agreement_where_chance_can_do_everything_has_no_kappa() -> None:
    assert agreement([("use", "use")] * 5).kappa is None
    assert agreement([]).kappa is None
    assert agreement([]).share.value is None
    assert agreement([("use", "write"), ("write", "use")]).kappa == -1


def test_precision_and_recall_are_what_is_worked_out_by_hand() -> None:
    scores = {s.name: s for s in name_scores(list(zip(FIRST, SECOND, strict=True)), set(FIRST))}
    write, use = scores["write"], scores["use"]
    # The first says write 4 times, and the second agrees 3 times; the second says it 4 times.
    assert (write.precision.value, write.recall.value) == (0.75, 0.75)
    assert (use.precision.value, use.recall.value) == (1.0, 0.75)
    assert (scores["retrieval"].precision.value, scores["retrieval"].recall.value) == (2 / 3, 1.0)
    # Wilson for 3 of 4: (.75 + .4802 -+ 1.96 * sqrt(.046875 + .060025)) / 1.9604.
    assert write.precision.low == approx(0.3006, abs=5e-4)
    assert write.precision.high == approx(0.9544, abs=5e-4)
    assert "none" not in {s.name for s in name_scores([("use", "use")], ["none", "use"])}


# ---------------------------------------------------------------- the commands


def test_a_sample_goes_out_and_what_comes_back_changes_the_report(
    tmp_path: Path, cli: Callable[..., Any], label_studio: Any
) -> None:
    run = planted_run.write(tmp_path / "run")
    out = tmp_path / "review"
    done = cli("review", "export", "--run", run, "--out", out, "--sample", 24, "--json")
    assert (done.exit_code, json.loads(done.stdout)["count"]) == (0, 24)
    interface = label_studio((out / "labelling.xml").read_text(encoding="utf-8"))
    tasks = json.loads((out / "tasks.json").read_text(encoding="utf-8"))
    assert all(interface.validate_task(task) for task in tasks)

    def groups() -> dict[tuple[str, str], int]:
        told = cli("report", "--html", tmp_path / "page.html", "--run", run, "--json").stdout
        return {(g["stage"], g["cause"]): g["tasks"] for g in json.loads(told)["groups"]}

    before, page = groups(), (tmp_path / "page.html").read_text(encoding="utf-8")
    assert before["write", "never_proposed"] == 6
    # Two people: both say retrieval of the first, differ on the second, agree on the others.
    path = exported(
        tmp_path / "export.json",
        ("t_0001", [annotation(1, "retrieval"), annotation(2, "retrieval", note="<i>odd</i>")]),
        ("t_0002", [annotation(1, "write"), annotation(2, "none", should_use="no")]),
        ("t_0003", [annotation(1, "write"), annotation(2, "write")]),
        ("t_0010", [annotation(1, "retrieval"), annotation(2, "retrieval")]),
    )
    done = cli("review", "import", path, "--run", run, "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["annotations"], told["review"]["reviewed"], told["review"]["disputed"]) == (
        8,
        4,
        1,
    )
    (pair,) = told["review"]["annotators"]
    # 3 of 4; by chance: retrieval .5 * .5 and write .5 * .25, so (.75 - .375) / .625.
    assert (pair["stages"]["agreed"], pair["stages"]["kappa"]) == (3, approx(0.6))
    # The verdicts against the three that are agreed on: write, write and retrieval there,
    # retrieval, write and retrieval here.
    assert told["review"]["machine"]["agreed"] == 2
    stages = {s["name"]: s for s in told["review"]["stages"]}
    assert stages["write"]["precision"]["value"] == 0.5
    assert stages["retrieval"]["recall"]["value"] == 0.5

    after, changed = groups(), (tmp_path / "page.html").read_text(encoding="utf-8")
    assert after["write", "never_proposed"] == 5
    assert after["retrieval", "reviewed"] == 1
    assert "Review by people" in changed
    assert "Review by people" not in page
    assert "&lt;i&gt;odd&lt;/i&gt;" in changed

    again = cli("review", "import", path, "--run", run)
    assert again.exit_code == 0
    assert "annotator 1 and annotator 2 agree on 3 of 4" in again.stdout
    assert groups() == after


def test_a_store_keeps_what_people_said(tmp_path: Path, cli: Callable[..., Any]) -> None:
    store = tmp_path / "store"
    with Memory.open(store, embeddings=HashingEmbedder()) as memory:
        context = MemoryContext("ws_1", "s_1", task_id="t_1")
        memory.write("net of tax", context=context)
        memory.recall("tax", context=context)
        memory.report(context=context, succeeded=False)
    out = tmp_path / "review"
    done = cli("--store", store, "review", "export", "--out", out)
    assert done.exit_code == 0
    assert "1 tasks are in" in done.stdout
    path = exported(tmp_path / "export.json", ("t_1", [annotation(1, "use")]))
    assert cli("--store", store, "review", "import", path).exit_code == 0
    done = cli("--store", store, "report", "--html", tmp_path / "p.html", "--json")
    assert [(g["stage"], g["cause"]) for g in json.loads(done.stdout)["groups"]] == [
        ("use", "reviewed")
    ]


def test_what_can_not_be_imported_is_refused(tmp_path: Path, cli: Callable[..., Any]) -> None:
    run = planted_run.write(tmp_path / "run")
    unknown = exported(tmp_path / "a.json", ("t_9", [annotation(1, "use")]))
    done = cli("review", "import", unknown, "--run", run)
    assert (done.exit_code, "tasks that are not there (t_9)" in done.stderr) == (2, True)
    silent = exported(tmp_path / "b.json", ("t_0001", [annotation(1, None)]))
    done = cli("review", "import", silent, "--run", run)
    assert (done.exit_code, "no annotation names a stage" in done.stderr) == (1, True)
    assert not (run / "judgements.jsonl").exists()
    (run / "judgements.jsonl").write_text("nothing\n", encoding="utf-8")
    done = cli("report", "--html", tmp_path / "p.html", "--run", run)
    assert (done.exit_code, "holds no judgements" in done.stderr) == (2, True)
