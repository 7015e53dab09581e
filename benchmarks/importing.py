"""What ``import memplugin`` adds for an agent that has imported LangGraph already."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from typing import Any

from benchmarks.results import Figure, Part, Target

HEAVY = ("torch", "transformers", "sentence_transformers", "chromadb", "sqlalchemy", "alembic")
NEVER = ("torch", "chromadb")

_PROGRAM = """
import json, sys, time
begun = time.perf_counter()
import langgraph.graph
between = time.perf_counter()
before = set(sys.modules)
import memplugin
ended = time.perf_counter()
loaded = sorted(set(sys.modules) - before)
print(json.dumps({"langgraph": between - begun, "added": ended - between, "loaded": loaded}))
"""


def run(*, rounds: int = 5) -> Part:
    """Times imports in fresh processes."""
    seen = [_fresh() for _ in range(rounds + 1)][1:]  # the first one fills the file cache
    langgraph = statistics.median(one["langgraph"] for one in seen)
    added = statistics.median(one["added"] for one in seen)
    ratio = statistics.median(one["added"] / one["langgraph"] for one in seen)
    loaded = set(seen[0]["loaded"])
    figures = [
        Figure("import langgraph.graph", langgraph, "s"),
        Figure("import memplugin after it adds", added, "s", target=Target(0.3)),
        Figure("… as a share of langgraph.graph", ratio, ""),
        *(
            Figure(
                f"{name} is loaded by it",
                float(name in loaded),
                "",
                target=Target(0) if name in NEVER else None,
            )
            for name in HEAVY
        ),
    ]
    return Part("import", f"Median of {rounds} fresh processes.", figures)


def _fresh() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)
