"""A LangGraph agent with memory, two sessions, and a verdict on what went wrong.

Run it: ``python examples/board_pack.py``. It needs no key: the models are scripted, and
everything else is real. ``memplugin demo`` tells the same story with tables.
"""

from __future__ import annotations

import tempfile

from opentelemetry import trace

from memplugin import Memory, MemoryConfig
from memplugin.demo import models as scripted
from memplugin.demo.board_pack import play
from memplugin.testing import FixedClock


def main() -> None:
    """Plays the three acts on a store in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:

        def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
            return Memory.open(folder, config=config, clock=clock)

        tracer = trace.get_tracer("board_pack")  # a no-op until you set a provider
        models = scripted.extractor(), scripted.decider()
        for played in play(open_memory, *models, MemoryConfig(), tracer):
            answer = played.record.use.answer or {}
            print(f"act {played.act.number}: {played.act.title}")
            print(f"  the pack came out {answer.get('basis')}")
            print(f"  verdict: {played.verdict.stage} / {played.verdict.cause}")
            for line in played.verdict.evidence:
                print(f"    {line}")


if __name__ == "__main__":
    main()
