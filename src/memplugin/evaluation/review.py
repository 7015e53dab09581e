"""Review by people in Label Studio: a sample to export, their annotations, the comparison."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any, cast, get_args

from memplugin.diagnosis.attribution import STAGES
from memplugin.errors import ConfigError
from memplugin.evaluation.agreement import Agreement, NameScore, Pair, agreement, name_scores
from memplugin.evaluation.cases import Case
from memplugin.records import Json, Judgement, Noun, Stage
from memplugin.text import clean

_HOW = 'in Label Studio choose Export, and there "JSON" (not JSON-MIN or CSV)'


@dataclass(frozen=True, slots=True)
class Annotations:
    """The annotations in a file.

    Attributes:
        judgements: The last one of each annotator on each task.
        empty: How many annotations name no stage, or were skipped by the annotator.
        tasks: How many tasks the file has.
    """

    judgements: tuple[Judgement, ...]
    empty: int
    tasks: int


def read_annotations(path: Path) -> Annotations:
    """Reads Label Studio's JSON export.

    Raises:
        ConfigError: it is no such export, or not of tasks that memplugin exported.
    """
    tasks = _tasks(path)
    last: dict[tuple[str, str, str], Judgement] = {}
    empty = 0
    for task in tasks:
        for annotation in sorted(_annotations(task, path), key=_when):
            judgement = _judgement(task["data"], annotation)
            if judgement is None:
                empty += 1
            else:
                last[judgement.workspace_id, judgement.task_id, judgement.by] = judgement
    return Annotations(tuple(last.values()), empty, len(tasks))


def _tasks(path: Path) -> list[Json]:
    try:
        read: Any = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error}. Check the path.") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON ({error}): {_HOW}.") from error
    if not isinstance(read, list):
        raise ConfigError(f"{path} is no list of tasks: {_HOW}.")
    for task in cast(list[Any], read):
        data: Any = task.get("data") if isinstance(task, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] -- of a file
        if not isinstance(data, dict) or not {"workspace_id", "task_id"} <= set(cast(Json, data)):
            raise ConfigError(
                f"{path} has a task that memplugin did not export, or is no full export: {_HOW}."
            )
    return cast(list[Json], read)


def _annotations(task: Json, path: Path) -> Iterator[Json]:
    there = task.get("annotations", task.get("completions"))
    if not isinstance(there, list):
        raise ConfigError(f"{path} has no annotations: {_HOW}.")
    yield from cast(list[Json], there)


def _judgement(data: Mapping[str, Any], annotation: Json) -> Judgement | None:
    chosen = _chosen(annotation)
    stage = chosen.get("stage")
    if annotation.get("was_cancelled") or stage not in get_args(Stage):
        return None
    should_use = chosen.get("should_use")
    return Judgement(
        workspace_id=str(data["workspace_id"]),
        task_id=str(data["task_id"]),
        by=_annotator(annotation.get("completed_by")),
        stage=cast(Stage, stage),
        at=_when(annotation),
        should_use=None if should_use is None else should_use == "yes",
        note=chosen.get("note"),
    )


def _chosen(annotation: Json) -> dict[str, str]:
    found: dict[str, str] = {}
    for region in cast(list[Json], annotation.get("result") or []):
        value = cast(Json, region.get("value") or {})
        texts = cast(list[Any], value.get("choices") or value.get("text") or [])
        if texts:
            found[str(region.get("from_name"))] = clean(str(texts[0]))
    return found


def _annotator(by: object) -> str:
    """A name for an annotator; Label Studio gives a number, or an object with the address."""
    if isinstance(by, dict):
        who = cast(Json, by)
        by = who.get("email") or who.get("id")
    return f"annotator {clean(str(by))}" if by is not None else "annotator"


def _when(annotation: Json) -> datetime:
    given = str(annotation.get("updated_at") or annotation.get("created_at") or "")
    try:
        at = datetime.fromisoformat(given)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)  # an export without times: none is later
    return at if at.tzinfo else at.replace(tzinfo=UTC)


_OUTCOMES = {True: "reported as passed", False: "reported as failed", None: "no outcome reported"}


def labelling_config() -> str:
    """Label Studio's labelling configuration for the tasks of ``to_label_studio``."""
    return files("memplugin.evaluation").joinpath("labelling.xml").read_text(encoding="utf-8")


# ---------------------------------------------------------------- sample


def stratified(cases: Sequence[Case], n: int, seed: int = 0) -> list[Case]:
    """Draws a sample that has every verdict, the rest in proportion.

    Args:
        cases: Those without a record or a verdict are left out.
        n: The size of the sample; all cases when there are fewer.
        seed: The same seed gives the same sample.

    Returns:
        The sample in a random order, which does not show the verdicts.
    """
    strata: defaultdict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        if case.run.verdict and case.run.record:
            strata[case.run.verdict.stage, case.run.verdict.cause].append(case)
    draw = random.Random(seed)  # noqa: S311 -- a sample for reading, no secret
    sizes = _sizes({key: len(stratum) for key, stratum in strata.items()}, n)
    chosen = [case for key in sorted(strata) for case in draw.sample(strata[key], sizes[key])]
    draw.shuffle(chosen)
    return chosen


def _sizes(there: Mapping[tuple[str, str], int], n: int) -> dict[tuple[str, str], int]:
    """One of each, the rarest first; then more of those furthest below their proportion."""
    total = sum(there.values())
    if n >= total:
        return dict(there)
    rarest = sorted(there, key=lambda key: (there[key], key))
    sizes = {key: int(place < n) for place, key in enumerate(rarest)}
    while sum(sizes.values()) < n:
        owed = {
            key: n * there[key] / total - sizes[key] for key in there if sizes[key] < there[key]
        }
        sizes[max(owed, key=lambda key: (owed[key], key))] += 1
    return sizes


# ---------------------------------------------------------------- export


def to_label_studio(cases: Sequence[Case]) -> list[Json]:
    """Tasks to import in Label Studio, with ``labelling_config`` as the project's setting."""
    return [{"data": _shown(case)} for case in cases]


def _shown(case: Case) -> Json:
    record = case.run.record
    retrieval = record.retrieval if record else None
    answer = (
        json.dumps(case.run.answer, ensure_ascii=False, indent=1)
        if case.run.answer
        else "no answer"
    )
    return {
        "workspace_id": case.workspace_id,
        "task_id": case.run.task_id,
        "arm": case.run.arm,
        "request": (retrieval.query if retrieval else None) or "not known: nothing was recalled",
        "answer": f"{answer}\n({_OUTCOMES[case.run.success]})",
        "needed": case.needed or "not known",
        "writes": _writes(case),
        "candidates": _candidates(case),
    }


def _writes(case: Case) -> str:
    writes = case.run.record.writes if case.run.record else ()
    lines = [
        f"{w.written_at:%Y-%m-%d} {w.gate}{f' ({w.reason})' if w.reason else ''}"
        f" {w.record_id or ''}: {w.content or 'no text kept'}"
        for w in writes
    ]
    return "\n".join(lines) or "nothing"


def _candidates(case: Case) -> str:
    retrieval = case.run.record.retrieval if case.run.record else None
    cited = case.run.record.use.cited_record_ids if case.run.record else ()
    lines = [
        f"{c.rank}. {'shown' if c.injected else f'not shown ({c.cut})'}"
        f"{', cited' if c.record_id in cited else ''} {c.record_id}: {c.content or 'no text kept'}"
        for c in (retrieval.candidates if retrieval else ())
    ]
    return "\n".join(lines) or "nothing"


# ---------------------------------------------------------------- comparison


@dataclass(frozen=True, slots=True)
class Annotators(Noun):
    """Two people, on the tasks that both have judged."""

    first: str
    second: str
    stages: Agreement


@dataclass(frozen=True, slots=True)
class ReviewReport(Noun):
    """The judgements on a sample, and how far the attribution agrees with them.

    Attributes:
        reviewed: How many tasks were judged.
        disputed: How many of these the annotators disagree on; they are not compared.
        annotators: The agreement of each pair of annotators.
        machine: The agreement of the attribution with the stage that the annotators agree
            on.
        stages: Precision and recall of the attribution, stage by stage.
        table: How often the attribution named one stage (first) and the annotators
            another (second).
        rightly_unused: How many tasks, by an annotator, should not have used memory.
    """

    reviewed: int
    disputed: int
    annotators: tuple[Annotators, ...]
    machine: Agreement
    stages: tuple[NameScore, ...]
    table: tuple[tuple[str, str, int], ...]
    rightly_unused: int


def unknown_tasks(cases: Sequence[Case], judgements: Sequence[Judgement]) -> list[str]:
    """The ids of tasks that were judged and are not among the cases."""
    there = {(case.workspace_id, case.run.task_id) for case in cases}
    judged = dict.fromkeys((one.workspace_id, one.task_id) for one in judgements)
    return [task_id for workspace_id, task_id in judged if (workspace_id, task_id) not in there]


def review_report(cases: Sequence[Case]) -> ReviewReport:
    """Compares the judgements with each other and with the attribution.

    Raises:
        ConfigError: SciPy is not installed.
    """
    seen = [case for case in cases if case.people]
    pairs: list[Pair] = [
        (case.run.verdict.stage, case.reviewed)
        for case in seen
        if case.run.verdict and case.reviewed
    ]
    return ReviewReport(
        reviewed=len(seen),
        disputed=sum(case.reviewed is None for case in seen),
        annotators=_annotators(seen),
        machine=agreement(pairs),
        stages=tuple(name_scores(pairs, STAGES)),
        table=tuple((one, other, pairs.count((one, other))) for one, other in sorted(set(pairs))),
        rightly_unused=sum(any(j.should_use is False for j in case.people) for case in seen),
    )


def _annotators(seen: Sequence[Case]) -> tuple[Annotators, ...]:
    stages: defaultdict[str, dict[tuple[str, str], str]] = defaultdict(dict)
    for case in seen:
        for judgement in case.people:
            stages[judgement.by][case.workspace_id, case.run.task_id] = judgement.stage
    return tuple(
        Annotators(
            first,
            second,
            agreement(
                [
                    (stages[first][t], stages[second][t])
                    for t in stages[first]
                    if t in stages[second]
                ]
            ),
        )
        for first, second in combinations(sorted(stages), 2)
    )
