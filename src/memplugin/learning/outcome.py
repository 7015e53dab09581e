"""What an attempt was worth. Deterministic: no model."""

from __future__ import annotations

from memplugin.learn_config import Grades


def grade(*, succeeded: bool, attempt: int, failure_mode: str | None, grades: Grades) -> float:
    """The value of an attempt's outcome.

    A first-try win is worth more than a late one, and breaking the environment less than
    nothing: without a negative value a memory that did harm looks like one that was beside
    the point.

    Args:
        succeeded: Whether it passed.
        attempt: Which attempt at the task it was, from 1.
        failure_mode: How it failed; the table may have a value for it.
        grades: The table.
    """
    if not succeeded:
        return grades.failure_modes.get(failure_mode or "", grades.failed)
    reached = [value for first, value in grades.passed if attempt >= first]
    return reached[-1]
