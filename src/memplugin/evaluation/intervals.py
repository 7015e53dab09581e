"""Numbers with the interval they are known to: no figure of the lab stands without one."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from statistics import fmean
from typing import Any

import numpy as np

from memplugin.diagnosis.chance import CONFIDENCE, share_interval
from memplugin.errors import ConfigError
from memplugin.records import Noun

RESAMPLES = 9_999
SEED = 0
"""Of the bootstrap: the same data give the same interval."""


@dataclass(frozen=True, slots=True)
class Estimate(Noun):
    """A share or a mean, with a 95 % interval.

    Attributes:
        value: None of nothing.
        low: None where it can't be said: of fewer than two values.
        n: How many it is taken over.
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


def _stats() -> Any:
    try:
        return import_module("scipy.stats")  # half a second, and only reports need it
    except ImportError as error:
        raise ConfigError('intervals need SciPy: pip install "memplugin[lab]".') from error
