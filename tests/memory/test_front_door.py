"""The front door is a list, and importing it is cheap and changes nothing."""

from __future__ import annotations

import inspect
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import memplugin
from memplugin import Memory, MemoryContext
from memplugin.errors import ConfigError, EmbedderMismatch, RecordNotFound
from memplugin.testing import HashingEmbedder, memory_for_tests
from memplugin.testing.memory import START

NAMES = [
    "Candidate",
    "Census",
    "Counterfactual",
    "Decision",
    "Evidence",
    "Explanation",
    "MemPluginError",
    "Memory",
    "MemoryConfig",
    "MemoryContext",
    "MemoryRecord",
    "Need",
    "Outcome",
    "Override",
    "Replay",
    "Resolved",
    "Retrieval",
    "Support",
    "Task",
    "TaskRecord",
    "Verdict",
    "WriteReceipt",
    "WriteRequest",
    "attribute",
    "decision_schema",
]


def test_the_front_door_is_this_list() -> None:
    assert memplugin.__all__ == NAMES
    assert all(hasattr(memplugin, name) for name in NAMES)


def test_every_hop_has_an_async_twin_with_the_same_arguments() -> None:
    methods = {
        name: method
        for name, method in inspect.getmembers(Memory, inspect.isfunction)
        if not name.startswith("_")
    }
    # close, task and open are no hops: a context manager and its ends.
    hops = {n for n in methods if f"a{n}" in methods}
    twins = {f"a{name}" for name in hops}
    assert set(methods) - hops - twins == {"close", "task"}
    for name in hops:
        assert inspect.iscoroutinefunction(methods[f"a{name}"])
        assert (
            inspect.signature(methods[name]).parameters
            == inspect.signature(methods[f"a{name}"]).parameters
        )


IMPORTED = """
import sys
import memplugin
from opentelemetry import trace, metrics
heavy = {"torch", "chromadb", "sentence_transformers", "onnxruntime", "alembic"} & set(sys.modules)
assert not heavy, heavy
assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
"""


def test_importing_loads_no_model_or_index_and_sets_no_provider() -> None:
    subprocess.run([sys.executable, "-c", IMPORTED], check=True)


def test_a_store_filled_with_another_model_is_refused_and_says_what_to_do(tmp_path: Path) -> None:
    Memory.open(tmp_path, embeddings=HashingEmbedder(64)).close()
    with pytest.raises(EmbedderMismatch, match="memplugin reindex"):
        Memory.open(tmp_path, embeddings=HashingEmbedder(32))


def test_a_store_can_be_opened_again_and_holds_what_was_written(tmp_path: Path) -> None:
    context = MemoryContext("ws", "s_1")
    with Memory.open(tmp_path / "deep" / "store", embeddings=HashingEmbedder()) as memory:
        memory.write("prefers tea", context=context)
    with Memory.open(tmp_path / "deep" / "store", embeddings=HashingEmbedder()) as memory:
        assert memory.recall("tea", context=context).shown == 1


def test_a_place_that_cannot_be_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ledger_url"):
        Memory.open()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        Memory.open(tmp_path / "file")


async def test_the_async_twins_do_the_same() -> None:
    context = MemoryContext("ws", "s_1")
    with memory_for_tests() as memory:
        receipt = await memory.awrite("prefers tea", context=context)
        found = await memory.arecall("tea", context=context)
        assert [c.record_id for c in found.injected] == [receipt.record_id]
        record = await memory.aget(receipt.record_id or "", context=context)
        assert record.content == "prefers tea"
        await memory.aforget(record.id, context=context, reason="asked to")
        assert (await memory.arecall("tea", context=context)).shown == 0


def test_another_workspaces_record_is_not_found() -> None:
    with memory_for_tests() as memory:
        receipt = memory.write("prefers tea", context=MemoryContext("acme", "s_1"))
        with pytest.raises(RecordNotFound, match="acme-corp"):
            memory.get(receipt.record_id or "", context=MemoryContext("acme-corp", "s_1"))


def test_prune_drops_what_is_old_and_keeps_records() -> None:
    context = MemoryContext("ws", "s_1", task_id="t_1")
    with memory_for_tests() as memory:
        memory.write("prefers tea", context=context)
        memory.recall("tea", context=context)
        assert memory.prune(before=START)["retrievals"] == 0
        assert memory.prune(before=START + timedelta(days=1))["retrievals"] == 1
        assert memory.recall("tea", context=context).shown == 1


def test_a_task_is_read_back_in_the_shape_of_its_record() -> None:
    with memory_for_tests() as memory, memory.task("t_1", workspace_id="ws") as task:
        memory.write("net of tax", context=task.context("s_1"), kind="preference")
        memory.recall("tax", context=task.context("s_2"))
        memory.report(context=task.context("s_2"), succeeded=False)
        record = task.record().to_json()
    assert record["schema_version"] == 1
    assert (record["task_id"], record["arm"], record["success"]) == ("t_1", "memory_on", False)
    (write,) = record["writes"]
    assert {"session", "record_id", "kind", "content", "gate", "extractor_confidence"} < set(write)
    assert (write["session"], write["gate"]) == ("s_1", "accepted")
    candidate = record["retrieval"]["candidates"][0]
    assert {"rank", "record_id", "score", "injected", "content"} < set(candidate)
    assert record["retrieval"]["filters"]["workspace_id"] == "ws"
    assert record["use"]["cited_record_ids"] == []
    assert record["use"]["counterfactual_flip"] is None


def test_the_same_attempt_reported_again_replaces_the_report() -> None:
    context = MemoryContext("ws", "s_1", task_id="t_1")
    with memory_for_tests() as memory:
        memory.report(context=context, succeeded=False, failure_mode="timeout")
        memory.report(context=context, succeeded=True)
        rows = memory.backend.ledger.history.task_rows("ws", "t_1")
    assert [outcome.succeeded for outcome in rows.outcomes] == [True]
