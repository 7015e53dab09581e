"""Fakes for the tests of code that uses memplugin: no model, no network, the same each time.

A first test::

    from memplugin import MemoryContext
    from memplugin.testing import memory_for_tests

    memory = memory_for_tests()
    context = MemoryContext(workspace_id="w", session_id="s")
    memory.write("prefers tea", context=context)
    assert memory.recall("tea", context=context).shown == 1
"""

from memplugin.testing.fakes import FixedClock, HashingEmbedder, InMemoryIndex, counting_ids
from memplugin.testing.memory import memory_for_tests
from memplugin.testing.model import ScriptedChatModel
from memplugin.testing.spans import SpanCapture

__all__ = [
    "FixedClock",
    "HashingEmbedder",
    "InMemoryIndex",
    "ScriptedChatModel",
    "SpanCapture",
    "counting_ids",
    "memory_for_tests",
]
