"""Recall through ``Memory``: what is found, what is shown, and what is said about the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplugin import Memory, MemoryConfig, MemoryContext, Retrieval
from memplugin.errors import ConfigError, ContextError, RecordNotFound
from memplugin.testing import InMemoryIndex, memory_for_tests

CONTEXT = MemoryContext("ws", "s_1", task_id="t_1")
ALIKE = ("acme", "acme-corp", "ACME", "john_doe", "john-doe", "%", "_", "a'b")


def contents(retrieval: Retrieval) -> list[str]:
    return [c.content for c in retrieval.injected]


def test_a_standing_preference_is_shown_beside_k_whatever_its_rank(memory: Memory) -> None:
    memory.write("answers in French", context=CONTEXT, kind="instruction")
    memory.write_many([f"revenue by region {n}" for n in range(5)], context=CONTEXT)
    found = memory.recall("revenue by region", context=CONTEXT, k=2)
    assert found.shown == 3
    assert contents(found)[-1] == "answers in French"
    standing = next(c for c in found.candidates if "standing" in c.sources)
    assert (standing.rank, standing.cut) == (6, None)


def test_similarity_has_no_standing_source(memory: Memory) -> None:
    memory.write("answers in French", context=CONTEXT, kind="instruction")
    memory.write_many([f"revenue by region {n}" for n in range(5)], context=CONTEXT)
    found = memory.recall("revenue by region", context=CONTEXT, k=2, policy="similarity")
    assert found.shown == 2
    assert {source for c in found.candidates for source in c.sources} == {"dense"}


def test_standing_records_beyond_their_budget_compete_by_rank() -> None:
    with memory_for_tests(config=MemoryConfig(floor=-1.0, k_standing=1)) as memory:
        memory.write("answers in French", context=CONTEXT, kind="instruction")
        memory.write("revenue is net of tax", context=CONTEXT, kind="preference", pinned=True)
        memory.write("revenue by region", context=CONTEXT)
        found = memory.recall("revenue by region", context=CONTEXT, k=1)
    assert contents(found) == ["revenue by region", "revenue is net of tax"]
    assert found.candidates[-1].cut == "below_cutoff"


def test_the_most_specific_standing_record_comes_first() -> None:
    scope = {"client": "acme", "trade": "pest"}
    context = MemoryContext("ws", "s_1", scope=scope)
    with memory_for_tests(config=MemoryConfig(floor=-1.0, k_standing=1)) as memory:
        memory.write("anywhere", context=context, kind="preference", pinned=True)
        memory.write("for acme pest", context=context, kind="preference", scope=scope)
        memory.write("for acme", context=context, kind="preference", scope={"client": "acme"})
        memory.write("unlike", context=context)
        found = memory.recall("unlike", context=context, k=1)
    assert set(contents(found)) == {"for acme pest", "unlike"}


def test_what_is_unlike_the_query_is_cut_by_the_floor_and_nothing_is_a_result() -> None:
    with memory_for_tests(config=MemoryConfig(floor=0.9)) as memory:
        memory.write("the office opens at nine", context=CONTEXT)
        found = memory.recall("zebra", context=CONTEXT)
    assert (found.shown, found.total) == (0, 1)
    assert [c.cut for c in found.candidates] == ["floor"]


def test_the_token_budget_cuts_what_does_not_fit_and_goes_on_with_what_does() -> None:
    # Four characters a token: 40 characters are 10 tokens, 8 are 2.
    with memory_for_tests(config=MemoryConfig(floor=-1.0, token_budget=12)) as memory:
        memory.write("tea " * 10, context=CONTEXT)
        memory.write("tea with milk and sugar and so on and on", context=CONTEXT)
        memory.write("cold tea", context=CONTEXT)
        found = memory.recall("tea", context=CONTEXT)
    cuts = {c.content.strip()[:8]: c.cut for c in found.candidates}
    assert list(cuts.values()).count("budget") == 1
    assert cuts["cold tea"] is None


def test_a_record_outside_the_scope_is_a_candidate_after_all_others_and_not_shown(
    memory: Memory,
) -> None:
    memory.write("revenue for acme", context=CONTEXT, scope={"client": "acme"})
    memory.write("something else", context=CONTEXT)
    asked = MemoryContext("ws", "s_1", scope={"client": "globex"})
    found = memory.recall("revenue for acme", context=asked)
    last = found.candidates[-1]
    assert (last.content, last.cut, last.injected) == (
        "revenue for acme",
        "inapplicable_scope",
        False,
    )
    assert found.total == 1


def test_a_blank_query_shows_what_stands_and_nothing_else(memory: Memory) -> None:
    memory.write("answers in French", context=CONTEXT, kind="instruction")
    memory.write("revenue by region", context=CONTEXT)
    assert contents(memory.recall(" \x00", context=CONTEXT)) == ["answers in French"]


def test_a_hit_that_the_ledger_no_longer_counts_is_dropped(memory: Memory) -> None:
    kept = memory.write("prefers tea", context=CONTEXT)
    gone = memory.write("prefers green tea", context=CONTEXT)
    index = memory.backend.index
    assert isinstance(index, InMemoryIndex)
    vectors = index.fetch("ws", [gone.record_id or ""])
    memory.forget(gone.record_id or "", context=CONTEXT, reason="asked to")
    for key, vector in vectors.items():
        index.upsert("ws", [key], vector[None])  # as a restored backup of the index would
    found = memory.recall("prefers green tea", context=CONTEXT)
    assert [c.record_id for c in found.candidates] == [kept.record_id]


def test_what_a_retrieval_was_can_be_read_again(memory: Memory) -> None:
    memory.write_many(["revenue by region", "prefers tea"], context=CONTEXT)
    found = memory.recall("revenue", context=CONTEXT)
    assert memory.backend.ledger.retrievals.get("ws", found.id) == found
    assert Retrieval.from_json(found.to_json()) == found


def test_every_part_of_a_score_is_kept_and_adds_up(memory: Memory) -> None:
    weights = {"lexical": 3, "dense": 1, "around": 1, "topic": 1, "structural": 0.2}
    weights |= {"confidence": 0.3, "recency": 0.1, "credit": 0.5}
    memory.write("revenue by region", context=CONTEXT, around="board pack")
    (candidate,) = memory.recall("revenue pack", context=CONTEXT).candidates
    assert set(candidate.parts) == set(weights)
    assert candidate.score == pytest.approx(
        sum(weights[name] * part for name, part in candidate.parts.items())
    )


def test_text_around_a_record_finds_it_and_is_never_shown(memory: Memory) -> None:
    memory.write("yes, on Friday", context=CONTEXT, around="shall we ship the zebra release?")
    found = memory.recall("zebra release", context=CONTEXT)
    assert contents(found) == ["yes, on Friday"]
    assert "zebra" not in found.text


# ---------------------------------------------------------------- explain


def test_explain_gives_the_exact_rank_beyond_the_depth(memory: Memory) -> None:
    last = memory.write("zebra", context=CONTEXT)
    memory.write_many([f"revenue by region {n}" for n in range(40)], context=CONTEXT)
    found = memory.recall("revenue by region", context=CONTEXT, k=3, policy="similarity")
    assert last.record_id not in {c.record_id for c in found.candidates}
    explained = memory.explain(last.record_id or "", found)
    assert (explained.rank, explained.of, explained.excluded_by) == (41, 41, None)


def test_explain_agrees_with_the_ranks_that_were_given(memory: Memory) -> None:
    memory.write_many([f"revenue by region {n}" for n in range(10)], context=CONTEXT)
    found = memory.recall("revenue 7", context=CONTEXT)
    for candidate in found.candidates:
        assert memory.explain(candidate.record_id, found).rank == candidate.rank


def test_explain_names_the_filter(memory: Memory) -> None:
    written = memory.write("prefers tea", context=CONTEXT, kind="preference")
    scoped = memory.write("prefers milk", context=CONTEXT, scope={"place": "office"})
    found = memory.recall("tea", context=CONTEXT, kinds=["fact"])
    assert memory.explain(written.record_id or "", found).excluded_by == "kinds"
    assert memory.explain(scoped.record_id or "", found).excluded_by == "scope"
    later = memory.write("prefers water", context=CONTEXT)
    assert memory.explain(later.record_id or "", found).excluded_by == "not_written_yet"
    with pytest.raises(RecordNotFound, match="m_none"):
        memory.explain("m_none", found)


# ---------------------------------------------------------------- isolation, bad input


@settings(max_examples=25, deadline=None)
@given(
    written=st.lists(st.sampled_from(ALIKE), min_size=1, max_size=5, unique=True),
    asked=st.sampled_from(ALIKE),
)
def test_workspaces_with_similar_names_never_see_each_other(written: list[str], asked: str) -> None:
    with memory_for_tests() as memory:
        for workspace in written:
            context = MemoryContext(workspace, "s_1", task_id="t_1")
            memory.write(f"secret of {workspace}", context=context, kind="preference")
        context = MemoryContext(asked, "s_1", task_id="t_1")
        expected = [f"secret of {asked}"] if asked in written else []
        assert contents(memory.recall("secret of", context=context)) == expected
        found = memory.find("secret", context=context)
        assert [w.content for w in found.writes] == expected
        record = memory.backend.ledger.history.task_rows(asked, "t_1")
        assert [p.content for p in record.proposals] == expected


@settings(max_examples=25, deadline=None)
@given(writer=st.sampled_from(ALIKE), reader=st.sampled_from(ALIKE))
def test_users_with_similar_names_never_see_each_other(writer: str, reader: str) -> None:
    with memory_for_tests() as memory:
        mine = MemoryContext("ws", "s_1", user_id=writer)
        memory.write("the secret", context=mine, kind="preference")
        found = memory.recall("secret", context=MemoryContext("ws", "s_2", user_id=reader))
        assert bool(found.candidates) == (writer == reader)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"query": None}, "query"),
        ({"query": "x", "k": 0}, "k is 0"),
        ({"query": "x", "kinds": []}, "kinds is empty"),
        ({"query": "x", "policy": "best"}, "balanced, .*similarity"),
    ],
)
def test_bad_arguments_are_named(memory: Memory, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        memory.recall(**arguments, context=CONTEXT)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"workspace_id": "", "session_id": "s"}, "workspace_id"),
        ({"workspace_id": "w", "session_id": None}, "session_id"),
        ({"workspace_id": "w", "session_id": "s", "scope": {"a": 1}}, "scope"),
        ({"workspace_id": "w", "session_id": "s", "attempt": 0}, "attempt"),
        (
            {"workspace_id": "w", "session_id": "s", "user_id": "a", "scope": {"user": "b"}},
            "user",
        ),
    ],
)
def test_a_context_that_cannot_work_is_refused(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ContextError, match=named):
        MemoryContext(**fields)


@settings(max_examples=50, deadline=None)
@given(query=st.text(max_size=40))
def test_no_query_is_syntax(query: str) -> None:
    with memory_for_tests() as memory:
        memory.write("revenue by region", context=CONTEXT)
        for text in (query, f'"{query}', f"{query} AND NEAR(", f"content:{query}* -x ^y"):
            assert memory.recall(text, context=CONTEXT).degraded == ()
