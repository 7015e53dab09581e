"""Confidence from a seed and the whole set of evidence. Expected values are by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin.config import MemoryConfig
from memplugin.errors import ConfigError
from memplugin.records import Belief, Evidence
from memplugin.write.confidence import (
    confidence_of,
    ema_settles_at,
    is_narrower,
    rank_observations,
    weigher,
)

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
BETA, EMA = MemoryConfig(), MemoryConfig(confidence_policy="ema")
PLUMBING = {"trade": "plumbing"}
TOILETS = {**PLUMBING, "problem": "toilet"}
DRAINS = {**PLUMBING, "problem": "drain"}
HEATERS = {**PLUMBING, "problem": "heater"}


def seen(
    number: int = 0,
    *,
    supports: bool = True,
    weight: float = 1.0,
    salience: float = 0.5,
    scope: dict[str, str] | None = None,
) -> Evidence:
    return Evidence(
        id=f"e_{number:04}",
        record_id="m_1",
        supports=supports,
        weight=weight,
        salience=salience,
        scope=scope or {},
        at=NOON + timedelta(minutes=number),
        session_id="s_1",
        task_id="t_1",
    )


def believed(confidence: float = 0.5, strength: float = 4.0, **fields: Any) -> Belief:
    return Belief(confidence, strength, fields.pop("scope", {}), **fields)


# ---------------------------------------------------------------- the posterior


def test_forty_routine_confirmations_take_an_even_chance_above_nine_in_ten() -> None:
    # alpha = 0.5 * 4 + 40 * 0.5 = 22, beta = 0.5 * 4 = 2
    confirmed = [seen(n) for n in range(40)]
    assert confidence_of(believed(), confirmed, BETA) == pytest.approx(22 / 24)
    assert confidence_of(believed(), confirmed, BETA) > 0.9


def test_evidence_for_and_against_adds_its_weight_times_its_salience() -> None:
    # alpha = 0.75 * 4 + 2 * 0.5 = 4, beta = 0.25 * 4 + 1 * 1 = 2
    evidence = [seen(1, weight=2.0), seen(2, supports=False, salience=1.0)]
    assert confidence_of(believed(0.75), evidence, BETA) == pytest.approx(4 / 6)


def test_a_stronger_seed_moves_less() -> None:
    against = [seen(supports=False)]
    # 0.9 * 4 / 4.5 and 0.9 * 16 / 16.5
    assert confidence_of(believed(0.9), against, BETA) == pytest.approx(0.8)
    assert confidence_of(believed(0.9, 16.0), against, BETA) == pytest.approx(14.4 / 16.5)


def test_without_evidence_confidence_is_exactly_what_it_was_written_with() -> None:
    assert confidence_of(believed(0.1, 3.0), [], BETA) == 0.1
    assert confidence_of(believed(0.1, 3.0), [seen(weight=0.0)], BETA) == 0.1


def test_an_observation_without_the_narrower_keys_is_against_the_belief_itself() -> None:
    elsewhere = [seen(supports=False, scope=PLUMBING)]
    assert confidence_of(believed(0.9, scope=PLUMBING), elsewhere, BETA) == pytest.approx(0.8)


def test_the_same_exception_again_and_again_does_not_lower_the_rule() -> None:
    against = [seen(n, supports=False, scope=TOILETS) for n in range(100)]
    assert confidence_of(believed(0.9, scope=PLUMBING), against, BETA) == 0.9


def test_from_the_configured_number_of_distinct_exceptions_on_each_counts_once() -> None:
    rule = believed(0.9, scope=PLUMBING)
    two = [seen(n, supports=False, scope=s) for n, s in enumerate([TOILETS, DRAINS, DRAINS])]
    assert confidence_of(rule, two, BETA) == 0.9
    third = seen(9, supports=False, scope=HEATERS, salience=1.0)
    # toilets 0.5, drains 0.5 (once), heaters 1: 3.6 / (4 + 2)
    assert confidence_of(rule, [*two, third], BETA) == pytest.approx(0.6)
    patient = MemoryConfig(specialisations_to_lower=4)
    assert confidence_of(rule, [*two, third], patient) == 0.9


def test_a_narrower_scope_has_all_keys_and_more_of_them() -> None:
    assert is_narrower(TOILETS, PLUMBING)
    assert is_narrower(PLUMBING, {})
    assert not is_narrower(PLUMBING, PLUMBING)
    assert not is_narrower(PLUMBING, TOILETS)
    assert not is_narrower({"trade": "pest", "problem": "toilet"}, PLUMBING)
    assert not is_narrower({"property": "12 Elm St", "problem": "toilet"}, PLUMBING)


def test_a_pinned_belief_stays_where_it_was_pinned() -> None:
    pinned = believed(0.5, pinned_at=0.96)
    assert confidence_of(pinned, [seen(supports=False, weight=9)], BETA) == 0.96
    assert confidence_of(pinned, [seen(supports=False, weight=9)], EMA) == 0.96


# ---------------------------------------------------------------- the moving average


@pytest.mark.parametrize("start", [0.1, 0.6, 1.0])
def test_the_moving_average_settles_at_three_times_weight_and_salience(start: float) -> None:
    routine = [seen(n, weight=0.4) for n in range(400)]
    assert confidence_of(believed(start), routine, EMA) == pytest.approx(0.6, abs=1e-6)
    assert ema_settles_at(0.4, 0.5) == pytest.approx(0.6)


def test_the_moving_average_is_capped_at_certainty() -> None:
    assert confidence_of(believed(0.9), [seen(n) for n in range(100)], EMA) == 1.0
    assert ema_settles_at(1.0, 0.5) == 1.0


def test_one_step_of_the_moving_average_is_the_old_rule() -> None:
    # 0.8 * 0.95 + 1 * 0.5 * 0.15, and 0.8 * 0.95
    assert confidence_of(believed(0.8), [seen()], EMA) == pytest.approx(0.835)
    assert confidence_of(believed(0.8), [seen(supports=False)], EMA) == pytest.approx(0.76)


def test_nine_exceptions_among_ten_confirmations_drag_the_moving_average_to_a_half() -> None:
    turns = [seen(n, weight=0.4, supports=n % 2 == 0, scope=TOILETS) for n in range(19)]
    plumber = believed(0.81, scope=PLUMBING)
    assert confidence_of(plumber, turns, EMA) == pytest.approx(0.50, abs=0.005)
    # alpha = 0.81 * 4 + 10 * 0.2 = 5.24 of 6
    assert confidence_of(plumber, turns, BETA) == pytest.approx(5.24 / 6)


# ---------------------------------------------------------------- what must always hold

scopes = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy"), max_size=3)
beliefs = st.builds(
    Belief,
    confidence=st.floats(0, 1),
    strength=st.floats(0.1, 50),
    scope=scopes,
    pinned_at=st.none(),
)
evidence_sets = st.lists(
    st.tuples(st.booleans(), st.floats(0, 100), st.floats(0, 1), scopes), max_size=12
).map(
    lambda drawn: [
        seen(n, supports=for_it, weight=weight, salience=salience, scope=scope)
        for n, (for_it, weight, salience, scope) in enumerate(drawn)
    ]
)
configs = st.builds(
    MemoryConfig,
    confidence_policy=st.sampled_from(["beta", "ema"]),
    specialisations_to_lower=st.integers(1, 5),
)


@given(beliefs, evidence_sets, configs, st.randoms())
def test_no_order_of_arrival_matters(
    belief: Belief, evidence: list[Evidence], config: MemoryConfig, chance: Any
) -> None:
    shuffled = evidence.copy()
    chance.shuffle(shuffled)
    assert confidence_of(belief, shuffled, config) == confidence_of(belief, evidence, config)


@given(beliefs, evidence_sets, configs)
def test_confidence_is_always_a_probability(
    belief: Belief, evidence: list[Evidence], config: MemoryConfig
) -> None:
    assert 0.0 <= confidence_of(belief, evidence, config) <= 1.0


@given(beliefs, st.floats(0, 1), evidence_sets, configs)
def test_a_pin_never_moves(
    belief: Belief, at: float, evidence: list[Evidence], config: MemoryConfig
) -> None:
    pinned = Belief(belief.confidence, belief.strength, belief.scope, pinned_at=at)
    assert confidence_of(pinned, evidence, config) == at


@given(beliefs, evidence_sets, st.integers(1, 5))
def test_narrower_evidence_never_lowers_a_belief_below_the_configured_rule(
    belief: Belief, evidence: list[Evidence], enough: int
) -> None:
    def is_special(piece: Evidence) -> bool:
        return not piece.supports and is_narrower(piece.scope, belief.scope)

    without = [piece for piece in evidence if not is_special(piece)]
    distinct = {tuple(sorted(p.scope.items())) for p in evidence if is_special(p) and p.amount}
    config = MemoryConfig(specialisations_to_lower=enough)
    whole, rest = confidence_of(belief, evidence, config), confidence_of(belief, without, config)
    if len(distinct) < enough:
        assert whole == rest
    else:
        assert whole <= rest


@given(beliefs, evidence_sets, configs.filter(lambda c: c.confidence_policy == "beta"))
def test_more_evidence_for_never_lowers_and_more_against_never_raises(
    belief: Belief, evidence: list[Evidence], config: MemoryConfig
) -> None:
    now = confidence_of(belief, evidence, config)
    tolerance = 1e-12
    for supports, scope in ((True, {}), (False, {}), (False, {**belief.scope, "further": "x"})):
        more = [*evidence, seen(99, supports=supports, scope=scope)]
        then = confidence_of(belief, more, config)
        assert (then >= now - tolerance) if supports else (then <= now + tolerance)


def test_a_weigher_is_the_policy_of_a_configuration() -> None:
    both: Sequence[Callable[..., float]] = (weigher(BETA), weigher(EMA))
    assert [weigh(believed(0.8), [seen()]) for weigh in both] == [
        pytest.approx(3.7 / 4.5),
        pytest.approx(0.835),
    ]


# ---------------------------------------------------------------- ranking observations


def test_observations_rank_by_salience_weight_and_recency() -> None:
    day = timedelta(days=1)
    old = Evidence(**{**fields(seen(1, weight=4.0)), "at": NOON - 60 * day})
    new = Evidence(**{**fields(seen(2)), "at": NOON})
    dull = Evidence(**{**fields(seen(3, salience=0.1)), "at": NOON})
    ranked = rank_observations([dull, old, new], now=NOON, half_life=30 * day)
    # 4 * 0.5 * 0.25 = 0.5 = 1 * 0.5 (the newer first), 1 * 0.1
    assert ranked == [(new, 0.5), (old, 0.5), (dull, pytest.approx(0.1))]


def test_an_observation_against_counts_by_how_much_it_says() -> None:
    strong = seen(1, supports=False, weight=3.0)
    ranked = rank_observations([seen(2), strong], now=NOON, half_life=timedelta(days=1))
    assert [piece for piece, _ in ranked] == [strong, seen(2)]


def test_what_lies_in_the_future_is_not_worth_more_for_it() -> None:
    [(_, score)] = rank_observations(
        [seen(60)], now=NOON - timedelta(days=9), half_life=timedelta(days=1)
    )
    assert score == 0.5


def fields(piece: Evidence) -> dict[str, Any]:
    return {name: getattr(piece, name) for name in Evidence.__dataclass_fields__}


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("seed_strength", 0.0),
        ("seed_strength", math.inf),
        ("seed_strength", math.nan),
        ("observation_half_life_days", -1.0),
        ("specialisations_to_lower", 0),
        ("confidence_policy", "median"),
    ],
)
def test_settings_that_can_not_work_are_named(setting: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{setting} is"):
        MemoryConfig(**{setting: value})
