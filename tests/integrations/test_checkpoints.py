"""What the nodes put into the state survives every checkpointer as it is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from graph_parts import ASKED, CONTEXT, PRIMEX, choosing_model, whole_graph
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from memplugin import Memory
from memplugin.storage.embedding.embedder import SentenceTransformerEmbedder
from memplugin.storage.vector.chroma import ChromaIndex
from memplugin.testing import memory_for_tests

THREAD: RunnableConfig = {"configurable": {"thread_id": "th_1"}}
STRICT = JsonPlusSerializer(allowed_msgpack_modules=None)
"""As under ``LANGGRAPH_STRICT_MSGPACK=true``: objects of ours would not come back."""


RESULTS = ("memory", "decision", "remembered", "outcome")


def assert_plain(value: Any) -> None:
    """Only what JSON has, by exact type: no tuple, no enum, no NumPy number."""
    if type(value) is dict:
        for key, held in value.items():
            assert type(key) is str
            assert_plain(held)
    elif type(value) is list:
        for held in value:
            assert_plain(held)
    else:
        assert type(value) in (str, int, float, bool, type(None))
        assert not isinstance(value, float) or math.isfinite(value)


def test_the_state_is_plain_json_with_the_real_index_and_model(
    tmp_path: Path, minilm: SentenceTransformerEmbedder
):
    index = ChromaIndex.open(tmp_path / "chroma", dimension=384, store_id="st")
    with memory_for_tests(
        f"sqlite:///{tmp_path / 'ledger.db'}", index=index, embedder=minilm
    ) as memory:
        memory.write(PRIMEX, context=CONTEXT, claim={"vendor_id": "primex"})
        end = whole_graph(memory).invoke(ASKED, context=CONTEXT)
    assert end["memory"]["shown"] == 1
    for key in RESULTS:
        assert_plain(end[key])
        assert json.loads(json.dumps(end[key], allow_nan=False)) == end[key]


@pytest.fixture(params=["in memory", "sqlite"])
def checkpointer(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[BaseCheckpointSaver[Any]]:
    with ExitStack() as stack:
        if request.param == "sqlite":
            path = str(tmp_path / "checkpoints.db")
            saver: Any = stack.enter_context(SqliteSaver.from_conn_string(path))
            saver.serde = STRICT
        else:
            saver = InMemorySaver(serde=STRICT)
        yield saver


def test_a_strict_checkpointer_gives_back_what_was_put_in(
    memory: Memory, checkpointer: BaseCheckpointSaver[Any], caplog: pytest.LogCaptureFixture
):
    memory.write(PRIMEX, context=CONTEXT, claim={"vendor_id": "primex"})
    graph = whole_graph(memory, checkpointer)
    end = graph.invoke(ASKED, THREAD, context=CONTEXT)
    kept = graph.get_state(THREAD).values
    assert {key: kept[key] for key in RESULTS} == {key: end[key] for key in RESULTS}
    assert [r.message for r in caplog.records if "msgpack" in r.message] == []


async def test_an_awaited_checkpointer_gives_back_what_was_put_in(memory: Memory, tmp_path: Path):
    memory.write(PRIMEX, context=CONTEXT)
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "checkpoints.db")) as saver:
        saver.serde = STRICT
        graph = whole_graph(memory, saver)
        end = await graph.ainvoke(ASKED, THREAD, context=CONTEXT)
        kept = (await graph.aget_state(THREAD)).values
    assert {key: kept[key] for key in RESULTS} == {key: end[key] for key in RESULTS}


def test_half_a_surrogate_in_what_was_said_or_answered_does_not_break_a_checkpoint(
    memory: Memory, checkpointer: BaseCheckpointSaver[Any]
):
    memory.write("Primex \ud83d does pest control.", context=CONTEXT)
    model = choosing_model("primex \ud83d")
    graph = whole_graph(memory, checkpointer, model)
    end = graph.invoke(ASKED, THREAD, context=CONTEXT)
    assert end["memory"]["injected"][0]["content"] == "Primex \ufffd does pest control."
    assert end["decision"]["answer"] == {"vendor_id": "primex \ufffd"}
    assert graph.get_state(THREAD).values["decision"] == end["decision"]


def test_another_process_goes_on_where_the_first_one_stopped(tmp_path: Path):
    ledger, checkpoints = f"sqlite:///{tmp_path / 'ledger.db'}", str(tmp_path / "checkpoints.db")
    with memory_for_tests(ledger) as memory, SqliteSaver.from_conn_string(checkpoints) as saver:
        record_id = memory.write(PRIMEX, context=CONTEXT, claim={"vendor_id": "primex"}).record_id
        first = whole_graph(memory, saver, interrupt_before=["decide"])
        paused = first.invoke(ASKED, THREAD, context=CONTEXT)
        assert "decision" not in paused
    with memory_for_tests(ledger) as memory, SqliteSaver.from_conn_string(checkpoints) as saver:
        end = whole_graph(memory, saver).invoke(None, THREAD, context=CONTEXT)
    assert end["decision"]["retrieval_id"] == paused["memory"]["retrieval_id"]
    assert end["decision"]["chosen_support"]["id"] == record_id
