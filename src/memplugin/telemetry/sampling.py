"""Sampling by task: a whole task is kept or dropped, in every session and service alike.

``task_sampler`` is for the host's provider, ``task_baggage`` carries a task's id to other
services. Both rest on one number for each task, made from its id.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import baggage, context, trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import Decision, ParentBased, Sampler, SamplingResult
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from memplugin.errors import ConfigError
from memplugin.telemetry import names
from memplugin.telemetry.content import limited

BITS = 56
"""As many as OpenTelemetry's ``rv`` has."""

BUCKETS = 100


def randomness(task_id: str) -> int:
    """The first 56 bits of SHA-256 of a task's id, as its spans show it."""
    shown = limited(task_id)
    return int.from_bytes(hashlib.sha256(shown.encode("utf-8")).digest()[: BITS // 8], "big")


def bucket(number: int) -> int:
    """0 to 99, rising with the number.

    What is kept at a ratio has the highest numbers, so the highest buckets are the same
    tasks: those in 98 and 99 are the ones that ``TaskSampler(0.02)`` keeps.
    """
    return number * BUCKETS >> BITS


@contextmanager
def task_baggage(task_id: str) -> Generator[None]:
    """Puts the task id into the ambient baggage for a block.

    Spans that others open inside, the request's own among them, are sampled by it
    (``memplugin.telemetry.sampling``), and it travels to other services in the W3C
    ``baggage`` header.
    """
    # As our spans show it; a lone surrogate would make the header's propagator raise.
    token = context.attach(baggage.set_baggage(names.TASK_ID, limited(task_id)))
    try:
        yield
    finally:
        context.detach(token)


OT_KEY = "ot"
"""OpenTelemetry's own entry of a tracestate."""

_MAX_ENTRIES = 32
_MAX_VALUE = 256
_RANDOMNESS = re.compile(r"[0-9a-f]{14}")


def task_sampler(ratio: float) -> ParentBased:
    """A sampler for a ``TracerProvider``: roots by task, everything else by its parent.

    Raises:
        ConfigError: the ratio is not between 0 and 1.
    """
    return ParentBased(root=TaskSampler(ratio))


class TaskSampler(Sampler):
    """Keeps a share of tasks, each whole; for roots (see ``task_sampler``).

    The randomness of a task is the first 56 bits of SHA-256 of its id; it is kept when
    that is at least ``(1 - ratio) * 2**56``. Both numbers go into the tracestate as the
    OpenTelemetry specification has them (``ot=th:…;rv:…``), so a collector that samples
    in ``equalizing`` mode comes to the same decisions.

    Args:
        ratio: Share of tasks that is kept, 0 to 1.

    Raises:
        ConfigError: the ratio is not between 0 and 1.
    """

    def __init__(self, ratio: float) -> None:
        if isinstance(ratio, str) or not 0.0 <= ratio <= 1.0:
            raise ConfigError(f"ratio is {ratio!r}: give a number from 0 to 1, such as 1 / 50.")
        self._ratio = ratio
        # From the ratio itself, since 1 - ratio has lost the digits that 2**56 can distinguish.
        self._threshold = (1 << BITS) - round(ratio * (1 << BITS))

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decides by the task, else by the session, else by the trace. See ``Sampler``."""
        state = _parents_state(parent_context)
        task = _task(attributes, parent_context)
        explicit = _explicit(state) if task is None else randomness(task)
        number = trace_id & ((1 << BITS) - 1) if explicit is None else explicit
        if number < self._threshold:
            # What was not kept has no threshold; its randomness is still for others to use.
            return SamplingResult(Decision.DROP, None, _with(state, None, explicit))
        shown = dict(attributes or {})
        if task is not None:
            shown[names.TASK_BUCKET] = bucket(number)
        state = _with(state, self._threshold, explicit)
        return SamplingResult(Decision.RECORD_AND_SAMPLE, shown, state)

    def get_description(self) -> str:
        """Names the sampler and its ratio."""
        return f"TaskSampler{{{self._ratio}}}"


def _task(attributes: Attributes, context: Context | None) -> str | None:
    return next((value for value in _named(attributes or {}, context) if value), None)


def _named(attributes: Attributes, context: Context | None) -> Iterator[str | None]:
    given = attributes or {}
    for name in (names.TASK_ID, names.SESSION_ID):
        for value in (given.get(name), baggage.get_baggage(name, context)):
            yield value if isinstance(value, str) else None
    conversation = given.get(names.CONVERSATION_ID)
    yield conversation if isinstance(conversation, str) else None


# ---------------------------------------------------------------- tracestate


def _parents_state(context: Context | None) -> TraceState:
    parent = trace.get_current_span(context).get_span_context()
    return parent.trace_state if parent.is_valid else TraceState()


def _members(state: TraceState) -> dict[str, str]:
    pairs = (member.partition(":") for member in state.get(OT_KEY, "").split(";") if member)
    return {key: value for key, _, value in pairs}


def _explicit(state: TraceState) -> int | None:
    """The randomness that a trace has already."""
    value = _members(state).get("rv", "")
    return int(value, 16) if _RANDOMNESS.fullmatch(value) else None


def _with(state: TraceState, threshold: int | None, number: int | None) -> TraceState:
    """The tracestate with our ``th`` and ``rv``; what else stands in it stays, if there is room."""
    others = {key: value for key, value in _members(state).items() if key not in ("th", "rv")}
    ours: dict[str, str] = {}
    if threshold is not None:
        ours["th"] = f"{threshold:014x}".rstrip("0") or "0"
    if number is not None:
        ours["rv"] = f"{number:014x}"
    value = ""
    for key, member in (ours | others).items():
        longer = f"{value};{key}:{member}" if value else f"{key}:{member}"
        value = longer if len(longer) <= _MAX_VALUE else value
    vendors = [(key, entry) for key, entry in state.items() if key != OT_KEY]
    return TraceState([(OT_KEY, value), *vendors[: _MAX_ENTRIES - 1]] if value else vendors)
