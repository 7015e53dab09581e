"""Stores for the tasks of a run, and what is written into them before the request."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from langchain_core.language_models import BaseChatModel
from numpy.typing import NDArray
from opentelemetry.trace import TracerProvider

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.errors import ConfigError
from memplugin.evaluation.suite import DEFAULT_DATE, DirectRecord, Request, Session
from memplugin.memory.client import Memory
from memplugin.memory.open import Parts, assemble
from memplugin.ports import Clock, Embedder, IdFactory, Vectors
from memplugin.records import Retrieval, WriteReceipt
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.testing.fakes import FixedClock, InMemoryIndex, counting_ids
from memplugin.text import without_memory_blocks
from memplugin.write.turns import numbered_turns


class CachingEmbedder:
    """``Embedder`` that computes each text once: a run embeds the same texts again and again."""

    def __init__(
        self, inner: Embedder, vectors: Mapping[str, NDArray[np.float32]] | None = None
    ) -> None:
        self._inner = inner
        self._vectors = dict(vectors or {})
        self.name = inner.name
        self.dimension = inner.dimension
        self.fingerprint = inner.fingerprint

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row for each text; see ``Embedder``."""
        if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
            self._vectors.update(zip(new, self._inner.embed(new), strict=True))
        if not texts:
            return self._inner.embed(texts)
        return np.stack([self._vectors[text] for text in texts])

    def truncates(self, texts: Sequence[str]) -> list[bool]:
        """Whether the model cuts each text; see ``Embedder``."""
        return self._inner.truncates(texts)


# ---------------------------------------------------------------- stores


@dataclass(frozen=True, slots=True)
class StoreRequest:
    """Which store is wanted: that of a task or corpus in one arm."""

    arm: str
    name: str
    config: MemoryConfig
    clock: Clock
    ids: IdFactory


class Stores(Protocol):
    """Opens stores that hold nothing yet of the task or corpus."""

    def opened(self, request: StoreRequest) -> AbstractContextManager[Memory]:
        """A store for as long as a block lasts."""
        ...


class InMemory:
    """One store for each arm: the real ledger in memory, with an exact index.

    All of it is gone when the block ends. A context manager.
    """

    def __init__(self, embedder: Embedder, tracer_provider: TracerProvider | None = None) -> None:
        self._embedder = embedder
        self._tracer_provider = tracer_provider
        self._arms: dict[str, Memory] = {}

    @contextmanager
    def opened(self, request: StoreRequest) -> Generator[Memory]:
        """The store of the arm, with the settings, clock and ids of this task."""
        if request.arm not in self._arms:
            parts = Parts(config=request.config, tracer_provider=self._tracer_provider)
            ledger = SqlLedger.open("sqlite://")
            store = assemble(ledger, InMemoryIndex(), self._embedder, parts)
            self._arms[request.arm] = Memory(store)
        yield with_parts(self._arms[request.arm], request.config, request.clock, request.ids)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for memory in self._arms.values():
            memory.close()


class OnDisk:
    """A store in a folder of its own for each task, ``FOLDER/arm/task``, that stays.

    ``memplugin --store`` works on it. What an interrupted run left there is replaced.
    """

    def __init__(
        self, folder: Path, embedder: Embedder, tracer_provider: TracerProvider | None = None
    ) -> None:
        self._folder = folder
        self._embedder = embedder
        self._tracer_provider = tracer_provider

    @contextmanager
    def opened(self, request: StoreRequest) -> Generator[Memory]:
        """The store of one task, begun anew."""
        place = self._folder / request.arm / request.name
        shutil.rmtree(place, ignore_errors=True)
        with Memory.open(
            place,
            embeddings=self._embedder,
            config=request.config,
            clock=request.clock,
            ids=request.ids,
            tracer_provider=self._tracer_provider,
        ) as memory:
            yield memory


def task_ids(task_id: str) -> IdFactory:
    """Makes ids that depend on the task alone, so that a resumed run of it has the same."""
    count = counting_ids()
    return lambda prefix: count(f"{prefix}_{task_id}")


def with_parts(memory: Memory, config: MemoryConfig, clock: Clock, ids: IdFactory) -> Memory:
    """The same store with other settings, clock and ids.

    Args:
        memory: The open store.
        config: Its settings from now on.
        clock: Where its times come from.
        ids: Where its ids come from.

    Returns:
        A second ``Memory`` over the same backend; closing either closes both.
    """
    return Memory(replace(memory.backend, config=config, clock=clock, new_id=ids))


# ---------------------------------------------------------------- records and sessions


def write_records(
    memory: Memory, records: Iterable[DirectRecord], context: MemoryContext
) -> dict[str, str]:
    """Writes records without an extractor.

    Args:
        memory: The store.
        records: What is written, in this order for each user.
        context: Workspace, session and task of the records.

    Returns:
        The ids of the records that have a key, by their keys.

    Raises:
        ConfigError: a record with a key was not stored, so that no task can need it.
    """
    listed = list(records)
    ids: dict[str, str] = {}
    for user in dict.fromkeys(record.user for record in listed):
        of_user = [record for record in listed if record.user == user]
        written = [(record, content) for record in of_user for content in record.contents]
        receipts = memory.write_many(
            [_item(record, content) for record, content in written],
            context=replace(context, user_id=user),
        )
        for (record, _), receipt in zip(written, receipts, strict=True):
            if record.key:
                ids[record.key] = _stored(record.key, receipt, context)
    return ids


def _item(record: DirectRecord, content: str) -> dict[str, Any]:
    return {
        "content": content,
        "kind": record.kind,
        "scope": record.scope,
        "claim": record.claim,
        "confidence": record.confidence,
        "pinned": record.pinned,
        "occurred_at": record.date,
        "source": record.source,
        "around": record.around,
    }


def _stored(key: str, receipt: WriteReceipt, context: MemoryContext) -> str:
    if receipt.record_id is None:
        raise ConfigError(
            f"record {key!r} of task {context.task!r} was {receipt.ruling} ({receipt.reason}): "
            "change the record."
        )
    return receipt.record_id


def remember_session(
    memory: Memory,
    session: Session,
    context: MemoryContext,
    extractor: BaseChatModel,
    clock: FixedClock,
) -> list[WriteReceipt]:
    """Has the extractor read one session, on the date of that session.

    Args:
        memory: The store.
        session: The messages and their date.
        context: Workspace, session, task and user of the messages.
        extractor: The model that proposes records.
        clock: The clock of the store; it is set to the date of the session.

    Returns:
        What became of each proposal.

    Raises:
        StoreError: something could not be stored.
    """
    if session.date:
        clock.set(session.date)
    return memory.remember(_messages(session), context=context, model=extractor)


def turn_index(session: Session, message: int) -> int:
    """The number of a message among the turns.

    System messages, and messages that hold only recalled memories, are no turns.
    """
    return sum(
        m.role != "system" and bool(without_memory_blocks(m.content).strip())
        for m in session.messages[:message]
    )


def turn_id(session: Session, message: int, context: MemoryContext) -> str:
    """The id that the turn of a message has in the ledger.

    Args:
        session: The session of the message.
        message: Its number in the session, from 0.
        context: The context with which the session was remembered.

    Returns:
        The id of the turn.
    """
    turns = numbered_turns(_messages(session), context=context, now=DEFAULT_DATE)
    return turns[turn_index(session, message)].id


def _messages(session: Session) -> list[dict[str, str]]:
    return [{"role": m.role, "content": m.content} for m in session.messages]


def recall_request(memory: Memory, request: Request, context: MemoryContext) -> Retrieval:
    """Recalls what a request asks for.

    Args:
        memory: The store.
        request: Its query, k, kinds and policy are used.
        context: Workspace, session, task, user and scope of the request.

    Returns:
        The retrieval, as ``Memory.recall`` returns it.

    Raises:
        StoreError: the ledger could not be read or written.
    """
    return memory.recall(
        request.query or request.text,
        context=context,
        k=request.k,
        kinds=request.kinds,
        policy=request.policy,
    )
