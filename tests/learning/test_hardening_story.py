"""The hardening run, with the real embedding model; every figure is worked out beside it."""

from __future__ import annotations

import pytest

from memplugin import Memory
from memplugin.demo import hardening as story
from memplugin.demo.hardening import HardeningResult, run_story


@pytest.fixture(scope="module")
def ended(minilm, tmp_path_factory: pytest.TempPathFactory) -> HardeningResult:
    folder = tmp_path_factory.mktemp("hardening")
    return run_story(
        lambda config, clock: Memory.open(folder, embeddings=minilm, config=config, clock=clock)
    )


def _attempts(ended: HardeningResult, run: int, rule: str) -> list[tuple[bool, str | None, float]]:
    attempts = [a for a in ended.runs[run - 1].attempts if a.rule == rule]
    return [(a.passed, a.failure_mode, a.value) for a in attempts]


def test_the_rule_passes_where_the_tips_are_ignored_and_breaks_the_host_where_followed(ended):
    assert _attempts(ended, 1, story.MACS.name) == [(True, None, 1.0)]
    assert _attempts(ended, 2, story.MACS.name) == [
        (False, "clean_failure", 0.0),
        (False, "clean_failure", 0.0),
        (False, "health_failure", -0.2),
    ]


def test_outcome_alone_ranks_the_misleading_tips_first_and_following_ranks_them_last(ended):
    for run in ended.runs:
        lucky = [s for s in run.standings if s.misleading]
        assert sorted(s.by_outcome[0] for s in lucky) == [1, 2, 3, 4, 5]
        assert sorted(s.by_following[0] for s in lucky) == [4, 5, 6, 7, 8]


def test_before_anything_is_known_all_stand_mixed_and_without_credit(ended):
    assert {s.by_outcome for s in ended.before} == {s.by_following for s in ended.before}
    assert {s.by_outcome[1] for s in ended.before} == {0.0}
    assert sorted(s.by_outcome[0] for s in ended.before if s.misleading) != [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("run", "misleading", "by_outcome", "by_following"),
    [
        # Shown in 4 passes at the first attempt, ignored: 4 / (4 + 4), and 0 / 8.
        (1, True, 4 / 8, 0.0),
        # Shown in those 4 and in 3 rules that took 3 attempts: 4 + 3 * 0.8, over 13 + 4;
        # followed in every pass.
        (1, False, 6.4 / 17, 6.4 / 17),
        # Then 3 more passes, ignored, and 0 + 0 - 0.2, followed: 6.8 and -0.2, over 10 + 4.
        (2, True, 6.8 / 14, -0.2 / 14),
        # Then 3 + 0 + 0 - 0.2 + 2.4, of which 5.4 followed: 11.6 and 11.8, over 28 + 4.
        (2, False, 11.6 / 32, 11.8 / 32),
    ],
)
def test_credit_is_what_it_comes_to_by_hand(ended, run, misleading, by_outcome, by_following):
    of_kind = [s for s in ended.runs[run - 1].standings if s.misleading is misleading]
    assert [s.by_outcome[1] for s in of_kind] == pytest.approx([by_outcome] * len(of_kind))
    assert [s.by_following[1] for s in of_kind] == pytest.approx([by_following] * len(of_kind))


def test_the_audit_names_exactly_the_misleading_tips_and_they_are_retired(ended):
    assert {entry.record_id for entry in ended.audit.misleading} == set(ended.misleading)
    assert {(e.attempts, e.successes, e.known, e.followed) for e in ended.audit.misleading} == {
        (10, 7, 7, 0)
    }
    assert {eviction.record_id for eviction in ended.evicted} == set(ended.misleading)
    assert {eviction.reason for eviction in ended.evicted} == {"negative_utility"}
    assert all(eviction.done for eviction in ended.evicted)


def test_without_them_the_agent_that_obeys_passes_at_once(ended):
    assert [(a.passed, a.value) for a in ended.afterwards] == [(True, 1.0)]
    assert ended.as_expected
