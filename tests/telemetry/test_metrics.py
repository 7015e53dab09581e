"""Rates on the host's meter provider: true whatever is sampled."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.errors import StoreError
from memplugin.telemetry import names
from memplugin.testing import InMemoryIndex, ScriptedChatModel, memory_for_tests

CONTEXT = MemoryContext("ws_8841", "s_1", task_id="t_0417")


class Pack(BaseModel):
    """What is decided."""

    basis: str


class Measured:
    """A meter provider, and what has been measured with it."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def metrics(self) -> dict[str, Any]:
        data = self._reader.get_metrics_data()
        return {
            metric.name: metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def points(self, metric: names.Metric) -> dict[tuple[Any, ...], Any]:
        """A metric's points, by the values of their attributes in the order of ``names``."""
        found = self.metrics().get(metric.name)
        return {
            tuple(point.attributes.get(key) for key in metric.attributes): point
            for point in (found.data.data_points if found else ())
        }

    def values(self, metric: names.Metric) -> dict[tuple[Any, ...], Any]:
        return {key: point.value for key, point in self.points(metric).items()}


@pytest.fixture
def measured() -> Measured:
    return Measured()


@pytest.fixture
def memory(measured: Measured) -> Iterator[Memory]:
    unsampled = TracerProvider(sampler=ALWAYS_OFF)
    with memory_for_tests(tracer_provider=unsampled, meter_provider=measured.provider) as opened:
        yield opened


def test_writes_are_counted_by_ruling_and_kind(memory: Memory, measured: Measured) -> None:
    memory.write_many(
        ["net of tax", {"content": "use bar charts", "kind": "instruction"}, " "], context=CONTEXT
    )
    memory.write("gross", context=CONTEXT)
    assert measured.values(names.WRITES) == {
        ("accepted", "fact"): 2,
        ("accepted", "instruction"): 1,
        ("rejected", "fact"): 1,
    }


def test_a_failed_extraction_is_counted(memory: Memory, measured: Measured) -> None:
    memory.remember(
        [{"role": "user", "content": "hello"}],
        context=CONTEXT,
        model=ScriptedChatModel(["no JSON"]),
    )
    assert measured.values(names.WRITES) == {("failed", "other"): 1}


def test_a_kind_that_is_a_sentence_does_not_become_a_series_of_its_own(
    memory: Memory, measured: Measured
) -> None:
    memory.write("a", context=CONTEXT, kind="the vault code is four one seven")
    assert measured.values(names.WRITES) == {("accepted", "other"): 1}


def test_a_recalls_duration_and_what_it_showed_are_measured(
    memory: Memory, measured: Measured
) -> None:
    memory.write_many(["net of tax", "gross of tax", "bar charts"], context=CONTEXT)
    memory.recall("tax", context=CONTEXT, k=2)
    memory.recall("tax", context=CONTEXT, k=1)
    (duration,) = measured.points(names.RECALL_DURATION).values()
    label = memory.backend.policies["balanced"].label
    assert duration.attributes == {"memplugin.retrieval.policy": label}
    assert duration.count == 2
    assert 0 < duration.sum < 10
    (injected,) = measured.points(names.INJECTED).values()
    assert (injected.count, injected.sum, injected.max) == (2, 3, 2)


def test_a_recall_that_fails_is_timed_with_the_errors_class(
    memory: Memory, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise StoreError("down")

    monkeypatch.setattr(memory.backend.ledger.retrievals, "save", fails)
    with pytest.raises(StoreError):
        memory.recall("tax", context=CONTEXT)
    label = memory.backend.policies["balanced"].label
    assert list(measured.points(names.RECALL_DURATION)) == [(label, "StoreError")]
    assert measured.points(names.INJECTED) == {}


def test_decisions_are_counted_by_status_and_flags_by_name(
    memory: Memory, measured: Measured
) -> None:
    reply = {
        "memory_reasoning": "read",
        "considered": "nothing",
        "cited_record_ids": ["m_unknown"],
        "basis": "net",
    }
    model = ScriptedChatModel([reply, reply, "prose", "prose"])
    for _ in range(3):
        memory.decide("?", context=CONTEXT, answer=Pack, model=model)
    assert measured.values(names.DECISIONS) == {("decided",): 2, ("no_decision",): 1}
    assert measured.values(names.FLAGS) == {("unknown_citation",): 2}


def test_names_and_units_are_those_of_the_one_list(memory: Memory, measured: Measured) -> None:
    memory.write("net of tax", context=CONTEXT)
    memory.recall("tax", context=CONTEXT)
    memory.decide("?", context=CONTEXT, answer=Pack, model=ScriptedChatModel([{}] * 2))
    shown = {name: (metric.unit, metric.description) for name, metric in measured.metrics().items()}
    listed = {metric.name: (metric.unit, metric.meaning) for metric in names.METRICS}
    assert shown == {name: what for name, what in listed.items() if name != names.FLAGS.name}
    assert all(key in names.ATTRIBUTES for metric in names.METRICS for key in metric.attributes)


# ---------------------------------------------------------------- the backlog


class DownIndex(InMemoryIndex):
    """An index that takes nothing while it is down."""

    down = True

    def upsert(self, *arguments: Any) -> None:
        if self.down:
            raise StoreError("down")
        super().upsert(*arguments)


def test_the_backlog_is_what_waits_for_the_index_now() -> None:
    measured, index = Measured(), DownIndex()
    with memory_for_tests(meter_provider=measured.provider, index=index) as memory:
        memory.write_many(["one", "two", "three"], context=CONTEXT)
        memory.write("four", context=MemoryContext("another", "s"))
        assert list(measured.values(names.BACKLOG).values()) == [4]
        index.down = False
        memory.flush()
        assert list(measured.values(names.BACKLOG).values()) == [0]


def test_two_open_stores_are_both_observed_and_a_closed_one_no_more() -> None:
    measured = Measured()
    with memory_for_tests(meter_provider=measured.provider, index=DownIndex()) as first:
        first.write("one", context=CONTEXT)
        with memory_for_tests(meter_provider=measured.provider) as second:
            assert len(measured.values(names.BACKLOG)) == 2
        assert list(measured.values(names.BACKLOG).values()) == [1]
        del second
    assert measured.values(names.BACKLOG) == {}


def test_a_closed_stores_ledger_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measured()
    memory = memory_for_tests(meter_provider=measured.provider)
    asked: list[int] = []
    monkeypatch.setattr(memory.backend.metrics, "_backlog", lambda: asked.append(1) or 0)
    assert list(measured.values(names.BACKLOG).values()) == [0]
    memory.close()
    assert measured.values(names.BACKLOG) == {}
    assert asked == [1]


def test_a_store_that_nobody_holds_is_not_kept_alive_by_its_gauge() -> None:
    measured = Measured()
    memory_for_tests(meter_provider=measured.provider)
    gc.collect()
    assert measured.values(names.BACKLOG) == {}


def test_stores_report_to_their_own_provider_only() -> None:
    one, other = Measured(), Measured()
    with (
        memory_for_tests(meter_provider=one.provider, index=DownIndex()) as first,
        memory_for_tests(meter_provider=other.provider),
    ):
        first.write("one", context=CONTEXT)
        assert list(one.values(names.BACKLOG).values()) == [1]
        assert list(other.values(names.BACKLOG).values()) == [0]


# ---------------------------------------------------------------- never the host's problem


def test_without_an_sdk_nothing_is_measured_and_nothing_fails() -> None:
    with memory_for_tests(meter_provider=metrics.NoOpMeterProvider()) as memory:
        memory.write("net of tax", context=CONTEXT)
        assert memory.recall("tax", context=CONTEXT).shown == 1


def test_an_instrument_that_raises_changes_no_result(
    measured: Measured, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no metric today")

    with memory_for_tests(meter_provider=measured.provider) as memory:
        for instrument in ("_writes", "_duration", "_injected", "_decisions", "_flags"):
            method = "record" if instrument in ("_duration", "_injected") else "add"
            monkeypatch.setattr(getattr(memory.backend.metrics, instrument), method, broken)
        with caplog.at_level(logging.WARNING, logger="memplugin"):
            assert memory.write("net of tax", context=CONTEXT).ruling == "accepted"
            assert memory.recall("tax", context=CONTEXT).shown == 1
            decision = memory.decide(
                "?", context=CONTEXT, answer=Pack, model=ScriptedChatModel([{"basis": "net"}])
            )
    assert decision.status == "decided"
    assert "a measurement was not taken" in caplog.text


def test_a_ledger_that_is_down_costs_a_point_and_no_more(
    memory: Memory, measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down() -> int:
        raise StoreError("down")

    monkeypatch.setattr(memory.backend.metrics, "_backlog", down)
    memory.write("net of tax", context=CONTEXT)
    assert measured.values(names.BACKLOG) == {}
    assert measured.values(names.WRITES) == {("accepted", "fact"): 1}


def test_the_default_configuration_measures_to_the_global_provider() -> None:
    with memory_for_tests(config=MemoryConfig()) as memory:
        assert memory.backend.metrics.provider is metrics.get_meter_provider()
