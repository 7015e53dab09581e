"""One number for each task: what sampling and buckets are made of, the same everywhere."""

from __future__ import annotations

import hashlib

from memplugin.telemetry.content import limited

BITS = 56
"""As many as OpenTelemetry's ``rv`` has."""

BUCKETS = 100


def randomness(task_id: str) -> int:
    """The first 56 bits of SHA-256 of a task's id, as its spans show it."""
    shown = limited(task_id)
    return int.from_bytes(hashlib.sha256(shown.encode("utf-8")).digest()[: BITS // 8], "big")


def bucket(number: int) -> int:
    """0 to 99, rising with the number.

    What is kept at a ratio has the highest numbers, so the highest buckets are the same
    tasks: those in 98 and 99 are the ones that ``TaskSampler(0.02)`` keeps.
    """
    return number * BUCKETS >> BITS
