"""What a caller sets for learning: what an outcome is worth, and who gets the credit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from memplugin.errors import ConfigError

HEALTH_FAILURE = "health_failure"
"""The failure mode of an attempt that broke the environment it worked in."""


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # NaN too
        raise ConfigError(f"{name} is {value}: give a number from {least:g} to {most:g}.")


def _harmful() -> dict[str, float]:
    return {HEALTH_FAILURE: -0.2}


@dataclass(frozen=True, slots=True)
class Grades:
    """What an attempt's outcome is worth, as a table.

    Attributes:
        passed: (attempt, value), by rising attempt: what passing is worth from that attempt
            on. The first entry is for attempt 1.
        failed: What failing is worth.
        failure_modes: What failing in a named mode is worth instead.

    Raises:
        ConfigError: a value is not between -1 and 1, or the attempts do not rise from 1.
    """

    passed: tuple[tuple[int, float], ...] = ((1, 1.0), (2, 0.8), (4, 0.5))
    failed: float = 0.0
    failure_modes: Mapping[str, float] = field(default_factory=_harmful)

    def __post_init__(self) -> None:
        attempts = [attempt for attempt, _ in self.passed]
        if attempts[:1] != [1] or attempts != sorted(set(attempts)):
            raise ConfigError(f"the attempts of passed are {attempts}: let them rise from 1.")
        values = [value for _, value in self.passed]
        for value in (*values, self.failed, *self.failure_modes.values()):
            _check("a grade", value, -1.0, 1.0)


BINARY_GRADES = Grades(passed=((1, 1.0),), failure_modes={})
"""Passing is worth 1 and failing 0, whatever it took and whatever it broke."""


@dataclass(frozen=True, slots=True)
class CreditWeights:
    """How much of an attempt's outcome a shown memory gets, by the signs that it was followed.

    The judge's word counts where there is one, else the cosine, else ``unknown``.

    Attributes:
        followed: The judge says that the action followed the memory.
        ignored: The judge says that it did not.
        close: No judge, and the cosine of memory and action is ``close_from`` or more.
        far: No judge, and the cosine is below that.
        unknown: Neither judge nor cosine.
        close_from: A multiple of 0.05: credit is added up by steps of that size.

    Raises:
        ConfigError: a weight is not between 0 and 1, or ``close_from`` no multiple of 0.05.
    """

    followed: float = 1.0
    ignored: float = 0.0
    close: float = 1.0
    far: float = 0.0
    unknown: float = 0.5
    close_from: float = 0.6

    def __post_init__(self) -> None:
        for name in ("followed", "ignored", "close", "far", "unknown"):
            _check(name, getattr(self, name), 0.0, 1.0)
        _check("close_from", self.close_from, -1.0, 1.0)
        if self.close_from != self.close_twentieths / 20:
            raise ConfigError(f"close_from is {self.close_from}: give a multiple of 0.05.")

    @property
    def close_twentieths(self) -> int:
        """``close_from`` as whole steps of 0.05."""
        return round(self.close_from * 20)


def twentieths(cosine: float) -> int:
    """The whole twentieths in a cosine: the largest n for which n / 20 is not above it."""
    n = math.floor(cosine * 20)
    # 0.15 * 20 may come out below 3: the division is what a threshold is compared with.
    return n + 1 if (n + 1) / 20 <= cosine else n


OUTCOME_ONLY = CreditWeights(ignored=1.0, far=1.0, unknown=1.0)
"""Whatever was shown gets the whole outcome: what credit was before anyone asked who was
followed. To compare with."""


@dataclass(frozen=True, slots=True)
class LearnConfig:
    """How outcomes become credit, and credit an eviction.

    Attributes:
        grades: What an outcome is worth.
        judge_prompt: The instructions of the judge of whether a memory was followed, for a
            domain with its own notion of it; None for the built-in ones.
        judge_chars: Longer actions are shown to the judge with their middle left out.
        weights: Who gets how much of an outcome.
        prior: Utility of a record that nothing is known of; it ranks neither up nor down.
        prior_attempts: How many attempts the prior weighs.
        evict_after: Attempts (successes, for a record that is not followed) that must be
            known before a record is evicted.
        audit_after: The same, before the audit names it.
        rarely: Share of the successes; one followed in fewer is followed rarely.
        far_apart: From what difference of judge (1 or 0) and cosine the audit wants a
            person to look.

    Raises:
        ConfigError: a number can't work.
    """

    grades: Grades = field(default_factory=Grades)
    judge_prompt: str | None = None
    judge_chars: int = 20_000
    weights: CreditWeights = field(default_factory=CreditWeights)
    prior: float = 0.0
    prior_attempts: float = 4.0
    evict_after: int = 5
    audit_after: int = 3
    rarely: float = 0.2
    far_apart: float = 0.8

    def __post_init__(self) -> None:
        _check("prior", self.prior, -1.0, 1.0)
        _check("rarely", self.rarely, 0.0, 1.0)
        _check("far_apart", self.far_apart, 0.0, 2.0)
        if not self.prior_attempts >= 0.0:
            raise ConfigError(f"prior_attempts is {self.prior_attempts}: give 0 or more.")
        for name in ("judge_chars", "evict_after", "audit_after"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: give at least 1.")
