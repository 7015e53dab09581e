"""2,000 tasks over five weeks, one in fifty sampled, content hashed: what can still be told.

Run it: ``python examples/production_escalation.py`` (about 15 seconds). It needs no key and
no collector: the model is scripted, spans are kept in memory, and everything else is real.
"""

from __future__ import annotations

from opentelemetry.sdk.trace import TracerProvider

from memplugin.demo import escalation as story
from memplugin.demo.escalation import Backend, play
from memplugin.telemetry.sampling import task_sampler
from memplugin.testing import FixedClock, SpanCapture, memory_for_tests


def main(tasks: int = story.TASKS) -> None:
    """Plays the five weeks and prints what the traces that were kept say."""
    kept = SpanCapture(TracerProvider(sampler=task_sampler(story.RATIO)))
    clock = FixedClock(story.START)
    with memory_for_tests(
        config=story.CONFIG, clock=clock, tracer_provider=kept.provider
    ) as memory:
        tracer = kept.provider.get_tracer("production_escalation")
        ended = play(memory, clock, tracer, Backend(kept.read, kept.add), tasks=tasks)
    print(f"{ended.tasks} tasks in {ended.sessions} sessions: {len(ended.kept)} tasks kept")
    print(f"tasks of which only some sessions were kept: {len(ended.split)}")
    for one in ended.judged:
        if one.from_traces:
            print(f"  {one.task_id} by its traces: {one.from_traces.stage}, ", end="")
            print(f"{one.from_traces.cause}; the ledger agrees: {one.agree}")
    after = ended.promoted.from_traces
    print(f"{ended.promoted.task_id} failed and was not kept; its trace, sent again from the")
    print(f"ledger, says: {after.stage if after else None}, {after.cause if after else None}")


if __name__ == "__main__":
    main()
