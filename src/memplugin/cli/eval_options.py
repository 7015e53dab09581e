"""The options of ``memplugin eval``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

SuiteName = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="A YAML or JSONL file; or starter, which comes with the package; or locomo or "
        "memsyco, where the data are here.",
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="Who extracts and decides: scripted (with the suite's planted faults, the same each "
        "time), local (a small real model decides), or PROVIDER:NAME."
    ),
]
Judge = Annotated[
    str | None,
    typer.Option(metavar="PROVIDER:NAME", help="The model that judges where a suite wants one."),
]
Agent = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        help="Your own agent, which answers every request: a function of one argument, see "
        "memplugin.evaluation.agents.",
    ),
]
Embeddings = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The embedding model, by name or folder, or hashing, which is none. Left out: "
        "hashing with scripted models, all-MiniLM-L6-v2 with others.",
    ),
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep the results there, as they come.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with the run in --out where it was stopped.")
]
Only = Annotated[
    list[str] | None, typer.Option("--task", metavar="ID", help="Only this task; repeatable.")
]
FailUnder = Annotated[
    float | None,
    typer.Option(min=0, max=1, metavar="SHARE", help="Exit with 1 where the share is lower."),
]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the options of ``eval run`` and ``eval arms`` say.

    Attributes:
        sample: The share of passing tasks that get counterfactuals, beside all that fail;
            None for no counterfactuals.
        keep_stores: Whether each task's store is kept in ``out``.
    """

    suite: str
    arms: tuple[str, ...]
    model: str = "scripted"
    judge: str | None = None
    agent: str | None = None
    embeddings: str | None = None
    out: Path | None = None
    resume: bool = False
    only: tuple[str, ...] = ()
    corrections: int = 0
    sample: float | None = None
    keep_stores: bool = False
