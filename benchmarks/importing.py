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
LANGGRAPH = "import langgraph.graph"

_PROGRAM = """
import json, sys, time
begun = time.perf_counter()
import langgraph.graph
between = time.perf_counter()
before = set(sys.modules)
import memplugin
added = time.perf_counter()
from memplugin import Memory
ended = time.perf_counter()
loaded = sorted(set(sys.modules) - before)
seconds = {"langgraph": between - begun, "package": added - between, "memory": ended - between}
print(json.dumps({**seconds, "loaded": loaded}))
"""


def run(*, rounds: int = 5) -> Part:
    """Times imports in fresh processes."""
    seen = [_fresh() for _ in range(rounds + 1)][1:]  # the first one fills the file cache
    langgraph, package, memory = (
        statistics.median(one[what] for one in seen) for what in ("langgraph", "package", "memory")
    )
    ratio = statistics.median(one["memory"] / one["langgraph"] for one in seen)
    loaded = set(seen[0]["loaded"])
    figures = [
        Figure(LANGGRAPH, langgraph, "s"),
        Figure("import memplugin after it adds", package, "s", target=Target(0.3)),
        Figure("from memplugin import Memory after it adds", memory, "s"),
        Figure("… as a share", ratio, "", note=f"of {LANGGRAPH}"),
        *(
            Figure(
                f"{name} is loaded by these",
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
