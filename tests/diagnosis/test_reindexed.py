"""What a later reindex must not change."""

from __future__ import annotations

from memplugin import Need
from memplugin.testing import memory_for_tests
from tests.diagnosis.test_attribution import Story, shown


def test_an_index_built_again_later_does_not_change_the_verdict() -> None:
    with memory_for_tests() as memory:
        story = Story(memory)
        needed = story.write("tax is taken off")
        story.memory.write_many(
            [f"board pack with revenue by region number {n}" for n in range(30)],
            context=story.context("s_1"),
        )
        story.decide(story.recall(policy="similarity"))
        story.fail()
        story.memory.backend.ledger.records.unindex_all()
        story.memory.flush()
        verdict = story.verdict(Need(record_ids=(needed,)))
    assert (*shown(verdict), verdict.rank) == ("retrieval", "beyond_depth", 31)
