from __future__ import annotations

import pytest

from memplugin.storage.embedder import SentenceTransformerEmbedder


@pytest.fixture(scope="session")
def minilm() -> SentenceTransformerEmbedder:
    """The default model, loaded once for all tests."""
    return SentenceTransformerEmbedder()
