"""A store that is there is opened lightly, and asked by the methods of ``Memory``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from memplugin import Memory, MemoryContext, Need, WriteRequest
from memplugin.errors import ConfigError, RecordNotFound, StoreError
from memplugin.telemetry import names
from memplugin.testing import HashingEmbedder, ScriptedChatModel, SpanCapture, memory_for_tests

CONTEXT = MemoryContext("ws", "s_1", task_id="t_1")


class Choice(BaseModel):
    """Whom to send."""

    vendor_id: Literal["primex", "dever"]


def reply() -> dict[str, Any]:
    return {
        "memory_reasoning": "Primex does pests.",
        "considered": "nobody",
        "cited_record_ids": [],
        "vendor_id": "primex",
    }


def filled(path: Path) -> None:
    with Memory.open(path, embeddings=HashingEmbedder()) as memory:
        memory.write("Primex does the wasps.", context=CONTEXT)


def test_an_existing_store_is_read_without_its_embedding_model(tmp_path: Path) -> None:
    filled(tmp_path)  # with a model that nothing finds by its name
    with Memory.open_existing(tmp_path) as memory:
        (write,) = memory.task_record("t_1", workspace_id="ws").writes
        assert memory.tasks(workspace_id="ws") == ["t_1"]
        assert memory.workspaces_of_task("t_1") == ["ws"]
        assert memory.get(write.record_id or "", context=CONTEXT).content == write.content
        assert memory.find("wasps", context=CONTEXT).writes


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        Memory.open_existing(tmp_path)
    assert not (tmp_path / "ledger.db").exists()


def test_health_is_that_of_the_store_and_reindex_fills_its_index_with_another_model(
    tmp_path: Path,
) -> None:
    filled(tmp_path)
    assert Memory.health(tmp_path).problems == ()
    seen: list[tuple[int, int]] = []
    done = Memory.reindex(
        tmp_path,
        embeddings=HashingEmbedder(32),
        progress=lambda done, of: seen.append((done, of)),
    )
    assert (done.indexed, seen) == (1, [(0, 1), (1, 1)])
    assert done.embedder == Memory.health(tmp_path).embedder
    with Memory.open(tmp_path, embeddings=HashingEmbedder(32)) as memory:
        assert memory.recall("wasps", context=CONTEXT).pending_index == 0


def test_stored_decisions_and_retrievals_are_read_by_their_ids() -> None:
    with memory_for_tests() as memory:
        model = ScriptedChatModel([reply()])
        made = memory.decide("Wasps: whom?", context=CONTEXT, answer=Choice, model=model)
        assert memory.decision(made.id, context=CONTEXT).question == "Wasps: whom?"
        assert memory.workspaces_of_decision(made.id) == ["ws"]
        fed = memory.retrieval(made.retrieval_id or "", context=CONTEXT)
        assert fed.query == "Wasps: whom?"
        elsewhere = MemoryContext("other", "s_1")
        with pytest.raises(ConfigError, match="no decision"):
            memory.decision(made.id, context=elsewhere)
        with pytest.raises(ConfigError, match="no retrieval"):
            memory.retrieval(fed.id, context=elsewhere)


def test_a_verdict_is_shown_on_a_span_where_that_is_asked_for() -> None:
    spans = SpanCapture()
    with memory_for_tests(tracer_provider=spans.provider) as memory:
        memory.report(context=CONTEXT, succeeded=False)
        record = memory.task_record("t_1", workspace_id="ws")
        before = len(spans.spans)
        quiet = memory.diagnose_record(record, Need(text="Primex"))
        assert len(spans.spans) == before
        assert memory.diagnose_record(record, Need(text="Primex"), publish=True) == quiet
        (shown,) = spans.spans[before:]
        assert shown.attributes is not None
        assert shown.attributes[names.TASK_ID] == "t_1"


def test_a_request_is_written_like_the_arguments_it_holds() -> None:
    with memory_for_tests() as memory:
        request = WriteRequest("Primex does the wasps.", kind="belief", confidence=0.7)
        (receipt,) = memory.write_many([request], context=CONTEXT)
        again = memory.write(
            "Primex does the wasps.", context=CONTEXT, kind="belief", confidence=0.7
        )
        assert again == receipt
        record = memory.get(receipt.record_id or "", context=CONTEXT)
        assert (record.kind, record.confidence) == ("belief", 0.7)


def test_a_record_that_is_not_there_is_named_in_the_same_words_everywhere() -> None:
    with memory_for_tests() as memory:
        for ask in (
            lambda: memory.get("m_none", context=CONTEXT),
            lambda: memory.pin("m_none", context=CONTEXT),
            lambda: memory.forget("m_none", context=CONTEXT, reason="asked to"),
        ):
            with pytest.raises(RecordNotFound, match=r"there is no record 'm_none'.*check both"):
                ask()


def test_sessions_begun_are_remembered_in_a_bounded_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memplugin.memory.backend.MOST_BEGUN", 3)
    with memory_for_tests() as memory:
        for number in range(10):
            memory.recall("tea", context=MemoryContext("ws", f"s_{number}"))
        assert len(memory.backend._begun) <= 3
