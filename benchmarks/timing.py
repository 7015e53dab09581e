"""Timings that can be compared: taken in turns, in one run, and told as ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

WARM_UP = 3
"""Rounds before the first that counts: caches fill and connections open."""


@dataclass(frozen=True)
class Timings:
    """Seconds of each contender, round by round."""

    seconds: Mapping[str, list[float]] = field(default_factory=dict)

    def p50(self, name: str) -> float:
        """Median seconds of a contender."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, to: str) -> float:
        """Median over the rounds of one contender's time divided by another's in that round.

        A machine that slows down slows both in the same round.
        """
        pairs = zip(self.seconds[name], self.seconds[to], strict=True)
        return statistics.median(mine / other for mine, other in pairs)

    def difference(self, name: str, to: str) -> float:
        """Median over the rounds of one contender's seconds less another's."""
        pairs = zip(self.seconds[name], self.seconds[to], strict=True)
        return statistics.median(mine - other for mine, other in pairs)


def in_turns(
    contenders: Mapping[str, Callable[[int], object]], rounds: int, warm_up: int = WARM_UP
) -> Timings:
    """Times every contender once in each round, each round beginning with the next of them.

    Args:
        contenders: Name to what is timed; called with the number of the round.
        rounds: How many count.
        warm_up: How many are run before.
    """
    names = list(contenders)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm_up, rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            took = seconds_of(partial(contenders[name], turn))
            if turn >= 0:
                seconds[name].append(took)
    return Timings(seconds)


def seconds_of(call: Callable[[], object]) -> float:
    """How long a call takes."""
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun
