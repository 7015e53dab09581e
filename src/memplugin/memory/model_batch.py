"""Many questions to one model, several at a time, each answer taken as it comes.

Questions are drawn as they are needed and answers are handed over one at a time, so that
whoever asks may stop at any answer, and keeps what it has when the process is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langchain_core.runnables.config import ContextThreadPoolExecutor

from memplugin.chat.errors import aask, ask
from memplugin.chat.reply import StructuredReply

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
