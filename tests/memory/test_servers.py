"""The same hops on PostgreSQL and a Chroma server."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import SpanKind

from memplugin import Memory, MemoryContext
from memplugin.testing import HashingEmbedder, ScriptedChatModel, SpanCapture
from tests.memory.test_deciding import VendorChoice, reply


def opened(ledger_url: str, index_url: str, **arguments: Any) -> Memory:
    return Memory.open(
        ledger_url=ledger_url, index_url=index_url, embeddings=HashingEmbedder(), **arguments
    )


def test_two_processes_worth_of_memories_share_one_store(
    new_postgres_url: str, chroma_server: str
) -> None:
    writing = MemoryContext("ws_servers", "s_1", task_id="t_1")
    reading = MemoryContext("ws_servers", "s_2", task_id="t_1")
    with (
        opened(new_postgres_url, chroma_server) as writer,
        opened(new_postgres_url, chroma_server) as reader,
    ):
        assert reader.recall("wasps", context=reading).shown == 0
        written = writer.write("Primex handles wasps", context=writing)
        assert written.indexed
        found = reader.recall("Primex wasps", context=reading)
        assert [c.record_id for c in found.injected] == [written.record_id]
        assert set(found.injected[0].sources) == {"dense", "lexical"}
        decision = reader.decide(
            "Wasps?",
            context=reading,
            answer=VendorChoice,
            model=ScriptedChatModel([reply()]),
            retrieval=found,
        )
        assert decision.status == "decided"
        writer.forget(written.record_id or "", context=writing, reason="asked to")
        assert reader.recall("Primex wasps", context=reading).candidates == ()
        record = reader.task_record("t_1", workspace_id="ws_servers")
    assert record.sessions == ("s_2", "s_1")  # the reader asked first
    assert [(w.gate, w.status) for w in record.writes] == [("accepted", "forgotten")]


def test_spans_of_a_store_behind_servers_are_of_a_client_and_name_the_server(
    new_postgres_url: str, chroma_server: str
) -> None:
    capture = SpanCapture()
    with opened(new_postgres_url, chroma_server, tracer_provider=capture.provider) as memory:
        memory.recall("wasps", context=MemoryContext("ws", "s_1"))
    (span,) = capture.named("search_memory")
    assert span.kind is SpanKind.CLIENT
    assert (span.attributes or {})["server.address"] == "127.0.0.1"
    assert (span.attributes or {})["server.port"] == int(chroma_server.rsplit(":", 1)[1])
