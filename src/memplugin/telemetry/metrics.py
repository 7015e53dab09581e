"""Rates that are true when traces are sampled: counters and histograms on the host's meters.

The host's meter provider is used and none is set. Nothing here can fail the host.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any
from weakref import WeakSet

from opentelemetry import metrics
from opentelemetry.metrics import (
    CallbackOptions,
    Counter,
    Histogram,
    Meter,
    MeterProvider,
    Observation,
)

from memplugin.records import Decision, Proposal, Retrieval, WriteReceipt
from memplugin.telemetry import names
from memplugin.telemetry.content import is_label, limited

_log = logging.getLogger("memplugin")

DURATION_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
INJECTED_BUCKETS = (0, 1, 2, 3, 5, 8, 12, 20, 50)

_open: WeakSet[Metrics] = WeakSet()
"""Every open store of the process. An SDK keeps the callbacks of the first gauge of a name
and no others, and never gives one back, so one callback has to speak for all of them."""


class Metrics:
    """The instruments of one store.

    Args:
        provider: None takes the global one.
        store_id: Names the store on the gauge.
        backlog: Counts what waits for the index.
    """

    def __init__(
        self,
        provider: MeterProvider | None,
        *,
        version: str,
        store_id: str,
        backlog: Callable[[], int],
    ) -> None:
        meter = metrics.get_meter("memplugin", version, provider)
        self._provider = provider
        self._store_id = store_id
        self._backlog = backlog
        self._writes = _counter(meter, names.WRITES)
        self._duration = _histogram(meter, names.RECALL_DURATION, DURATION_BUCKETS)
        self._injected = _histogram(meter, names.INJECTED, INJECTED_BUCKETS)
        self._decisions = _counter(meter, names.DECISIONS)
        self._flags = _counter(meter, names.FLAGS)
        _open.add(self)
        gauge = names.BACKLOG
        meter.create_observable_gauge(
            gauge.name, [_backlogs(provider)], unit=gauge.unit, description=gauge.meaning
        )

    def close(self) -> None:
        """The store is not asked for its backlog any more."""
        _open.discard(self)

    def written(self, proposals: Sequence[Proposal], receipts: Sequence[WriteReceipt]) -> None:
        """Counts proposals by ruling and kind."""
        kinds = {proposal.id: proposal.kind for proposal in proposals}
        with _quietly():
            for receipt in receipts:
                kind = kinds.get(receipt.proposal_id, "")
                shown = kind if is_label(kind) else "other"
                self._writes.add(1, {names.RULING: receipt.ruling, names.KIND: shown})

    @contextmanager
    def recalling(self, policy: str) -> Generator[None]:
        """Times a recall, whatever becomes of it."""
        attributes: dict[str, str] = {names.POLICY: policy}
        began = perf_counter()
        try:
            yield
        except BaseException as error:
            attributes[names.ERROR_TYPE] = limited(type(error).__name__)
            raise
        finally:
            with _quietly():
                self._duration.record(perf_counter() - began, attributes)

    def recalled(self, retrieval: Retrieval) -> None:
        """Counts what a recall showed."""
        with _quietly():
            self._injected.record(retrieval.shown, {names.POLICY: retrieval.policy})

    def decided(self, decision: Decision[Any]) -> None:
        """Counts a decision and its flags."""
        with _quietly():
            self._decisions.add(1, {names.DECISION_STATUS: decision.status})
            for flag in decision.flags:
                self._flags.add(1, {names.FLAG: flag})

    @property
    def provider(self) -> MeterProvider:
        """Where it reports to."""
        return self._provider or metrics.get_meter_provider()

    def observed(self) -> Iterable[Observation]:
        """The backlog, now; nothing where the ledger can't say."""
        with _quietly():
            yield Observation(self._backlog(), {names.STORE_ID: self._store_id})


def _backlogs(
    provider: MeterProvider | None,
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        here = provider or metrics.get_meter_provider()  # the host may set the global one late
        for store in [store for store in _open if store.provider is here]:
            yield from store.observed()

    return observe


def _counter(meter: Meter, metric: names.Metric) -> Counter:
    return meter.create_counter(metric.name, unit=metric.unit, description=metric.meaning)


def _histogram(meter: Meter, metric: names.Metric, buckets: Sequence[float]) -> Histogram:
    return meter.create_histogram(
        metric.name,
        unit=metric.unit,
        description=metric.meaning,
        explicit_bucket_boundaries_advisory=buckets,
    )


@contextmanager
def _quietly() -> Generator[None]:
    try:
        yield
    except Exception:  # noqa: BLE001 -- whatever a host's SDK raises, or a ledger that is down
        _log.warning("a measurement was not taken", exc_info=True)
