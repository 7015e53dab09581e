"""``Memory``: an opened store, and every operation on it."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from langchain_core.language_models import BaseChatModel
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider
from pydantic import BaseModel

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.diagnosis.audit import Audit, Calibration
from memplugin.diagnosis.counterfactual import Same, equal_json
from memplugin.diagnosis.evidence_search import FoundEvidence, find_evidence
from memplugin.diagnosis.replay import Changes, Replay
from memplugin.diagnosis.task_record import TaskRecord
from memplugin.errors import ConfigError
from memplugin.memory import (
    belief,
    counterfactual,
    curate,
    decide,
    diagnose,
    emit,
    index,
    learn,
    outcome,
    recall,
    replay,
    write,
)
from memplugin.memory.backend import Backend
from memplugin.memory.counterfactual import OnRun, Trial
from memplugin.memory.diagnose import Task
from memplugin.memory.emit import Emission, Send
from memplugin.memory.health import Health, examine
from memplugin.memory.index import Progress, Reindexed
from memplugin.memory.learn import DEFAULT_CONCURRENCY, Wanted
from memplugin.memory.model_call import arun, in_thread, run
from memplugin.memory.open import Location, Parts, open_backend, recorded_embedder
from memplugin.ports import Clock, IdFactory
from memplugin.records import (
    Claim,
    Counterfactual,
    Decision,
    Eviction,
    Evidence,
    Explanation,
    Json,
    LearnReport,
    MemoryRecord,
    Need,
    Observation,
    Outcome,
    Resolved,
    Retrieval,
    Scope,
    Verdict,
    WriteReceipt,
    WriteRequest,
)
from memplugin.retrieval.rank import Policy
from memplugin.storage.embedding.embedder import EmbedderSpec
from memplugin.telemetry.sampling import task_baggage
from memplugin.write.gate import BUILT_IN_CHECKS, Check
from memplugin.write.proposal import direct_proposal, write_request
from memplugin.write.turns import Message, numbered_turns

AnswerT = TypeVar("AnswerT", bound=BaseModel)

WRITE_CHUNK = 256
"""Items of ``write_many`` stored in one transaction and embedded in one batch."""


class Memory:
    """An opened store, and the operations on it.

    Safe in threads. Every method has an ``a…`` twin with the same arguments. A context
    manager; ``close`` gives back files and connections.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

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

        Returns:
            The open store.

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
        memory = cls(open_backend(Location.of(path, ledger_url, index_url), parts))
        index.try_drain(memory._backend)
        return memory

    @classmethod
    def open_existing(
        cls,
        path: str | Path | None = None,
        *,
        ledger_url: str | None = None,
        index_url: str | None = None,
        embeddings: EmbedderSpec = None,
        config: MemoryConfig | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> Self:
        """Opens a store that is there; its index and embedding model when they are first used.

        Nothing is drained. What only reads the ledger needs no model and no index; one that
        can't be opened is an error of the call that needs it.

        Args:
            path: As of ``open``, like ``ledger_url`` and ``index_url``.
            ledger_url: SQLAlchemy URL of the ledger instead.
            index_url: URL of a Chroma server instead.
            embeddings: None for the model that the store names.
            config: None reads ``MemoryConfig.from_env()``.
            tracer_provider: None takes the host's global one.

        Returns:
            The open store.

        Raises:
            ConfigError: the place or a setting can't work.
            StoreVersionError: the ledger's tables need ``memplugin db upgrade``.
            StoreError: there is no store, or it can't be opened.
        """
        parts = Parts(embeddings=embeddings, config=config, tracer_provider=tracer_provider)
        location = Location.of(path, ledger_url, index_url)
        return cls(open_backend(location, parts, must_exist=True))

    @classmethod
    def health(
        cls,
        path: str | Path | None = None,
        *,
        ledger_url: str | None = None,
        index_url: str | None = None,
    ) -> Health:
        """Looks a store over, also one that can't be opened: that is a problem, not an error.

        Args:
            path: As of ``open``, like ``ledger_url`` and ``index_url``.
            ledger_url: SQLAlchemy URL of the ledger instead.
            index_url: URL of a Chroma server instead.

        Returns:
            What it holds, and what is wrong with it.

        Raises:
            ConfigError: the place can't work.
            StoreError: there is no store.
        """
        return examine(Location.of(path, ledger_url, index_url))

    @classmethod
    def reindex(
        cls,
        path: str | Path | None = None,
        *,
        ledger_url: str | None = None,
        index_url: str | None = None,
        embeddings: EmbedderSpec = None,
        progress: Progress | None = None,
    ) -> Reindexed:
        """Builds the vector index of a store anew, with another embedding model too.

        Nothing else may have the store open. It may be interrupted at any point: what is
        left waits in the ledger, and the next opening takes it.

        Args:
            path: As of ``open``, like ``ledger_url`` and ``index_url``.
            ledger_url: SQLAlchemy URL of the ledger instead.
            index_url: URL of a Chroma server instead.
            embeddings: The model that the store has from then on; None keeps its own.
            progress: Called with how many records are done, and of how many.

        Returns:
            How many records were indexed, and by which model.

        Raises:
            ConfigError: the place can't work.
            StoreError: there is no store, or the ledger or the index could not be written.
            EmbedderError: the embedding model could not be loaded.
        """
        location = Location.of(path, ledger_url, index_url)
        recorded = recorded_embedder(location.ledger_url)
        if embeddings is None and recorded:
            embeddings = recorded.name
        done = index.reindex(location, Parts(embeddings=embeddings), progress)
        return Reindexed(done, str(recorded_embedder(location.ledger_url)))

    def close(self) -> None:
        """Gives back files and connections; what waits for the index waits in the ledger."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def backend(self) -> Backend:
        """The ports it works with, for tools that look beneath."""
        return self._backend

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

        Returns:
            What became of it.

        Raises:
            ConfigError: an argument can't be stored; the message names it.
            StoreError: it was not stored.
        """
        request = WriteRequest(
            content=content,
            kind=kind,
            scope=scope,
            claim=claim,
            confidence=confidence,
            pinned=pinned,
            occurred_at=occurred_at,
            source=source,
            around=around,
            shared=shared,
        )
        return self.write_many([request], context=context)[0]

    def write_many(
        self, items: Iterable[str | Mapping[str, Any] | WriteRequest], *, context: MemoryContext
    ) -> list[WriteReceipt]:
        """Proposes many: one transaction and one embedding batch for each 256 of them.

        Args:
            items: Texts, requests, or mappings of a request's fields (``content`` required).
            context: Whose they are.

        Returns:
            A receipt for each item, in their order.

        Raises:
            ConfigError: an item can't be stored; nothing of any item is stored.
            StoreError: a chunk was not stored; earlier chunks were.
        """
        now = self._backend.clock.now()
        proposals = [
            direct_proposal(write_request(item, place), context=context, now=now)
            for place, item in enumerate(items)
        ]
        receipts: list[WriteReceipt] = []
        for start in range(0, len(proposals), WRITE_CHUNK):
            chunk = proposals[start : start + WRITE_CHUNK]
            receipts += write.store_proposals(self._backend, context, chunk)
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
    ) -> write.Steps[list[WriteReceipt]]:
        turns = numbered_turns(messages, context=context, now=self._backend.clock.now())
        return write.remember(self._backend, context, turns, model)

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

        Returns:
            The ranked list, and the text of what is shown.

        Raises:
            ConfigError: an argument can't work.
            StoreError: the ledger could not answer.
        """
        request = recall.checked_request(self._backend, query, context, k, kinds, policy)
        return recall.recall(self._backend, request)

    def explain(self, record_id: str, retrieval: Retrieval) -> Explanation:
        """Where a record stood for a retrieval, also beyond the depth that was searched.

        Raises:
            RecordNotFound: no such record in the retrieval's workspace.
        """
        return diagnose.explain_retrieval(self._backend, retrieval, record_id)

    def retrieval(self, retrieval_id: str, *, context: MemoryContext) -> Retrieval:
        """A stored retrieval.

        Raises:
            ConfigError: there is none of this id in the context's workspace.
        """
        return recall.stored_retrieval(self._backend, context.workspace_id, retrieval_id)

    def get(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """A record of any status.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        return self._backend.get_record(context.workspace_id, record_id)

    def find(self, text: str, *, context: MemoryContext) -> FoundEvidence:
        """The ten-second check: records, rejected proposals and turns that say a text."""
        return find_evidence(self._backend.ledger, context.workspace_id, Need(text=text))

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
        return run(decide.decide(self._backend, question, context, answer, model, retrieval))

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
        return await arun(decide.decide(self._backend, question, context, answer, model, retrieval))

    def decision(self, decision_id: str, *, context: MemoryContext) -> Decision[Any]:
        """A stored decision.

        Raises:
            ConfigError: there is none of this id in the context's workspace.
        """
        return replay.stored_decision(self._backend, context.workspace_id, decision_id)

    def workspaces_of_decision(self, decision_id: str) -> list[str]:
        """The workspaces that have a decision of this id."""
        return self._backend.ledger.history.workspaces_of_decision(decision_id)

    # ------------------------------------------------------------ outcome

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

        Args:
            context: Whose attempt it is; its task, session and attempt name it.
            succeeded: Whether it passed.
            failure_mode: How it failed, in a word; the grades may have a value for it.
            action: What the agent did, in its own text: what ``learn`` looks at.
            confidence: Of the report, 0 to 1.

        Returns:
            The outcome, with its value.

        Raises:
            ConfigError: confidence is not between 0 and 1.
            StoreError: it was not stored.
        """
        return outcome.report(
            self._backend,
            context,
            succeeded=succeeded,
            failure_mode=failure_mode,
            action=action,
            confidence=confidence,
        )

    # ------------------------------------------------------------ beliefs

    def observe(
        self,
        record_id: str,
        *,
        context: MemoryContext,
        supports: bool = True,
        weight: float = 1.0,
        salience: float = 0.5,
        note: str | None = None,
        claim: Claim | None = None,
    ) -> MemoryRecord:
        """Says how a record turned out: evidence, from which its confidence follows.

        An observation against a record from a request with a narrower scope makes or
        strengthens a record with that scope, and does not lower this one before
        ``specialisations_to_lower`` distinct narrower scopes have contradicted it. One with
        another claim in the record's own scope takes its place once the record has fallen
        below ``min_confidence``.

        The same observation in the same session, task and attempt (same record, scope,
        supports, claim and note) is counted once, since a node may run again; to count it
        twice, say what differs in the note.

        Args:
            record_id: What was observed.
            context: Of the request in which it was; its scope says where.
            supports: Whether it turned out as the record says.
            weight: How much this says about the record, 0 to 100.
            salience: How much it stood out, 0 to 1.
            note: What was seen, in your words; the content of a narrower record it makes.
            claim: What was observed instead, for ``supports=False``.

        Returns:
            The observed record, as it stands now.

        Raises:
            RecordNotFound: no such record in this workspace.
            ConfigError: an argument can't be used, or the record is about another request.
            StoreError: the record is not active, or nothing was stored.
        """
        observation = Observation(supports, weight, salience, note, claim)
        return belief.observe(self._backend, context, record_id, observation)

    def observations(self, record_id: str, *, context: MemoryContext) -> list[Evidence]:
        """Everything observed of a record, by salience, weight and recency.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        return belief.observations(self._backend, context, record_id)

    def pin(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """Freezes a record's confidence: evidence is kept, and nothing moves.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: the record is not active.
        """
        return belief.set_pinned(self._backend, context, record_id, pinned=True)

    def unpin(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """Lets a record's confidence follow its evidence again, also what came meanwhile.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: the record is not active.
        """
        return belief.set_pinned(self._backend, context, record_id, pinned=False)

    def resolve(self, field: str, *, context: MemoryContext) -> Resolved | None:
        """The value that memory has for a field, without a model.

        Of the active records that apply and claim the field, the one with the most
        specific scope counts, then pinned, then confidence, then the newest.

        Args:
            field: Of a claim, such as ``vendor_id``.
            context: Whose request it is; its scope decides what applies.

        Returns:
            None when nothing that applies claims the field.

        Raises:
            ConfigError: the field is no name.
            StoreError: the ledger could not answer.
        """
        return belief.resolve(self._backend, context, field)

    # ------------------------------------------------------------ credit

    def learn(
        self,
        *,
        model: BaseChatModel | None = None,
        workspace_id: str | None = None,
        limit: int | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: Progress | None = None,
    ) -> LearnReport:
        """Scores, for every memory that was shown, whether the attempt's action followed it.

        That is a heuristic, not a cause: ``calibrate`` compares it with counterfactual runs.
        Rows that are scored are not scored again; those that failed keep their error and are
        tried again by the next call. A run that was stopped is gone on with.

        Args:
            model: The judge, any chat model with structured output, with the temperature you
                gave it; None leaves it to the cosine of memory and action.
            workspace_id: None for all.
            limit: Most rows of this call; None for all.
            concurrency: Most calls of the judge at a time.
            progress: Called with how many rows are done, and of how many.

        Returns:
            What was done. ``stopped`` says why when the judge could not be reached: if it
            never answered, nothing was written.

        Raises:
            ConfigError: an argument can't work.
            EmbedderUnavailable: without a judge, the embedding model could not be loaded.
            StoreError: the ledger could not be read or written.
        """
        return learn.learn(self._backend, Wanted(model, workspace_id, limit, concurrency, progress))

    async def alearn(
        self,
        *,
        model: BaseChatModel | None = None,
        workspace_id: str | None = None,
        limit: int | None = None,
        concurrency: int = DEFAULT_CONCURRENCY,
        progress: Progress | None = None,
    ) -> LearnReport:
        """``learn``, awaiting the judge."""
        wanted = Wanted(model, workspace_id, limit, concurrency, progress)
        return await learn.alearn(self._backend, wanted)

    def audit(self, *, workspace_id: str) -> Audit:
        """Names what wants a person's eye: misleading records first, then the rest.

        Raises:
            StoreError: the ledger could not be read.
        """
        return curate.audit(self._backend, workspace_id)

    def evict(self, *, workspace_id: str, dry_run: bool = False) -> list[Eviction]:
        """Retires records whose use did harm, or whose successes did without them.

        Never one that is pinned or of a standing kind, and none before there is enough
        known of it. Retired records are kept and are never retrieved; ``restore`` takes it
        back. Pin a record that the next call should leave alone.

        Args:
            workspace_id: The workspace.
            dry_run: Only says which ones.

        Raises:
            StoreError: the ledger could not be read or written.
        """
        return curate.evict(self._backend, workspace_id, dry_run=dry_run)

    def restore(self, record_id: str, *, context: MemoryContext) -> MemoryRecord:
        """Takes an eviction back: the record is retrieved again.

        Raises:
            RecordNotFound: no such record in this workspace.
            StoreError: it is not evicted.
        """
        return curate.restore(self._backend, record_id, context)

    def calibrate(
        self,
        sample: int,
        *,
        workspace_id: str,
        model: BaseChatModel,
        runs: int | None = None,
        deterministic: bool | None = None,
        same: Same = equal_json,
        seed: int = 0,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
        on_run: OnRun | None = None,
    ) -> Calibration:
        """Compares judge and cosine with counterfactual runs: does "followed" tell a cause?

        For a random sample of scored records, the decision they were shown to is run again
        with and without them. What comes of it is kept, and a record that has been tried is
        not tried again. Needs the extra ``lab``.

        Args:
            sample: How many records.
            workspace_id: The workspace.
            model: The model that decides (not the judge).
            runs: As of ``counterfactual``, like ``deterministic`` and ``same``.
            deterministic: Whether the model gives the same answer to the same messages.
            same: Which answers are the same.
            seed: Of the sample.
            max_reasoning_chars: As of ``counterfactual``, like ``cite_by_enum``.
            cite_by_enum: Whether the schema offers only the shown ids as citations.
            on_run: Called after each run of a decision, as of ``counterfactual``.

        Returns:
            How far each sign agrees with the counterfactuals.

        Raises:
            ConfigError: nothing is scored, an argument can't work, or SciPy is missing.
            StoreError: the ledger could not be read or written.
        """
        trial = Trial(
            runs=runs,
            same=same,
            deterministic=deterministic,
            max_reasoning_chars=max_reasoning_chars,
            cite_by_enum=cite_by_enum,
            on_run=on_run,
        )
        steps = curate.calibrate(self._backend, workspace_id, model, sample, trial, seed=seed)
        return run(steps)

    async def acalibrate(
        self,
        sample: int,
        *,
        workspace_id: str,
        model: BaseChatModel,
        runs: int | None = None,
        deterministic: bool | None = None,
        same: Same = equal_json,
        seed: int = 0,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
        on_run: OnRun | None = None,
    ) -> Calibration:
        """``calibrate``, awaiting the model."""
        trial = Trial(
            runs=runs,
            same=same,
            deterministic=deterministic,
            max_reasoning_chars=max_reasoning_chars,
            cite_by_enum=cite_by_enum,
            on_run=on_run,
        )
        steps = curate.calibrate(self._backend, workspace_id, model, sample, trial, seed=seed)
        return await arun(steps)

    # ------------------------------------------------------------ diagnose

    @contextmanager
    def task(self, task_id: str, *, workspace_id: str, arm: str = "memory_on") -> Generator[Task]:
        """One task as a block: its id is baggage inside, and its span is shown at the end.

        Args:
            task_id: The work a user would name.
            workspace_id: The workspace.
            arm: The arm of an experiment.

        Returns:
            The task, as a context manager.
        """
        task = Task(self._backend, workspace_id, task_id, arm)
        with task_baggage(task_id):
            yield task
        diagnose.publish(self._backend, replace(task.record(), arm=arm), task.verdict)

    def tasks(self, *, workspace_id: str) -> list[str]:
        """Ids of a workspace's tasks, the latest first."""
        return self._backend.ledger.history.tasks(workspace_id)

    def workspaces_of_task(self, task_id: str) -> list[str]:
        """The workspaces that have a task of this id."""
        return self._backend.ledger.history.workspaces_of_task(task_id)

    def task_record(self, task_id: str, *, workspace_id: str) -> TaskRecord:
        """What a task's hops left behind.

        Raises:
            ConfigError: the workspace has no such task.
        """
        return diagnose.task_record(self._backend, workspace_id, task_id)

    def diagnose(self, task_id: str, *, workspace_id: str, need: Need) -> Verdict:
        """Names the stage at which a task failed.

        Args:
            task_id: The task.
            workspace_id: Its workspace.
            need: What should have been used.

        Returns:
            The verdict; it is kept too.

        Raises:
            ConfigError: the workspace has no such task.
        """
        return self.diagnose_record(self.task_record(task_id, workspace_id=workspace_id), need)

    def diagnose_record(self, record: TaskRecord, need: Need, *, publish: bool = False) -> Verdict:
        """Names the stage at which a task failed, given its record, and keeps the verdict.

        Args:
            record: The task's.
            need: What should have been used.
            publish: Whether to show outcome and verdict on a span of their own, under the
                task's id; ``task`` does so by itself when its block ends.

        Returns:
            The verdict.

        Raises:
            StoreError: the ledger could not be read or written.
        """
        verdict = diagnose.judge(self._backend, record, need)
        if publish:
            diagnose.publish(self._backend, record, verdict)
        return verdict

    def emit(
        self, task_id: str, *, workspace_id: str, send: Send, service: str, again: bool = False
    ) -> Emission:
        """Sends the spans of a task that was not sampled, made again from the ledger, once.

        Args:
            task_id: The task.
            workspace_id: Its workspace.
            send: Sends spans; whether all of them arrived.
            service: ``service.name`` of the sender.
            again: Also when it was emitted before, and also the spans that were sampled.

        Returns:
            What was sent, or why nothing was.

        Raises:
            ConfigError: the workspace has no such task, or the spans did not arrive.
        """
        return emit.emit(self._backend, workspace_id, task_id, send, service=service, again=again)

    # ------------------------------------------------------------ experiments

    def counterfactual(
        self,
        decision_id: str | None = None,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        record_ids: Iterable[str] | None = None,
        runs: int | None = None,
        same: Same = equal_json,
        deterministic: bool | None = None,
        answer: type[BaseModel] | None = None,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
        on_run: OnRun | None = None,
    ) -> tuple[Counterfactual, ...]:
        """Runs a stored decision again and again, with and without one record each.

        Everything else of the messages stays byte for byte the same. Runs with all records
        are made once and compared with those without each of them. What comes of it is kept
        and stands in the task's record from then on. Needs the extra ``lab``.

        Args:
            decision_id: The decision; None for the last one of the context's task.
            context: Its workspace counts, and its task where no decision is named.
            model: The same model or another one.
            record_ids: The records to leave out, each by itself; None for all that were
                shown.
            runs: On each side; None for the configured number (``counterfactual_runs``).
            same: Which answers are the same: of two answers as JSON objects, without their
                reasoning. The default compares them by equality.
            deterministic: Whether the model gives the same answer to the same messages.
                Then two runs with the record and one without are enough where nothing
                changes, and three and three where the answer does; should any repeat differ,
                ``runs`` are made after all. None takes a temperature of 0 for it.
            answer: The class that was decided for, to have its validators and defaults.
            max_reasoning_chars: ``maxLength`` of the reasoning fields, on both sides.
            cite_by_enum: Whether the schema offers only the shown ids as citations. Both
                are for a small model that does not know when to stop.
            on_run: Called after each run with how many are done, and how many there are at
                most.

        Returns:
            One for each record, in the order given.

        Raises:
            ConfigError: there is no such decision, a record was not shown to it, too few
                runs, or SciPy is missing.
            SchemaError: ``answer`` can't become a decision schema.
            StoreError: the ledger could not be read or written.
        """
        trial = Trial(
            record_ids=_listed(record_ids),
            runs=runs,
            same=same,
            deterministic=deterministic,
            answer=answer,
            max_reasoning_chars=max_reasoning_chars,
            cite_by_enum=cite_by_enum,
            on_run=on_run,
        )
        return run(counterfactual.counterfactual(self._backend, decision_id, context, model, trial))

    async def acounterfactual(
        self,
        decision_id: str | None = None,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        record_ids: Iterable[str] | None = None,
        runs: int | None = None,
        same: Same = equal_json,
        deterministic: bool | None = None,
        answer: type[BaseModel] | None = None,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
        on_run: OnRun | None = None,
    ) -> tuple[Counterfactual, ...]:
        """``counterfactual``, awaiting the model."""
        trial = Trial(
            record_ids=_listed(record_ids),
            runs=runs,
            same=same,
            deterministic=deterministic,
            answer=answer,
            max_reasoning_chars=max_reasoning_chars,
            cite_by_enum=cite_by_enum,
            on_run=on_run,
        )
        return await arun(
            counterfactual.counterfactual(self._backend, decision_id, context, model, trial)
        )

    def replay(
        self,
        decision_id: str,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        without: Iterable[str] = (),
        k: int | None = None,
        policy: str | None = None,
        answer: type[BaseModel] | None = None,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
    ) -> Replay:
        """Runs a stored decision again, and shows both runs beside each other.

        With nothing changed the model is sent, byte for byte, the stored messages and
        schema. Nothing is stored and no span is opened: the task's record stays as it is.

        Args:
            decision_id: The decision.
            context: Its workspace counts.
            model: The same model or another one.
            without: Records that are not shown; the rest stays byte for byte the same.
            k: The candidates of then are cut again with another k.
            policy: The query of then is recalled again under another policy, among the
                records that were there then and still are.
            answer: The class that was decided for, to have its validators and defaults;
                without it replies are checked against the stored schema.
            max_reasoning_chars: ``maxLength`` of the reasoning fields.
            cite_by_enum: Whether the schema offers only the shown ids as citations. Both
                are for a small model that does not know when to stop.

        Returns:
            Always a replay: a model that fails, refuses or is cut off is a ``status``.

        Raises:
            ConfigError: there is no such decision, or what is to be changed is not in it.
            SchemaError: ``answer`` can't become a decision schema.
            StoreError: the ledger could not answer.
        """
        changes = Changes(_ids(without), k, policy, max_reasoning_chars, cite_by_enum)
        return run(replay.replay(self._backend, decision_id, context, model, changes, answer))

    async def areplay(
        self,
        decision_id: str,
        *,
        context: MemoryContext,
        model: BaseChatModel,
        without: Iterable[str] = (),
        k: int | None = None,
        policy: str | None = None,
        answer: type[BaseModel] | None = None,
        max_reasoning_chars: int | None = None,
        cite_by_enum: bool = False,
    ) -> Replay:
        """``replay``, awaiting the model."""
        changes = Changes(_ids(without), k, policy, max_reasoning_chars, cite_by_enum)
        return await arun(
            replay.replay(self._backend, decision_id, context, model, changes, answer)
        )

    # ------------------------------------------------------------ operate

    def forget(self, record_id: str, *, context: MemoryContext, reason: str) -> MemoryRecord:
        """Erases a record's content everywhere and leaves a tombstone.

        Args:
            record_id: The record.
            context: Its workspace counts.
            reason: Why; it is kept.

        Returns:
            The tombstone.

        Raises:
            RecordNotFound: no such record in this workspace.
        """
        return outcome.forget(self._backend, context, record_id, reason)

    def flush(self) -> int:
        """Drains the outbox; returns how many records were indexed or removed.

        Raises:
            StoreError: the index or the ledger could not be written.
            EmbedderError: the embedding model gave no vector.
        """
        return index.drain(self._backend)

    def prune(self, *, before: datetime, workspace_id: str | None = None) -> dict[str, int]:
        """Drops turns, retrievals and decisions older than a time; records stay."""
        return self._backend.ledger.maintenance.prune(before, workspace_id)

    def statistics(self) -> Json:
        """Counts of the store: rows, outbox, workspaces, schema."""
        return self._backend.ledger.maintenance.statistics()

    # ------------------------------------------------------------ async twins, in threads

    awrite = in_thread(write)
    awrite_many = in_thread(write_many)
    arecall = in_thread(recall)
    aretrieval = in_thread(retrieval)
    aexplain = in_thread(explain)
    aget = in_thread(get)
    afind = in_thread(find)
    adecision = in_thread(decision)
    aworkspaces_of_decision = in_thread(workspaces_of_decision)
    areport = in_thread(report)
    aobserve = in_thread(observe)
    aobservations = in_thread(observations)
    apin = in_thread(pin)
    aunpin = in_thread(unpin)
    aresolve = in_thread(resolve)
    aaudit = in_thread(audit)
    aevict = in_thread(evict)
    arestore = in_thread(restore)
    atasks = in_thread(tasks)
    aworkspaces_of_task = in_thread(workspaces_of_task)
    atask_record = in_thread(task_record)
    adiagnose = in_thread(diagnose)
    adiagnose_record = in_thread(diagnose_record)
    aemit = in_thread(emit)
    aforget = in_thread(forget)
    aflush = in_thread(flush)
    aprune = in_thread(prune)
    astatistics = in_thread(statistics)


def _listed(record_ids: Iterable[str] | None) -> list[str] | str | None:
    if record_ids is None or isinstance(record_ids, str):
        return record_ids  # a text is refused where the others are looked at
    return list(record_ids)


def _ids(without: Iterable[str]) -> tuple[str, ...]:
    if isinstance(without, str):
        raise ConfigError(f"without is the text {without!r}: give a list, such as [{without!r}].")
    return tuple(dict.fromkeys(without))
