from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from memplugin import Memory, MemoryConfig
from memplugin.testing import memory_for_tests


@pytest.fixture
def memory() -> Iterator[Memory]:
    with memory_for_tests() as opened:
        yield opened


@pytest.fixture
def opened() -> Iterator[Callable[..., Memory]]:
    """Opens a store with some settings."""
    with ExitStack() as stack:

        def open_with(tracer_provider: Any = None, **settings: Any) -> Memory:
            config = MemoryConfig(**{"floor": -1.0, **settings})
            return stack.enter_context(
                memory_for_tests(config=config, tracer_provider=tracer_provider)
            )

        yield open_with
