from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from graph_parts import CONTEXT

from memplugin import Memory, MemoryContext
from memplugin.testing import SpanCapture, memory_for_tests


@pytest.fixture
def context() -> MemoryContext:
    return CONTEXT


@pytest.fixture
def spans() -> SpanCapture:
    return SpanCapture()


@pytest.fixture
def memory(tmp_path: Path, spans: SpanCapture) -> Iterator[Memory]:
    """A ledger in a file, since the nodes of a graph run in threads."""
    with memory_for_tests(
        f"sqlite:///{tmp_path / 'ledger.db'}", tracer_provider=spans.provider
    ) as opened:
        yield opened
