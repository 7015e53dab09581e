"""What a caller sets: whose request it is, and how a store behaves and learns.

No other module reads environment variables of memplugin.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from memplugin.errors import ConfigError, ContextError
from memplugin.records import STANDING_KINDS, Scope
from memplugin.text import clean

USER_KEY = "user"
"""The scope key that ``user_id`` stands for."""

MAX_SCOPE_KEYS = 10
"""A request's scope selects records by every subset of it (2^n), so n is bounded."""


@dataclass(frozen=True, slots=True)
class MemoryContext:
    """Whose request this is, and what it is about.

    Attributes:
        workspace_id: The hard boundary; nothing crosses it. Required, no default.
        session_id: One conversation (LangGraph's thread).
        task_id: The work a user would name, across sessions. It is not LangGraph's
            ``execution_info.task_id``, which is one run of one node. Without it the
            session is its own task.
        user_id: The scope key ``user``: what is stored belongs to that user.
        arm: The arm of an experiment.
        scope: What the request is about, as flat strings: ``{"trade": "pest"}``.
        attempt: Which attempt at the task this is, from 1.

    Raises:
        ContextError: an id is missing or empty, or the scope is not flat strings.
    """

    workspace_id: str
    session_id: str
    task_id: str | None = None
    user_id: str | None = None
    arm: str = "memory_on"
    scope: Scope = field(default_factory=dict[str, str])
    attempt: int = 1

    def __post_init__(self) -> None:
        for name in ("workspace_id", "session_id", "task_id", "user_id", "arm"):
            object.__setattr__(self, name, _identifier(name, getattr(self, name)))
        object.__setattr__(self, "scope", checked_scope(self.scope))
        if USER_KEY in self.scope and self.user_id not in (None, self.scope[USER_KEY]):
            raise ContextError(
                f"user_id is {self.user_id!r} but scope[{USER_KEY!r}] is "
                f"{self.scope[USER_KEY]!r}: give one of them."
            )
        if self.attempt < 1:
            raise ContextError(f"attempt is {self.attempt}: attempts are counted from 1.")

    @property
    def task(self) -> str:
        """The task id, or the session's where the request names no task."""
        return self.task_id or self.session_id

    @property
    def request_scope(self) -> dict[str, str]:
        """The scope with the user in it."""
        return {**self.scope, **({USER_KEY: self.user_id} if self.user_id else {})}


def _identifier(name: str, value: Any) -> str | None:
    optional = name in ("task_id", "user_id")
    if value is None and optional:
        return None
    if not isinstance(value, str) or not clean(value).strip():
        raise ContextError(f"{name} is {value!r}: give a non-empty string.")
    return clean(value)


def checked_scope(scope: Mapping[str, Any]) -> dict[str, str]:
    """Returns the scope, cleaned.

    Raises:
        ContextError: a key or value is not a non-empty string, or there are too many.
    """
    for key, value in scope.items():
        if not (isinstance(value, str) and key and value):
            raise ContextError(
                f"scope[{key!r}] is {value!r}: a scope is flat, non-empty strings to "
                'non-empty strings, such as {"trade": "pest"}.'
            )
    if len(scope) > MAX_SCOPE_KEYS:
        raise ContextError(f"scope has {len(scope)} keys: {MAX_SCOPE_KEYS} at most.")
    return {clean(key): clean(value) for key, value in sorted(scope.items())}


# ---------------------------------------------------------------- learning

HEALTH_FAILURE = "health_failure"
"""The failure mode of an attempt that broke the environment it worked in."""


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:  # NaN too
        raise ConfigError(f"{name} is {value}: give a number from {least:g} to {most:g}.")


def _harmful() -> dict[str, float]:
    return {HEALTH_FAILURE: -0.2}


@dataclass(frozen=True, slots=True)
class Grades:
    """What an attempt's outcome is worth, as a table.

    Attributes:
        passed: (attempt, value), by rising attempt: what passing is worth from that attempt
            on. The first entry is for attempt 1.
        failed: What failing is worth.
        failure_modes: What failing in a named mode is worth instead.

    Raises:
        ConfigError: a value is not between -1 and 1, or the attempts do not rise from 1.
    """

    passed: tuple[tuple[int, float], ...] = ((1, 1.0), (2, 0.8), (4, 0.5))
    failed: float = 0.0
    failure_modes: Mapping[str, float] = field(default_factory=_harmful)

    def __post_init__(self) -> None:
        attempts = [attempt for attempt, _ in self.passed]
        if attempts[:1] != [1] or attempts != sorted(set(attempts)):
            raise ConfigError(f"the attempts of passed are {attempts}: let them rise from 1.")
        values = [value for _, value in self.passed]
        for value in (*values, self.failed, *self.failure_modes.values()):
            _check("a grade", value, -1.0, 1.0)


BINARY_GRADES = Grades(passed=((1, 1.0),), failure_modes={})
"""Passing is worth 1 and failing 0, whatever it took and whatever it broke."""


@dataclass(frozen=True, slots=True)
class CreditWeights:
    """How much of an attempt's outcome a shown memory gets, by the signs that it was followed.

    The judge's word counts where there is one, else the cosine, else ``unknown``.

    Attributes:
        followed: The judge says that the action followed the memory.
        ignored: The judge says that it did not.
        close: No judge, and the cosine of memory and action is ``close_from`` or more.
        far: No judge, and the cosine is below that.
        unknown: Neither judge nor cosine.
        close_from: A multiple of 0.05: credit is added up by steps of that size.

    Raises:
        ConfigError: a weight is not between 0 and 1, or ``close_from`` no multiple of 0.05.
    """

    followed: float = 1.0
    ignored: float = 0.0
    close: float = 1.0
    far: float = 0.0
    unknown: float = 0.5
    close_from: float = 0.6

    def __post_init__(self) -> None:
        for name in ("followed", "ignored", "close", "far", "unknown"):
            _check(name, getattr(self, name), 0.0, 1.0)
        _check("close_from", self.close_from, -1.0, 1.0)
        if self.close_from != self.close_twentieths / 20:
            raise ConfigError(f"close_from is {self.close_from}: give a multiple of 0.05.")

    @property
    def close_twentieths(self) -> int:
        """``close_from`` as whole steps of 0.05."""
        return round(self.close_from * 20)


def twentieths(cosine: float) -> int:
    """The whole twentieths in a cosine: the largest n for which n / 20 is not above it."""
    n = math.floor(cosine * 20)
    # 0.15 * 20 may come out below 3: the division is what a threshold is compared with.
    return n + 1 if (n + 1) / 20 <= cosine else n


OUTCOME_ONLY = CreditWeights(ignored=1.0, far=1.0, unknown=1.0)
"""Whatever was shown gets the whole outcome: what credit was before anyone asked who was
followed. To compare with."""


@dataclass(frozen=True, slots=True)
class LearnConfig:
    """How outcomes become credit, and credit an eviction.

    Attributes:
        grades: What an outcome is worth.
        judge_prompt: The instructions of the judge of whether a memory was followed, for a
            domain with its own notion of it; None for the built-in ones.
        judge_chars: Longer actions are shown to the judge with their middle left out.
        weights: Who gets how much of an outcome.
        prior: Utility of a record that nothing is known of; it ranks neither up nor down.
        prior_attempts: How many attempts the prior weighs.
        evict_after: Attempts (successes, for a record that is not followed) that must be
            known before a record is evicted.
        audit_after: The same, before the audit names it.
        rarely: Share of the successes; one followed in fewer is followed rarely.
        far_apart: From what difference of judge (1 or 0) and cosine the audit wants a
            person to look.

    Raises:
        ConfigError: a number can't work.
    """

    grades: Grades = field(default_factory=Grades)
    judge_prompt: str | None = None
    judge_chars: int = 20_000
    weights: CreditWeights = field(default_factory=CreditWeights)
    prior: float = 0.0
    prior_attempts: float = 4.0
    evict_after: int = 5
    audit_after: int = 3
    rarely: float = 0.2
    far_apart: float = 0.8

    def __post_init__(self) -> None:
        _check("prior", self.prior, -1.0, 1.0)
        _check("rarely", self.rarely, 0.0, 1.0)
        _check("far_apart", self.far_apart, 0.0, 2.0)
        if not self.prior_attempts >= 0.0:
            raise ConfigError(f"prior_attempts is {self.prior_attempts}: give 0 or more.")
        for name in ("judge_chars", "evict_after", "audit_after"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: give at least 1.")


# ---------------------------------------------------------------- a store

KeepTurns = Literal["full", "hash", "off"]
ConfidencePolicy = Literal["beta", "ema"]
OnOverride = Literal["flag", "ask_again", "enforce"]
ContentMode = Literal["none", "hash", "truncate", "full"]


def _four_characters_a_token(text: str) -> int:
    return -(-len(text) // 4)


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """How a store behaves. Every field has a default that is safe in production.

    Write:
        keep_turns: ``full`` keeps what was said, ``hash`` only that it was said,
            ``off`` nothing (then "never proposed" can't be told from "never said").
        trusted_roles: Whose words may become memories.
        extraction_prompt: The instructions of the extractor; None for the built-in ones.
        timezone: IANA name in which relative dates are read, "yesterday".
        min_confidence: Proposals below it are rejected.
        max_content_chars: Longer proposals are rejected.
        near_duplicate: Cosine from which a proposal is compared, word for word, with a record
            of the same scope: it may say the same in other words, or the opposite.
        screen: Called with a proposal's content; returns why it must not be stored
            (secret, personal data), or None.

    Beliefs:
        confidence_policy: How confidence follows from evidence. ``beta`` is a posterior
            over all of it, whatever its order. ``ema`` is the moving average that it
            replaces: kept to reproduce old numbers. A record takes on another policy with
            its next piece of evidence.
        seed_strength: How many observations of full weight and salience the confidence a
            record is written with is worth.
        specialisations_to_lower: From how many distinct narrower scopes a belief must be
            contradicted before that counts against the belief itself.
        observation_half_life_days: Age at which an observation counts half when
            observations are ranked.

    Retrieval:
        policy: Default ranking policy.
        structural_keys: Keys of a scope that link a record to the thing a request is about,
            for policies that give a bonus for it.
        k_standing: How many standing preferences and instructions are shown beside k.
        token_budget: Most tokens of memories shown; None for no limit.
        count_tokens: Length of a text in tokens (default: four characters each).
        floor: Least cosine of a memory that is shown by rank, under policies that have a
            floor; half of it for one whose scope names what the request is about. The
            default is for all-MiniLM-L6-v2.
        lexical_floor: Share of the query's words from which the cosine does not matter.
        exact_limit: Workspaces up to this many records are searched exactly.
        cache_bytes: Most memory for what search holds of workspaces, their vectors included.

    Use:
        decide_retries: How often an unusable reply is asked for again.
        structured_output: Arguments for the model's ``with_structured_output``
            (``{"method": "function_calling"}``); empty leaves the choice to it.
        max_reasoning_chars: ``maxLength`` of the reasoning fields; None for none.
        cite_by_enum: Whether the schema offers only the shown ids as citations.
        on_override: What is done about an answer that names another value than an
            applicable claim that is pinned or confident. ``flag`` flags it. ``ask_again``
            shows the claim and asks once more; an answer that still differs is flagged.
            ``enforce`` puts the claimed value into the answer, and flags that too.
        override_confidence: Confidence from which a claim need not be pinned for that.
        counterfactual_runs: How often a decision is run with, and how often without, a
            record that is left out to see whether the answer changes.

    Learn:
        learn: What an outcome is worth, who gets the credit, and who is evicted.

    Trace:
        content_on_spans: ``none``, ``hash`` (keyed), ``truncate`` or ``full``.
        truncate_chars: For ``truncate``.
        hash_key: Key of the hash; None takes the one kept in the ledger.
    """

    keep_turns: KeepTurns = "full"
    trusted_roles: tuple[str, ...] = ("user",)
    extraction_prompt: str | None = None
    timezone: str = "UTC"
    min_confidence: float = 0.5
    max_content_chars: int = 8_000
    near_duplicate: float = 0.8
    screen: Callable[[str], str | None] | None = None

    confidence_policy: ConfidencePolicy = "beta"
    seed_strength: float = 4.0
    specialisations_to_lower: int = 3
    observation_half_life_days: float = 30.0

    policy: str = "balanced"
    structural_keys: tuple[str, ...] = ("property", "owner")
    k_standing: int = 5
    standing_kinds: frozenset[str] = STANDING_KINDS
    token_budget: int | None = 2_000
    count_tokens: Callable[[str], int] = _four_characters_a_token
    floor: float = 0.2
    lexical_floor: float = 0.5
    exact_limit: int = 20_000
    cache_bytes: int = 512 * 1024 * 1024

    decide_retries: int = 1
    structured_output: Mapping[str, Any] = field(default_factory=dict[str, Any])
    max_reasoning_chars: int | None = None
    cite_by_enum: bool = False
    on_override: OnOverride = "flag"
    override_confidence: float = 0.8
    counterfactual_runs: int = 8

    learn: LearnConfig = field(default_factory=LearnConfig)

    content_on_spans: ContentMode = "hash"
    truncate_chars: int = 80
    hash_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        bounded = ("min_confidence", "near_duplicate", "floor", "lexical_floor")
        for name in (*bounded, "override_confidence"):
            value = getattr(self, name)
            if not -1.0 <= value <= 1.0:
                raise ConfigError(f"{name} is {value}: give a number between 0 and 1.")
        counted = ("max_content_chars", "exact_limit", "cache_bytes", "truncate_chars")
        for name in (*counted, "specialisations_to_lower", "counterfactual_runs"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: give at least 1.")
        for name in ("seed_strength", "observation_half_life_days"):
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}: give a number above 0.")
        if self.decide_retries < 0 or self.k_standing < 0:
            raise ConfigError("decide_retries and k_standing can't be negative.")
        for name, offered in (
            ("on_override", get_args(OnOverride)),
            ("confidence_policy", get_args(ConfidencePolicy)),
            ("content_on_spans", get_args(ContentMode)),
            ("keep_turns", get_args(KeepTurns)),
        ):
            if getattr(self, name) not in offered:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}: use one of {', '.join(offered)}."
                )

    @classmethod
    def from_env(cls, **fields: Any) -> Self:
        """Reads the environment; a field given here wins over it.

        ``MEMPLUGIN_CONTENT_ON_SPANS``, ``MEMPLUGIN_HASH_KEY``, ``MEMPLUGIN_KEEP_TURNS``,
        ``MEMPLUGIN_TIMEZONE``, and OpenTelemetry's own
        ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` for ``full``: ``true``, or in
        its newer form ``span_only`` or ``span_and_event``.

        Raises:
            ConfigError: a variable has a value that is not offered.
        """
        return replace(cls(**_from_environment()), **fields)


def _from_environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    captured = os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "")
    if captured.strip().lower() in ("true", "span_only", "span_and_event"):
        found["content_on_spans"] = "full"
    for variable, name, offered in (
        ("MEMPLUGIN_CONTENT_ON_SPANS", "content_on_spans", ("none", "hash", "truncate", "full")),
        ("MEMPLUGIN_KEEP_TURNS", "keep_turns", ("full", "hash", "off")),
        ("MEMPLUGIN_TIMEZONE", "timezone", None),
    ):
        value = os.environ.get(variable)
        if value and offered and value not in offered:
            raise ConfigError(f"{variable} is {value!r}: use one of {', '.join(offered)}.")
        if value:
            found[name] = value
    if key := os.environ.get("MEMPLUGIN_HASH_KEY"):
        found["hash_key"] = key.encode()
    return found
