"""``Memory``: the front door. Each method is one hop; the work is in the modules beside."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider
from pydantic import BaseModel

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.census import Census, look_up
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.memory import (
    believing,
    deciding,
    diagnosing,
    indexing,
    recalling,
    reporting,
    writing,
)
from memplugin.memory.beliefs import Beliefs
from memplugin.memory.credits import Credits
from memplugin.memory.experiments import Experiments
from memplugin.memory.opening import Location, Parts, open_store
from memplugin.memory.replays import Replays
from memplugin.memory.steps import arun, in_thread, run
from memplugin.memory.store import Store
from memplugin.memory.task import Task
from memplugin.ports import Clock, IdFactory
from memplugin.records import (
    Claim,
    Decision,
    Explanation,
    Json,
    MemoryRecord,
    Need,
    Outcome,
    Retrieval,
    Scope,
    Verdict,
    WriteReceipt,
)
from memplugin.retrieval.rank import Policy
from memplugin.storage.embedder import EmbedderSpec
from memplugin.telemetry import names
from memplugin.telemetry.baggage import task_baggage
from memplugin.telemetry.report import finished
from memplugin.write.direct import direct_proposal
from memplugin.write.gate import BUILT_IN_CHECKS, Check
from memplugin.write.turns import numbered_turns

AnswerT = TypeVar("AnswerT", bound=BaseModel)
Message = BaseMessage | Mapping[str, Any]

WRITE_CHUNK = 256
"""Items of ``write_many`` settled in one transaction and embedded in one batch."""


class Memory(Beliefs, Experiments, Replays, Credits):
    """An opened store and the hops on it.

    Safe in threads. Every method has an ``a…`` twin with the same arguments. A context
    manager; ``close`` gives back files and connections.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def open(
        cls,
        path: str | Path | None = None,
        *,
        ledger_url: str | None = None,
        index_url: str | None = None,
        embeddings: EmbedderSpec = None,
        onnx: bool = False,
        config: MemoryConfig | None = None,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        clock: Clock | None = None,
        ids: IdFactory | None = None,
        checks: Sequence[Check] = BUILT_IN_CHECKS,
        policies: Sequence[Policy] = (),
    ) -> Self:
        """Opens a store, makes it when it is not there, and drains its outbox.

        Args:
            path: A folder; ``ledger.db`` and ``chroma/`` are in it.
            ledger_url: SQLAlchemy URL of the ledger instead (``postgresql+psycopg://…``).
            index_url: URL of a Chroma server instead (``http://chroma:8000``).
            embeddings: A model's name or folder, or a langchain-core ``Embeddings``; the
                default is all-MiniLM-L6-v2.
            onnx: Run the model through ONNX Runtime (extra ``onnx``).
            config: None reads ``MemoryConfig.from_env()``.
            tracer_provider: None takes the host's global one.
            meter_provider: None takes the host's global one.
            clock: Where times come from.
            ids: Makes ids of retrievals and decisions.
            checks: The gate, in order. Append a function to add one.
            policies: Ranking policies beside the built-in ones.

        Raises:
            ConfigError: the place or a setting can't work.
            StoreVersionError: the ledger's tables need ``memplugin db upgrade``.
            EmbedderMismatch: the store was filled with another embedding model.
            StoreError: the ledger or the index could not be opened.
            EmbedderError: the embedding model could not be loaded.
        """
        parts = Parts(
            embeddings=embeddings,
            onnx=onnx,
            config=config,
            tracer_provider=tracer_provider,
            meter_provider=meter_provider,
            clock=clock,
            ids=ids,
            checks=checks,
            policies=policies,
        )
        memory = cls(open_store(Location.of(path, ledger_url, index_url), parts))
        indexing.try_drain(memory._store)
        return memory

    def close(self) -> None:
        """Gives back files and connections; what waits for the index waits in the ledger."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def store(self) -> Store:
        """The ports it works with, for tools that look beneath."""
        return self._store

    # ------------------------------------------------------------ write

    def write(
        self,
        content: str,
        *,
        context: MemoryContext,
        kind: str = "fact",
        scope: Scope | None = None,
        claim: Claim | None = None,
        confidence: float | None = None,
        pinned: bool = False,
        occurred_at: datetime | None = None,
        source: str | None = None,
        around: str | None = None,
        shared: bool = False,
    ) -> WriteReceipt:
        """Proposes one memory; the gate rules on it.

        Args:
            content: One self-contained sentence.
            context: Whose it is.
            kind: ``preference``, ``instruction``, ``fact``, ``belief``, ``tip``,
                ``episode`` or one of your own.
            scope: When it applies; None and ``{}`` anywhere.
            claim: What it says of one field, ``{"vendor_id": "primex"}``.
            confidence: 0 to 1.
            pinned: An extracted memory can't supersede it, and evidence does not move its
                confidence.
            occurred_at: When it became true, with a time zone; None for now.
            source: Where it comes from, in your words.
            around: Text that is indexed with it and never shown.
            shared: For everyone in the workspace, although the context names a user.

        Raises:
            ConfigError: an argument can't be stored; the message names it.
            StoreError: it was not stored.
        """
        item = {
            "content": content,
            "kind": kind,
            "scope": scope,
            "claim": claim,
            "confidence": confidence,
            "pinned": pinned,
            "occurred_at": occurred_at,
            "source": source,
            "around": around,
            "shared": shared,
        }
        return self.write_many([item], context=context)[0]

    def write_many(
        self, items: Iterable[str | Mapping[str, Any]], *, context: MemoryContext
    ) -> list[WriteReceipt]:
        """Proposes many: one transaction and one embedding batch for each 256 of them.

        Args:
            items: Texts, or mappings of ``write``'s arguments (``content`` required).
            context: Whose they are.

        Raises:
            ConfigError: an item can't be stored; nothing of any item is stored.
            StoreError: a chunk was not stored; earlier chunks were.
        """
        now = self._store.clock.now()
        proposals = [
            direct_proposal(**_arguments(item, place), context=context, now=now)
            for place, item in enumerate(items)
        ]
        receipts: list[WriteReceipt] = []
        for start in range(0, len(proposals), WRITE_CHUNK):
            chunk = proposals[start : start + WRITE_CHUNK]
            receipts += writing.store_proposals(self._store, context, chunk)
        return receipts

    def remember(
        self, messages: Sequence[Message], *, context: MemoryContext, model: BaseChatModel
    ) -> list[WriteReceipt]:
        """Extracts memories from a conversation and stores what the gate lets through.

        Only turns that this extractor has not read yet are read: the same history, whole
        or grown, writes once, whatever the model says the second time.

        Args:
            messages: langchain-core messages or ``{"role", "content"}`` mappings.
            context: Whose conversation it is.
            model: Any chat model with structured output.

        Returns:
            A receipt for each proposal of these turns; one ``failed`` receipt with its
            reason when the model's reply could not be used (the turns stay unread).

        Raises:
            ConfigError: something among the messages is no message.
            StoreError: nothing was stored.
        """
        return run(self._remember(messages, context, model))

    async def aremember(
        self, messages: Sequence[Message], *, context: MemoryContext, model: BaseChatModel
    ) -> list[WriteReceipt]:
        """``remember``, awaiting the model."""
        return await arun(self._remember(messages, context, model))

    def _remember(
        self, messages: Sequence[Message], context: MemoryContext, model: BaseChatModel
    ) -> writing.Steps[list[WriteReceipt]]:
        turns = numbered_turns(messages, context=context, now=self._store.clock.now())
        return writing.remember(self._store, context, turns, model)

    # ------------------------------------------------------------ retrieve

    def recall(
        self,
        query: str,
        *,
        context: MemoryContext,
        k: int = 3,
        kinds: Iterable[str] | None = None,
        policy: str | None = None,
    ) -> Retrieval:
        """Finds and ranks memories for a query, and stores the whole ranked list.

        Args:
            query: A text.
            context: Whose request it is; its scope decides what applies.
            k: How many are shown by rank, beside the standing ones.
            kinds: None for every kind.
            policy: None for the configured one.

        Raises:
            ConfigError: an argument can't work.
            StoreError: the ledger could not answer.
        """
        asked = recalling.request(self._store, query, context, k, kinds, policy)
        return recalling.recall(self._store, asked)

    def explain(self, record_id: str, retrieval: Retrieval) -> Explanation:
        """Where a record stood for a retrieval, also beyond the depth that was searched.

        Raises:
            RecordNotFound: no such record in the retrieval's workspace.
        """
        return diagnosing.explain_retrieval(self._store, retrieval, record_id)

    def get(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """A record of any status.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        return believing.found(self._store, context.workspace_id, record_id)

    def find(self, text: str, *, context: MemoryContext) -> Census:
        """The ten-second check: records, rejected proposals and turns that say a text."""
        return look_up(self._store.ledger, context.workspace_id, Need(text=text))

    # ------------------------------------------------------------ use

    def decide(
        self,
        question: str,
        *,
        context: MemoryContext,
        answer: type[AnswerT],
        model: BaseChatModel,
        retrieval: Retrieval | str | None = None,
    ) -> Decision[AnswerT]:
        """Asks a model for an answer, with the memories in front of it.

        Args:
            question: What is to be decided.
            context: Whose request it is.
            answer: Its Pydantic model, or what ``decision_schema`` made of one.
            model: Any chat model with structured output.
            retrieval: A retrieval or its id; None recalls with the question.

        Returns:
            Always a decision: a model that fails, refuses or is cut off is a ``status``.

        Raises:
            SchemaError: the answer can't become a decision schema.
            ConfigError: there is no such retrieval.
            StoreError: the decision could not be stored.
        """
        return run(deciding.decide(self._store, question, context, answer, model, retrieval))

    async def adecide(
        self,
        question: str,
        *,
        context: MemoryContext,
        answer: type[AnswerT],
        model: BaseChatModel,
        retrieval: Retrieval | str | None = None,
    ) -> Decision[AnswerT]:
        """``decide``, awaiting the model."""
        return await arun(deciding.decide(self._store, question, context, answer, model, retrieval))

    def report(
        self,
        *,
        context: MemoryContext,
        succeeded: bool,
        failure_mode: str | None = None,
        action: str | None = None,
        confidence: float = 1.0,
    ) -> Outcome:
        """Keeps how an attempt ended; reporting the same attempt again replaces it.

        Raises:
            ConfigError: confidence is not between 0 and 1.
            StoreError: it was not stored.
        """
        return reporting.report(
            self._store,
            context,
            succeeded=succeeded,
            failure_mode=failure_mode,
            action=action,
            confidence=confidence,
        )

    # ------------------------------------------------------------ diagnose

    @contextmanager
    def task(self, task_id: str, *, workspace_id: str, arm: str = "memory_on") -> Generator[Task]:
        """One task as a block: its id is baggage inside, and its span is shown at the end."""
        task = Task(self._store, workspace_id, task_id, arm)
        with task_baggage(task_id):
            yield task
        record = task.record()
        context = task.context(record.sessions[-1] if record.sessions else task_id)
        with self._store.tracing.hop(names.TASK, context) as hop:
            hop.set(finished(record.success, task.verdict, at=self._store.clock.now()))

    def task_record(self, task_id: str, *, workspace_id: str) -> TaskRecord:
        """What a task's hops left behind.

        Raises:
            ConfigError: the workspace has no such task.
        """
        return diagnosing.task_record(self._store, workspace_id, task_id)

    def diagnose(self, task_id: str, *, workspace_id: str, need: Need) -> Verdict:
        """Names the stage at which a task failed.

        Raises:
            ConfigError: the workspace has no such task.
        """
        return diagnosing.diagnose(self._store, workspace_id, task_id, need)

    # ------------------------------------------------------------ operate

    def forget(self, record_id: str, *, context: MemoryContext, reason: str) -> MemoryRecord:
        """Erases a record's content everywhere and leaves a tombstone.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        return reporting.forget(self._store, context, record_id, reason)

    def flush(self) -> int:
        """Drains the outbox; returns how many records were indexed or removed.

        Raises:
            StoreError: the index or the ledger could not be written.
            EmbedderError: the embedding model gave no vector.
        """
        return indexing.drain(self._store)

    def prune(self, *, before: datetime, workspace_id: str | None = None) -> dict[str, int]:
        """Drops turns, retrievals and decisions older than a time; records stay."""
        return self._store.ledger.prune(before, workspace_id)

    def statistics(self) -> Json:
        """Counts of the store: rows, outbox, workspaces, schema."""
        return self._store.ledger.statistics()

    # ------------------------------------------------------------ async twins, in threads

    awrite = in_thread(write)
    awrite_many = in_thread(write_many)
    arecall = in_thread(recall)
    aexplain = in_thread(explain)
    aget = in_thread(get)
    afind = in_thread(find)
    areport = in_thread(report)
    atask_record = in_thread(task_record)
    adiagnose = in_thread(diagnose)
    aforget = in_thread(forget)
    aflush = in_thread(flush)
    aprune = in_thread(prune)
    astatistics = in_thread(statistics)


def _arguments(item: str | Mapping[str, Any], place: int) -> dict[str, Any]:
    if isinstance(item, str):
        return {"content": item}
    if "content" not in item:
        raise ConfigError(f"item {place} has no content: give a text or a mapping with one.")
    unknown = set(item) - _WRITE_ARGUMENTS
    if unknown:
        raise ConfigError(f"item {place} has {', '.join(sorted(unknown))}: write takes no such.")
    return dict(item)


_WRITE_ARGUMENTS = {
    "content",
    "kind",
    "scope",
    "claim",
    "confidence",
    "pinned",
    "occurred_at",
    "source",
    "around",
    "shared",
}
