"""A store whose spans are captured."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from memplugin import Memory
from memplugin.testing import SpanCapture, memory_for_tests


@pytest.fixture
def capture() -> SpanCapture:
    return SpanCapture()


@pytest.fixture
def memory(capture: SpanCapture) -> Iterator[Memory]:
    with memory_for_tests(tracer_provider=capture.provider) as opened:
        yield opened
