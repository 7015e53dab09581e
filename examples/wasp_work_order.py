"""The right vendor was known, and ranked fourth: a ranking, an override, a plumber.

Run it: ``python examples/wasp_work_order.py``. It needs no key: the agent is scripted, and
everything else is real. ``memplugin demo --story wasp`` tells the same story with tables.
"""

from __future__ import annotations

import tempfile

from memplugin import Memory, MemoryConfig
from memplugin.demo.wasp import play
from memplugin.testing import FixedClock


def main() -> None:
    """Plays the acts and sends the plumber, on a store in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:

        def open_memory(config: MemoryConfig, clock: FixedClock) -> Memory:
            return Memory.open(folder, config=config, clock=clock)

        ended = play(open_memory, MemoryConfig())
    for ranking in ended.rankings:
        print(f"policy {ranking.policy}")
        for candidate in ranking.candidates:
            print(f"  {candidate.rank}  {candidate.score:.2f}  {candidate.content}")
    for act in ended.acts:
        print(f"act {act.number}: {act.title}")
        print(f"  sent: {act.vendor}, flags: {', '.join(act.flags) or 'none'}")
        print(f"  verdict: {act.verdict.stage} / {act.verdict.cause}")
    plumber = ended.plumber
    print(f"the plumber: {plumber.started:.2f} before, {plumber.beta:.2f} after")
    print(f"  the old rule on the same evidence: {plumber.ema:.2f}")
    for where, who, sure in plumber.answers:
        print(f"  {where}: {who} ({sure:.2f})")


if __name__ == "__main__":
    main()
