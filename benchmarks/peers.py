"""Other memories with the same embeddings, where they are installed, asked the same."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langgraph.store.memory import InMemoryStore

from benchmarks.embedders import AsLangChain
from memplugin.ports import Embedder

Search = Callable[[str, str], object]
"""Given a workspace and a question, finds records."""

OPTIONAL = ("langmem", "mem0")


def missing() -> list[str]:
    """Peers that are not installed."""
    return [name for name in OPTIONAL if importlib.util.find_spec(name) is None]


def peers(
    records: Mapping[str, Sequence[str]],
    embedder: Embedder,
    filling: Embedder,
    folder: Path,
    limit: int,
) -> dict[str, Search]:
    """Fills every peer that is installed.

    Args:
        records: Texts of each workspace.
        embedder: What queries are embedded with, as the peers call it.
        filling: The same model, with the records' vectors at hand.
        folder: Where peers may keep files.
        limit: How many results each returns.
    """
    store = _langgraph(records, embedder, filling)
    found: dict[str, Search] = {
        "LangGraph InMemoryStore": lambda workspace, question: store.search(
            ("memories", workspace), query=question, limit=limit
        )
    }
    if "langmem" not in missing():
        found["langmem search tool"] = _langmem(store, list(records), limit)
    if "mem0" not in missing():
        found["mem0, no LLM"] = _mem0(records, embedder, filling, folder, limit)
    return found


def _langgraph(
    records: Mapping[str, Sequence[str]], embedder: Embedder, filling: Embedder
) -> InMemoryStore:
    with_vectors = True

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return (filling if with_vectors else embedder).embed(list(texts)).tolist()

    store = InMemoryStore(index={"dims": embedder.dimension, "embed": embed, "fields": ["text"]})
    for workspace, texts in records.items():
        for number, text in enumerate(texts):
            store.put(("memories", workspace), str(number), {"text": text})
    with_vectors = False
    return store


def _langmem(store: InMemoryStore, workspaces: Sequence[str], limit: int) -> Search:
    from langmem import create_search_memory_tool  # noqa: PLC0415 -- only where it is installed

    tools = {
        workspace: create_search_memory_tool(("memories", workspace), store=store)
        for workspace in workspaces
    }
    return lambda workspace, question: tools[workspace].invoke({"query": question, "limit": limit})


def _mem0(
    records: Mapping[str, Sequence[str]],
    embedder: Embedder,
    filling: Embedder,
    folder: Path,
    limit: int,
) -> Search:
    os.environ.setdefault("MEM0_TELEMETRY", "False")
    os.environ.setdefault("OPENAI_API_KEY", "unused")  # it makes a client that is never called
    from mem0 import Memory as Mem0  # noqa: PLC0415 -- only where it is installed

    memory: Any = Mem0.from_config(
        {
            "vector_store": {"provider": "chroma", "config": {"path": str(folder / "mem0")}},
            "embedder": {"provider": "langchain", "config": {"model": AsLangChain(filling)}},
        }
    )
    for workspace, texts in records.items():
        for text in texts:
            memory.add(text, user_id=workspace, infer=False)
    memory.embedding_model.langchain_model = AsLangChain(embedder)
    return lambda workspace, question: memory.search(
        question, filters={"user_id": workspace}, top_k=limit, threshold=0.0
    )
