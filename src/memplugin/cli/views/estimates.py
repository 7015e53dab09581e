"""How figures of the lab look: never without the interval they are known to."""

from __future__ import annotations

from rich.text import Text

from memplugin.cli.views.parts import text
from memplugin.evaluation.intervals import Estimate


def share(estimate: Estimate) -> Text:
    """A share as percent: ``83 % [70, 91] of 47``."""
    if estimate.value is None:
        return text("-", "dim")
    known = ""
    if estimate.low is not None and estimate.high is not None:
        known = f" [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"
    return text(f"{100 * estimate.value:.0f} %{known} of {estimate.n}")


def number(estimate: Estimate | None, digits: int = 2) -> Text:
    """A mean: ``1.40 [1.12, 1.71]``."""
    if estimate is None or estimate.value is None:
        return text("-", "dim")
    known = ""
    if estimate.low is not None and estimate.high is not None:
        known = f" [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"
    return text(f"{estimate.value:.{digits}f}{known}")


def percent(value: float | None) -> Text:
    """A ratio that has no interval."""
    return text("-", "dim") if value is None else text(f"{100 * value:.0f} %")
