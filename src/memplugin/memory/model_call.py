"""Model calls: a hop that needs one, for sync and async callers, and many calls at a time.

The hop is a generator: it does its own work, yields a ``ModelCall`` where it needs a
model, and is sent the reply. Only the two drivers here know whether the model is called
or awaited. The hop's span is current while the model runs, and never across a ``yield``.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import ContextThreadPoolExecutor
from pydantic import BaseModel

from memplugin.chat.errors import aask, ask
from memplugin.chat.reply import StructuredReply, structured
from memplugin.records import Json
from memplugin.telemetry.spans import Hop

ResultT = TypeVar("ResultT")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One structured call that a hop asks for.

    Attributes:
        schema: A model, or its JSON schema.
        options: Further arguments of ``with_structured_output``.
        hop: Whose span is current during the call; None leaves the host's.
    """

    model: BaseChatModel
    schema: type[BaseModel] | Json
    messages: Sequence[BaseMessage]
    options: Mapping[str, Any]
    hop: Hop | None = None

    def current(self) -> AbstractContextManager[None]:
        """Makes the hop's span the current one."""
        return self.hop.current() if self.hop else contextlib.nullcontext()

    def prepared(self) -> Runnable[Any, Any]:
        """The model, bound to the schema."""
        return structured(self.model, self.schema, self.options)


Steps = Generator[ModelCall, StructuredReply, ResultT]


def run(steps: Steps[ResultT]) -> ResultT:
    """Drives a hop, calling the model."""
    try:
        call = next(steps)
        while True:
            prepared = call.prepared()  # a schema or option that can't work is the caller's error
            with call.current():
                reply = ask(prepared, call.messages)
            call = steps.send(reply)
    except StopIteration as stop:
        return cast(ResultT, stop.value)
    finally:
        steps.close()


async def arun(steps: Steps[ResultT]) -> ResultT:
    """Drives a hop, awaiting the model; the hop's own work runs in threads."""
    try:
        call, result = await asyncio.to_thread(_advance, steps, None)
        while call is not None:
            prepared = call.prepared()
            with call.current():
                reply = await aask(prepared, call.messages)
            call, result = await asyncio.to_thread(_advance, steps, reply)
        return cast(ResultT, result)
    finally:
        # After a cancellation a thread may still be inside the hop: it ends on its own.
        with contextlib.suppress(ValueError):
            steps.close()


def in_thread(method: Callable[P, ResultT]) -> Callable[P, Coroutine[Any, Any, ResultT]]:
    """The async twin of a method that needs no model: it runs in a thread."""

    @functools.wraps(method)
    async def twin(*args: P.args, **kwargs: P.kwargs) -> ResultT:
        return await asyncio.to_thread(method, *args, **kwargs)

    twin.__name__ = f"a{method.__name__}"
    twin.__doc__ = f"``{method.__name__}`` in a thread, with the caller's context."
    return twin


def _advance(
    steps: Steps[ResultT], reply: StructuredReply | None
) -> tuple[ModelCall | None, ResultT | None]:
    # StopIteration can't be raised into a future, so the end is a value here.
    try:
        return (next(steps) if reply is None else steps.send(reply)), None
    except StopIteration as stop:
        return None, cast(ResultT, stop.value)


T = TypeVar("T")

Messages = Sequence[BaseMessage]
Take = Callable[[T, StructuredReply], bool]
"""Takes an answer; False wants no more."""

AHEAD = 128
"""Most questions drawn and not answered: the model need not wait while more are prepared."""


def ask_all(
    model: Runnable[Any, Any],
    questions: Iterator[tuple[T, Messages]],
    take: Take[T],
    *,
    concurrency: int,
) -> None:
    """Asks in threads, with the caller's context in each.

    Args:
        model: Bound to a schema.
        questions: What each is about, and what to send.
        take: Called in this thread.
        concurrency: Most calls at a time.
    """
    waiting: dict[Future[StructuredReply], T] = {}

    def take_done(timeout: float | None) -> bool:
        done, _ = wait(waiting, timeout, return_when=FIRST_COMPLETED)
        more = True
        for future in done:  # every one: what was answered is not thrown away
            more = take(waiting.pop(future), future.result()) and more
        return more

    pool = ContextThreadPoolExecutor(concurrency)
    try:
        for about, messages in questions:
            waiting[pool.submit(ask, model, messages)] = about
            if not take_done(None if len(waiting) >= AHEAD else 0):
                return
        while waiting:
            if not take_done(None):
                return
    finally:
        pool.shutdown(cancel_futures=True)


async def aask_all(
    model: Runnable[Any, Any],
    questions: Iterator[tuple[T, Messages]],
    take: Take[T],
    *,
    concurrency: int,
) -> None:
    """``ask_all``, awaiting the model; questions and answers are dealt with in threads.

    Args:
        model: Bound to a schema.
        questions: What each is about, and what to send.
        take: Called in a thread.
        concurrency: Most calls at a time.
    """
    waiting: dict[asyncio.Task[StructuredReply], T] = {}
    gate = asyncio.Semaphore(concurrency)

    async def take_done(timeout: float | None) -> bool:
        done, _ = await asyncio.wait(waiting, timeout=timeout, return_when=FIRST_COMPLETED)
        more = True
        for task in done:
            more = await asyncio.to_thread(take, waiting.pop(task), task.result()) and more
        return more

    try:
        while (question := await asyncio.to_thread(next, questions, None)) is not None:
            about, messages = question
            waiting[asyncio.create_task(_aask(model, messages, gate))] = about
            if not await take_done(None if len(waiting) >= AHEAD else 0):
                return
        while waiting:
            if not await take_done(None):
                return
    finally:
        for task in waiting:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*waiting, return_exceptions=True)


async def _aask(
    model: Runnable[Any, Any], messages: Messages, gate: asyncio.Semaphore
) -> StructuredReply:
    async with gate:
        return await aask(model, messages)
