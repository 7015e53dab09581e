from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from graph_parts import CONTEXT, PRIMEX
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from pydantic import ValidationError

from memplugin import Memory, MemoryContext
from memplugin.errors import ConfigError
from memplugin.integrations.langchain import MemoryRetriever
from memplugin.testing import SpanCapture


def test_a_document_is_the_record_with_its_id_and_score(memory: Memory):
    heard = datetime(2026, 2, 1, 9, tzinfo=UTC)
    record_id = memory.write(
        PRIMEX,
        context=CONTEXT,
        scope={"trade": "pest"},
        claim={"vendor_id": "primex"},
        confidence=0.8,
        occurred_at=heard,
    ).record_id
    (document,) = MemoryRetriever(memory=memory, context=CONTEXT).invoke("pest control")
    assert (document.id, document.page_content) == (record_id, PRIMEX)
    metadata = dict(document.metadata)
    assert metadata.pop("score") > 0
    assert metadata == {
        "id": record_id,
        "rank": 1,
        "kind": "fact",
        "scope": {"trade": "pest"},
        "claim": {"vendor_id": "primex"},
        "confidence": 0.8,
        "pinned": False,
        "occurred_at": "2026-02-01T09:00:00Z",
        "sources": ["dense", "lexical"],
        "retrieval_id": "r_1",
    }


def test_documents_stand_in_rank_order_and_are_plain_json(memory: Memory):
    memory.write_many([f"Pest control number {n}." for n in range(5)], context=CONTEXT)
    documents = MemoryRetriever(memory=memory, context=CONTEXT, k=4).invoke("pest control 3")
    assert [document.metadata["rank"] for document in documents] == [1, 2, 3, 4]
    scores = [document.metadata["score"] for document in documents]
    assert scores == sorted(scores, reverse=True)
    assert json.loads(documents[0].model_dump_json())["id"] == documents[0].id


async def test_awaiting_gives_the_same_documents(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    retriever = MemoryRetriever(memory=memory, context=CONTEXT)
    (one,), (other,) = retriever.invoke("pest"), await retriever.ainvoke("pest")
    assert (one.id, one.page_content) == (other.id, other.page_content)


def test_every_call_is_a_stored_retrieval_of_the_contexts_task(memory: Memory, spans: SpanCapture):
    MemoryRetriever(memory=memory, context=CONTEXT, k=2).invoke("pest control")
    (retrieval,) = memory.backend.ledger.history.task_rows("ws_8841", "t_0417").retrievals
    assert (retrieval.query, retrieval.k) == ("pest control", 2)
    assert spans.attributes("search_memory")[0]["memplugin.task.id"] == "t_0417"


def test_kinds_and_policy_are_handed_on(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    memory.write("Pest control is a trade.", context=CONTEXT, kind="tip")
    retriever = MemoryRetriever(memory=memory, context=CONTEXT, kinds=("tip",), policy="similarity")
    assert [d.page_content for d in retriever.invoke("pest")] == ["Pest control is a trade."]
    (retrieval,) = memory.backend.ledger.history.task_rows("ws_8841", "t_0417").retrievals
    assert retrieval.policy.startswith("similarity@")


def test_it_stands_in_a_chain(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    retriever = MemoryRetriever(memory=memory, context=CONTEXT)

    def texts(documents: list[Any]) -> str:
        return "\n".join(document.page_content for document in documents)

    chain = {
        "memories": retriever | texts,
        "question": RunnablePassthrough(),
    } | ChatPromptTemplate.from_template("{memories}\n{question}")
    assert chain.invoke("pest?").to_string() == f"Human: {PRIMEX}\npest?"


def test_the_hop_is_a_child_of_the_hosts_span(memory: Memory, spans: SpanCapture):
    with spans.provider.get_tracer("host").start_as_current_span("request") as host:
        MemoryRetriever(memory=memory, context=CONTEXT).invoke("pest")
    (recall,) = spans.named("search_memory")
    assert recall.parent is not None
    assert recall.parent.span_id == host.get_span_context().span_id


def test_another_workspaces_records_are_never_documents(memory: Memory):
    memory.write(PRIMEX, context=CONTEXT)
    other = MemoryContext("ws_88", "s_1")
    assert MemoryRetriever(memory=memory, context=other).invoke("pest") == []


def test_a_context_is_required(memory: Memory):
    with pytest.raises(ValidationError, match="context"):
        MemoryRetriever(memory=memory)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ValidationError, match="MemoryContext"):
        MemoryRetriever(memory=memory, context={"workspace_id": "w"})  # pyright: ignore


def test_an_argument_that_cannot_work_is_the_stores_own_error(memory: Memory):
    with pytest.raises(ConfigError, match="k is 0"):
        MemoryRetriever(memory=memory, context=CONTEXT, k=0).invoke("pest")
