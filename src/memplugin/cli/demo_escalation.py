"""The production escalation in the demo: played, and how it looks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from memplugin.cli import output
from memplugin.cli.otlp import Spans
from memplugin.demo import escalation as story
from memplugin.demo.escalation import Backend, Escalated, Judged, Session, play
from memplugin.memory.emit import Send
from memplugin.records import Verdict
from memplugin.telemetry.sampling import task_sampler
from memplugin.testing.fakes import FixedClock
from memplugin.testing.memory import memory_for_tests
from memplugin.testing.spans import SpanCapture


def played(spans: Spans) -> Escalated:
    """Plays it in memory; what is sampled goes to a collector too, when one is named."""
    sampler = task_sampler(story.RATIO)
    capture = SpanCapture(spans.provider(sampler) or TracerProvider(sampler=sampler))
    clock = FixedClock(story.START)
    with (
        memory_for_tests(
            config=story.CONFIG, clock=clock, tracer_provider=capture.provider
        ) as memory,
        output.progress("five weeks") as bar,
    ):

        def watched(sessions: Iterable[Session]) -> Iterable[Session]:
            return bar.track(list(sessions))

        tracer = capture.provider.get_tracer("memplugin.demo")
        return play(
            memory, clock, tracer, Backend(capture.read, _sender(capture, spans)), watch=watched
        )


def _sender(capture: SpanCapture, spans: Spans) -> Send:
    if not spans.target:
        return capture.add
    exporter = spans.exporter()

    def send(batch: Sequence[ReadableSpan]) -> bool:
        exporter.export(batch)  # a collector that does not answer is said at the end
        return capture.add(batch)

    return send


def view(ended: Escalated) -> Sequence[RenderableType]:
    """What was kept, what the traces say, and what was sent again."""
    return (
        "",
        Rule(
            Text("A month later: one task in fifty sampled, content hashed", "bold"), align="left"
        ),
        _kept(ended),
        _table(ended.judged),
        _promoted(ended),
    )


def _kept(ended: Escalated) -> RenderableType:
    whole = "every one of them in both sessions"
    if ended.split:
        whole = f"and {len(ended.split)} tasks in one session only"
    return Text(
        f"{ended.tasks:,} tasks in {ended.sessions:,} sessions over five weeks. {len(ended.kept)} "
        f"were kept ({len(ended.kept) / ended.tasks:.1%}), {whole}: {ended.spans} spans. "
        f"{ended.failed} tasks failed, {len(ended.judged)} of them among those kept."
    )


def _table(judged: Sequence[Judged]) -> RenderableType:
    title = "verdicts from the kept traces alone"
    table = Table("task", "stage", "cause", "rank", "the ledger", title=title, box=None)
    table.title_justify = "left"
    for one in judged:
        mark, colour = ("agrees", "green") if one.agree else ("says otherwise", "red")
        table.add_row(one.task_id, *_cells(one.from_traces), Text(mark, colour))
    return table


def _cells(verdict: Verdict | None) -> tuple[str, str, str]:
    if verdict is None:
        return "no trace", "", ""
    return verdict.stage, verdict.cause, str(verdict.rank or "")


def _promoted(ended: Escalated) -> RenderableType:
    stage, cause, _ = _cells(ended.promoted.from_traces)
    mark, colour = ("✓", "green") if ended.promoted.agree else ("✗", "red")
    return Text(
        f"{mark} {ended.lost.task_id} failed and was not kept: no trace of it. Sent again from the "
        f"ledger ({ended.sent} spans), its traces say {stage} / {cause}, as the ledger does.",
        colour,
    )
