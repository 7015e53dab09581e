"""A LangGraph agent with memory, two sessions, and a verdict on what went wrong.

Run it: ``python examples/board_pack.py``. It needs no key: the models are scripted, and
everything else is real. ``memplugin demo`` tells the same story with tables.
"""

from __future__ import annotations

import tempfile

from memplugin import Memory, MemoryConfig
from memplugin.stories import scripted
from memplugin.stories.play import play
from memplugin.testing import FixedClock


def main() -> None:
    """Plays the three acts on a store in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:

        def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
            return Memory.open(folder, config=config, clock=clock)

        acts = play(open_memory, scripted.extractor(), scripted.decider(), MemoryConfig())
        for played in acts:
            answer = played.record.use.answer or {}
            print(f"act {played.act.number}: {played.act.title}")
            print(f"  the pack came out {answer.get('basis')}")
            print(f"  verdict: {played.verdict.stage} / {played.verdict.cause}")
            for line in played.verdict.evidence:
                print(f"    {line}")


if __name__ == "__main__":
    main()
