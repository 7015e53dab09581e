"""Exact tests, and intervals for shares and means.

SciPy comes with the extra ``lab``, and is imported when the first number is asked for.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplugin.errors import ConfigError
from memplugin.records import Noun

SIGNIFICANT = 0.05
"""A p-value below it is taken as an effect."""

POWER = 0.8
"""Probability with which a detectable difference is detected."""

CONFIDENCE = 0.95
"""The confidence level of every interval."""


@cache
def p_value(usual: tuple[int, int], runs: tuple[int, int]) -> float:
    """Fisher's exact test, two-sided: do two sides give the usual answer equally often?

    Args:
        usual: How many runs of each side gave it.
        runs: How many runs each side has.

    Raises:
        ConfigError: SciPy is not installed.
    """
    table = [[usual[0], runs[0] - usual[0]], [usual[1], runs[1] - usual[1]]]
    return float(_stats().fisher_exact(table).pvalue)


@cache
def share_interval(count: int, of: int) -> tuple[float, float]:
    """A 95 % interval for a share (Wilson's score); (0, 1) of nothing.

    Raises:
        ConfigError: SciPy is not installed.
    """
    if of == 0:
        return 0.0, 1.0
    found = _stats().binomtest(count, of).proportion_ci(CONFIDENCE, method="wilson")
    return float(found.low), float(found.high)


def difference_interval(usual: tuple[int, int], runs: tuple[int, int]) -> tuple[float, float]:
    """A 95 % interval for the second share minus the first.

    Newcombe's hybrid score interval (Statistics in Medicine 17, 1998, method 10): each
    end is computed from the ends of the two Wilson intervals.

    Raises:
        ConfigError: SciPy is not installed.
    """
    (one, other) = (count / of for count, of in zip(usual, runs, strict=True))
    (low_1, high_1), (low_2, high_2) = (
        share_interval(count, of) for count, of in zip(usual, runs, strict=True)
    )
    down = ((other - low_2) ** 2 + (high_1 - one) ** 2) ** 0.5
    up = ((high_2 - other) ** 2 + (one - low_1) ** 2) ** 0.5
    return other - one - down, other - one + up


@cache
def detectable(share: float, runs: tuple[int, int], steps: int = 20) -> float | None:
    """The smallest fall of a share that the test detects with a probability of 0.8.

    Args:
        share: The share of usual answers on the first side.
        runs: How many runs each side has.
        steps: Falls are tried in steps of 1 / ``steps``.

    Returns:
        The fall; None when not even a fall to 0 would be detected so often.

    Raises:
        ConfigError: SciPy is not installed.
    """
    binom = _stats().binom
    share = round(share, 9)  # so that shares that are equal but for rounding are one
    shown = _significant(runs)
    first = binom.pmf(range(runs[0] + 1), runs[0], share)
    for step in range(1, steps + 1):
        fall = step / steps
        if fall > share + 1e-9:
            return None
        second = binom.pmf(range(runs[1] + 1), runs[1], max(share - fall, 0.0))
        if float(first @ shown @ second) >= POWER:
            return fall
    return None


@cache
def _significant(runs: tuple[int, int]) -> NDArray[np.float64]:
    """For each pair of counts, 1 where the test is significant, else 0."""
    return np.array(
        [
            [float(p_value((a, b), runs) < SIGNIFICANT) for b in range(runs[1] + 1)]
            for a in range(runs[0] + 1)
        ]
    )


def require_scipy() -> None:
    """Checks that SciPy is installed.

    Raises:
        ConfigError: it is not.
    """
    _stats()


def _stats() -> Any:
    try:
        return import_module("scipy.stats")  # half a second, for the few commands that test
    except ImportError as error:
        raise ConfigError(
            'tests and intervals need SciPy: pip install "memplugin[lab]".'
        ) from error


# ---------------------------------------------------------------- shares and means

RESAMPLES = 9_999
SEED = 0
"""The seed of the bootstrap, so that the same data give the same interval."""


@dataclass(frozen=True, slots=True)
class Estimate(Noun):
    """A share or a mean, with a 95 % interval.

    Attributes:
        value: None where there are no values.
        low: The lower end; None for a mean of fewer than two values.
        high: The upper end.
        n: How many values it is taken over.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


def share(count: int, of: int) -> Estimate:
    """A share, with Wilson's score interval.

    Raises:
        ConfigError: SciPy is not installed.
    """
    if of == 0:
        return Estimate(None, None, None, 0)
    low, high = share_interval(count, of)
    return Estimate(count / of, low, high, of)


def mean(values: Sequence[float]) -> Estimate:
    """A mean, with the bias-corrected and accelerated bootstrap interval (BCa).

    Raises:
        ConfigError: SciPy is not installed.
    """
    if not values:
        return Estimate(None, None, None, 0)
    found = fmean(values)
    if len(values) < 2:
        return Estimate(found, None, None, len(values))
    if min(values) == max(values):
        return Estimate(found, found, found, len(values))
    low, high = _bootstrapped(values)
    return Estimate(found, low, high, len(values))


def _bootstrapped(values: Sequence[float]) -> tuple[float, float]:
    for method in ("BCa", "percentile"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of data that BCa can't correct for: see below
            found = (
                _stats()
                .bootstrap(
                    (np.asarray(values, float),),
                    np.mean,
                    n_resamples=RESAMPLES,
                    confidence_level=CONFIDENCE,
                    method=method,
                    rng=np.random.default_rng(SEED),
                )
                .confidence_interval
            )
        low, high = float(found.low), float(found.high)
        if math.isfinite(low) and math.isfinite(high):
            break
    return low, high
