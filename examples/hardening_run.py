"""Tips that were lucky to be there: credit by outcome alone, and by who was followed.

Run it: ``python examples/hardening_run.py``. It needs no key: agent and judge are scripted,
and everything else is real.
"""

from __future__ import annotations

import tempfile

from memplugin import Memory, MemoryConfig
from memplugin.demo.hardening import play
from memplugin.storage.embedding.embedder import make_embedder
from memplugin.testing import FixedClock


def main() -> None:
    """Plays both runs on a store in a temporary folder."""
    embedder = make_embedder()
    with tempfile.TemporaryDirectory() as folder:

        def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
            return Memory.open(folder, embeddings=embedder, config=config, clock=clock)

        ended = play(open_memory)
    for run in ended.runs:
        print(f"after run {run.number}: rank by outcome alone, rank by who was followed")
        for standing in run.standings:
            mark = "misleading" if standing.misleading else "sound"
            ranks = f"{standing.by_outcome[0]}  {standing.by_following[0]}"
            print(f"  {ranks}  {mark:<10}  {standing.content}")
    print("the audit calls misleading:", len(ended.audit.misleading))
    print("evicted:", len(ended.evicted))
    print("the rule that failed three times now passes:", ended.afterwards[-1].passed)


if __name__ == "__main__":
    main()
