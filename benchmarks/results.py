"""What was measured: a table to read, and JSON to compare with another day's."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent / "results"
PACKAGES = (
    "memplugin",
    "chromadb",
    "langgraph",
    "numpy",
    "onnxruntime",
    "opentelemetry-sdk",
    "sentence-transformers",
    "sqlalchemy",
    "torch",
)


@dataclass(frozen=True)
class Target:
    """What a figure should be."""

    limit: float
    better: Literal["lower", "higher"] = "lower"

    def met(self, value: float) -> bool:
        """Whether a figure is as it should be."""
        return value <= self.limit if self.better == "lower" else value >= self.limit

    def __str__(self) -> str:
        return f"{'≤' if self.better == 'lower' else '≥'} {self.limit:g}"


@dataclass(frozen=True)
class Figure:
    """One line of a table.

    Attributes:
        value: In ``unit``; None where it was not measured, and ``note`` says why.
        ratio: To what ``to`` names, taken in the same run.
        target: For the ratio where there is one, else for the value.
    """

    name: str
    value: float | None = None
    unit: str = "ms"
    ratio: float | None = None
    to: str = ""
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        judged = self.value if self.ratio is None else self.ratio
        return None if self.target is None or judged is None else self.target.met(judged)


@dataclass(frozen=True)
class Part:
    """One table."""

    name: str
    about: str
    figures: Sequence[Figure]

    def value(self, name: str) -> float:
        """A figure by its name."""
        found = next(f for f in self.figures if f.name == name)
        if found.value is None:
            raise ValueError(f"{name} was not measured: {found.note}")
        return found.value


def show(console: Console, part: Part) -> None:
    """Prints a part as a table."""
    table = Table(title=part.name, caption=part.about, title_justify="left")
    for heading in ("", "value", "ratio", "to", "target", ""):
        table.add_column(heading, justify="right" if heading in ("value", "ratio") else "left")
    for figure in part.figures:
        verdict = {True: "[green]ok[/]", False: "[red]misses[/]", None: figure.note}[figure.met]
        table.add_row(
            figure.name,
            "" if figure.value is None else f"{_rounded(figure.value)} {figure.unit}",
            "" if figure.ratio is None else f"{figure.ratio:.3f}",
            figure.to,
            str(figure.target or ""),
            verdict,
        )
    console.print(table, "")


def save(parts: Sequence[Part], *, quick: bool, folder: Path | None = None) -> Path:
    """Writes everything as JSON, named by the time."""
    folder = folder or FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)
    path = folder / f"{now:%Y%m%dT%H%M%SZ}.json"
    content = {
        "at": now.isoformat(),
        "quick": quick,
        "machine": machine(),
        "parts": [
            {
                "name": part.name,
                "about": part.about,
                "figures": [{**asdict(figure), "met": figure.met} for figure in part.figures],
            }
            for part in parts
        ],
    }
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    return {
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _rounded(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
