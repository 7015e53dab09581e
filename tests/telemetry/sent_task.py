"""One task over OTLP to a receiver, and what the ledger says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import RandomIdGenerator, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Tracer
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext, Need
from memplugin.diagnosis.attribution import attribute
from memplugin.diagnosis.evidence_from_spans import evidence_from_spans
from memplugin.diagnosis.from_spans import record_from_spans
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.records import Verdict
from memplugin.telemetry.readers.model import Read
from memplugin.testing import ScriptedChatModel, memory_for_tests
from tests.telemetry.reading_back import comparable
from tests.telemetry.test_otlp import TRANSPORTS

W, TASK = "ws_8841", "t_0417"


class Pack(BaseModel):
    basis: str


class ShortIds(RandomIdGenerator):
    """Trace ids with zeros in front."""

    def generate_trace_id(self) -> int:
        return super().generate_trace_id() >> 68


@dataclass
class Sent:
    """What was received, and what the ledger says."""

    mode: str
    requests: list[Any]
    record: TaskRecord
    verdict: Verdict
    needed: str

    def agrees(self, read: Read) -> None:
        """Checks that what was read back is what the ledger has."""
        found = record_from_spans(read.spans, W, TASK)
        assert found is not None
        assert comparable(found, self.mode) == comparable(self.record, self.mode)
        need = Need(record_ids=(self.needed,))
        verdict = attribute(found, need, evidence_from_spans(read.spans, found, need))
        assert (verdict.stage, verdict.cause, verdict.record_id, verdict.rank) == (
            self.verdict.stage,
            self.verdict.cause,
            self.verdict.record_id,
            self.verdict.rank,
        )


def send(transport: str, mode: str) -> Sent:
    """Three sessions of two tasks, each in a trace of its own: rank 7 with k=3."""
    receiver, exporter = TRANSPORTS[transport]
    with receiver() as received:
        provider = TracerProvider(
            resource=Resource({"service.name": "agent"}), id_generator=ShortIds()
        )
        provider.add_span_processor(BatchSpanProcessor(exporter(received.endpoint)))
        record, verdict, needed = _work(provider, mode)
        provider.shutdown()
        return Sent(mode, received.requests, record, verdict, needed)


def _work(provider: TracerProvider, mode: Any) -> tuple[TaskRecord, Verdict, str]:
    tracer = provider.get_tracer("host")
    config = MemoryConfig(floor=-1.0, policy="similarity", content_on_spans=mode)
    with memory_for_tests(tracer_provider=provider, config=config) as memory:
        earlier_task(memory, tracer)
        with tracer.start_as_current_span("first session"):
            context = MemoryContext(W, "s_1", task_id=TASK)
            needed = memory.write("the pack is net of tax", context=context).record_id or ""
        later_session(memory, tracer)
        record = memory.task_record(TASK, workspace_id=W)
        need = Need(record_ids=(needed,))
        return record, memory.diagnose(TASK, workspace_id=W, need=need), needed


def earlier_task(memory: Memory, tracer: Tracer) -> None:
    """Six records that are nearer to the later question than the one it needs."""
    with tracer.start_as_current_span("an earlier task"):
        memory.write_many(
            [f"board pack with revenue by region number {n}" for n in range(6)],
            context=MemoryContext(W, "s_0", task_id="t_0401"),
        )


def later_session(memory: Memory, tracer: Tracer) -> None:
    """Recalls, decides without the record that is needed, and fails."""
    with tracer.start_as_current_span("later session"):
        context = MemoryContext(W, "s_2", task_id=TASK, scope={"client": "acme"})
        question = "board pack with revenue by region"
        retrieval = memory.recall(question, context=context)
        reply = {
            "memory_reasoning": "read",
            "considered": "net",
            "cited_record_ids": [retrieval.injected[0].record_id],
            "basis": "gross",
        }
        model = ScriptedChatModel([reply])
        memory.decide(question, context=context, answer=Pack, model=model, retrieval=retrieval)
        memory.report(context=context, succeeded=False, failure_mode="wrong_basis")


def trace_of(sent: Sent, session: str) -> bytes:
    return next(
        span.trace_id
        for request in sent.requests
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
        if any(
            p.key == "memplugin.session.id" and p.value.string_value == session
            for p in span.attributes
        )
    )
