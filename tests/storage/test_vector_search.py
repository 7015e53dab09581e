"""Search by vector over a real ledger: exact, incremental, true to what the ledger says."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Event

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memplugin.config import MemoryContext
from memplugin.errors import StoreError
from memplugin.ports import AROUND, Batch, VectorIndex
from memplugin.records import Proposal, Ruling, Selection
from memplugin.storage.sql.ledger import SqlLedger
from memplugin.storage.vector.chroma import ChromaIndex
from memplugin.storage.vector.scoring import DenseHit
from memplugin.storage.vector.search import WorkspaceSearch
from memplugin.testing import InMemoryIndex
from memplugin.text import canonical_json

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DIMENSION = 16
AXES = np.eye(DIMENSION, dtype=np.float32)
ANYWHERE = canonical_json({})


class World:
    """A ledger and an index that are written as a store writes them."""

    def __init__(self, index: VectorIndex, workspace: str = "ws", dimension: int = DIMENSION):
        self.ledger = SqlLedger.open("sqlite://")
        self.index = index
        self.workspace = workspace
        self.random = np.random.default_rng(0)
        self.dimension = dimension
        self.vectors: dict[str, np.ndarray] = {}
        self._number = 0

    def search(self, exact_limit: int = 20_000, cache_bytes: int = 10**9) -> WorkspaceSearch:
        return WorkspaceSearch(
            self.ledger, self.index, exact_limit=exact_limit, cache_bytes=cache_bytes
        )

    def unit(self, n: int) -> np.ndarray:
        rows = self.random.standard_normal((n, self.dimension)).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def add(
        self,
        vectors: np.ndarray,
        *,
        kind: str = "fact",
        scope: Mapping[str, str] | None = None,
        around: np.ndarray | None = None,
        workspace: str | None = None,
        indexed: bool = True,
        claim: Mapping[str, str] | None = None,
    ) -> list[str]:
        workspace = workspace or self.workspace
        proposals = [
            Proposal(
                id=f"p_{self._number + i}",
                operation="remember",
                content=f"memory {self._number + i}",
                kind=kind,
                scope=scope or {},
                claim=claim,
                confidence=0.9,
                occurred_at=NOW,
                around="what was said before" if around is not None else None,
            )
            for i in range(len(vectors))
        ]
        self._number += len(vectors)
        batch = Batch(MemoryContext(workspace, "s_1"), proposals, NOW)
        self.ledger.writes.settle(batch, lambda p, _: Ruling(p, "accepted", record_id=p.record_id))
        ids = [p.record_id for p in proposals]
        self.vectors.update(zip(ids, vectors, strict=True))
        if around is not None:
            self.vectors.update(zip([i + AROUND for i in ids], around, strict=True))
        if indexed:
            self.into_index(ids, workspace)
        return ids

    def into_index(self, ids: Sequence[str], workspace: str | None = None) -> None:
        workspace = workspace or self.workspace
        keys = [k for i in ids for k in (i, i + AROUND) if k in self.vectors]
        self.index.upsert(workspace, keys, np.stack([self.vectors[k] for k in keys]))
        self.ledger.records.mark_indexed(workspace, ids, NOW)

    def forget(self, ids: Sequence[str], *, from_index: bool = True) -> None:
        for record_id in ids:
            self.ledger.erasure.forget(self.workspace, record_id, "asked", NOW)
        if from_index:
            self.index.delete(self.workspace, [k for i in ids for k in (i, i + AROUND)])
            self.ledger.records.mark_unindexed(self.workspace, ids)

    def nearest(self, ids: Sequence[str], query: np.ndarray, n: int) -> list[str]:
        """By brute force, contents alone."""
        return sorted(ids, key=lambda i: -float(self.vectors[i] @ query))[:n]


def select(*scopes: str, workspace: str = "ws", kinds: Sequence[str] | None = None) -> Selection:
    return Selection(workspace, frozenset({ANYWHERE, *scopes}), frozenset(kinds) if kinds else None)


def ids_of(hits: Sequence[DenseHit]) -> list[str]:
    return [hit.record_id for hit in hits]


@pytest.fixture
def world() -> Iterator[World]:
    made = World(InMemoryIndex())
    yield made
    made.ledger.close()


@pytest.fixture
def chroma(tmp_path) -> Iterator[World]:
    made = World(ChromaIndex.open(tmp_path, dimension=32, store_id="st"), dimension=32)
    yield made
    made.index.close()
    made.ledger.close()


# ---------------------------------------------------------------- exact


def test_hits_are_the_nearest_by_brute_force_best_first(world):
    ids = world.add(world.unit(300))
    for query in world.unit(5):
        found = world.search().search(select(), query, depth=10)
        assert ids_of(found.hits) == world.nearest(ids, query, 10)
        assert found.total == 300
        assert found.hits[0].content == pytest.approx(
            float(world.vectors[found.hits[0].record_id] @ query), abs=1e-6
        )


def test_hits_are_ordered_by_content_and_half_of_what_is_around(world):
    # Scores for the query e0: 0.6 + 0.5·0, 0.8 + 0.5·0 (none), 0.5·1.0.
    leaning = np.zeros((2, DIMENSION), np.float32)
    leaning[0, :2] = 0.6, 0.8
    leaning[1, :2] = 0.8, 0.6
    (first,) = world.add(leaning[:1], around=AXES[2:3])
    (second,) = world.add(leaning[1:])
    (third,) = world.add(AXES[3:4], around=AXES[:1])
    found = world.search().search(select(), AXES[0], depth=3, around_weight=0.5)
    assert ids_of(found.hits) == [second, first, third]
    assert [hit.around for hit in found.hits] == [None, 0.0, 1.0]
    heavier = world.search().search(select(), AXES[0], depth=3, around_weight=1.0)
    assert ids_of(heavier.hits) == [third, second, first]


def test_mean_and_deviation_are_over_all_selected_records(world):
    # Cosines with e0: contents 1, 0, 0, 0; around 1 and 0, where there is one.
    world.add(AXES[:2], around=AXES[[0, 5]])
    world.add(AXES[2:4])
    found = world.search().search(select(), AXES[0], depth=1)
    assert found.content_mean == pytest.approx(0.25)
    assert found.content_std == pytest.approx(0.4330127)
    assert found.around_mean == pytest.approx(0.5)
    assert found.around_std == pytest.approx(0.5)


def test_an_empty_workspace_has_no_hits(world):
    found = world.search().search(select(), AXES[0], depth=5, also=["m_1"], spare=5)
    assert (list(found.hits), found.total, list(found.inapplicable)) == ([], 0, [])
    assert (found.content_mean, found.content_std) == (0.0, 0.0)


def test_only_the_kinds_asked_for_are_found(world):
    world.add(AXES[:1], kind="fact")
    (tip,) = world.add(AXES[1:2], kind="tip")
    found = world.search().search(select(kinds=["tip", "unheard of"]), AXES[0], depth=5)
    assert ids_of(found.hits) == [tip]
    assert found.total == 1


def test_records_asked_for_by_id_follow_the_best_when_the_selection_admits_them(world):
    best, second, third = world.add(AXES[:3])
    (elsewhere,) = world.add(AXES[3:4], scope={"trade": "pest"})
    found = world.search().search(
        select(), AXES[0], depth=1, also=[third, best, elsewhere, "m_unknown", third]
    )
    assert ids_of(found.hits) == [best, third]
    assert second not in ids_of(found.hits)


# One ledger serves every example, each in a workspace of its own: opening one is slow.
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_search_that_kept_up_finds_what_a_new_one_finds(world, data):
    world.workspace = f"ws of example {len(world.vectors)}"
    kept = world.search(cache_bytes=data.draw(st.sampled_from([1, 10**9])))
    live: list[str] = []
    scopes = [{}, {"trade": "pest"}, {"user": "ann"}]
    for _ in range(data.draw(st.integers(1, 6))):
        scope = data.draw(st.sampled_from(scopes))
        count = data.draw(st.integers(1, 40))
        live += world.add(world.unit(count), scope=scope, indexed=data.draw(st.booleans()))
        gone = data.draw(st.lists(st.sampled_from(live), unique=True, max_size=30))
        how = data.draw(st.sampled_from(["forgotten", "evicted", "indexed"]))
        if how == "forgotten":
            world.forget(gone)
        elif how == "evicted":
            for record_id in gone:
                world.ledger.records.set_status(world.workspace, record_id, "evicted", NOW)
        elif gone:
            world.into_index(gone)
        live = [i for i in live if i not in gone] if how != "indexed" else live
        (query,) = world.unit(1)
        chosen = select(canonical_json({"trade": "pest"}), workspace=world.workspace)
        results = [
            search.search(chosen, query, depth=10, also=live[:3], spare=5, user="ann")
            for search in (kept, world.search())
        ]
        assert ids_of(results[0].hits) == ids_of(results[1].hits)
        assert ids_of(results[0].inapplicable) == ids_of(results[1].inapplicable)
        assert results[0].total == results[1].total == world.ledger.search.count(chosen)
        assert results[0].content_std == pytest.approx(results[1].content_std, abs=1e-6)


# ---------------------------------------------------------------- the ledger is the truth


def test_a_new_record_is_found_by_the_next_search(world):
    search = world.search()
    world.add(AXES[:1])
    search.search(select(), AXES[1], depth=5)
    (new,) = world.add(AXES[1:2])
    assert search.search(select(), AXES[1], depth=1).hits[0] == DenseHit(new, 1.0, None)


def test_a_record_is_found_as_soon_as_the_index_has_it_and_counted_before(world):
    search = world.search()
    (record,) = world.add(AXES[:1], indexed=False)
    waiting = search.search(select(), AXES[0], depth=5)
    assert (list(waiting.hits), waiting.total) == ([], 1)
    world.into_index([record])
    assert ids_of(search.search(select(), AXES[0], depth=5).hits) == [record]


@pytest.mark.parametrize("exact_limit", [100, 1], ids=["exact", "approximate"])
def test_what_the_ledger_no_longer_counts_is_never_found_whatever_the_index_holds(
    world, exact_limit
):
    kept, forgotten, evicted = world.add(AXES[:3])
    others = world.add(AXES[3:6])
    search = world.search(exact_limit)
    search.promote("ws")
    search.search(select(), AXES[0], depth=3)
    world.forget([forgotten], from_index=False)
    world.ledger.records.set_status("ws", evicted, "evicted", NOW)
    for again in (search, world.search(exact_limit)):
        found = again.search(select(), AXES[1], depth=6, also=[forgotten, evicted], spare=6)
        assert set(ids_of(found.hits)) == {kept, *others}
        assert found.total == 4
        assert not found.inapplicable


def test_hits_that_no_longer_count_are_counted_as_stale(world):
    gone, *_ = world.add(world.unit(40))
    search = world.search(exact_limit=1)
    search.promote("ws")
    world.forget([gone], from_index=False)
    found = search.search(select(), world.vectors[gone], depth=5)
    assert found.stale == 1
    assert gone not in ids_of(found.hits)


def test_a_superseded_record_is_never_found(world):
    (old,) = world.add(AXES[:1], claim={"drink": "tea"})
    search = world.search()
    search.search(select(), AXES[0], depth=5)
    proposal = Proposal("p_new", "remember", "newer", "fact", {}, {"drink": "milk"}, 0.9, NOW)
    world.ledger.writes.settle(
        Batch(MemoryContext("ws", "s_1"), [proposal], NOW),
        lambda p, _: Ruling(p, "superseded", record_id=p.record_id, replaced_id=old),
    )
    world.vectors["m_new"] = AXES[1]
    world.into_index(["m_new"])
    assert ids_of(search.search(select(), AXES[0], depth=5, also=[old]).hits) == ["m_new"]


def test_a_revived_record_is_found_again(world):
    (record,) = world.add(AXES[:1])
    search = world.search()
    world.ledger.records.set_status("ws", record, "evicted", NOW)
    assert not search.search(select(), AXES[0], depth=5).hits
    world.ledger.records.set_status("ws", record, "active", NOW)
    assert ids_of(search.search(select(), AXES[0], depth=5).hits) == [record]


def test_another_workspaces_records_are_never_found(world):
    world.add(AXES[:2], workspace="ws-other")
    (own,) = world.add(AXES[2:3])
    found = world.search().search(select(), AXES[0], depth=5, also=["m_0"], spare=5)
    assert ids_of(found.hits) == [own]
    assert not found.inapplicable
    assert world.search().similar("ws", AXES[:1], 5, 0.5) == [[]]


# ---------------------------------------------------------------- scope


def test_records_of_other_scopes_are_shown_apart_best_first(world):
    (here,) = world.add(AXES[:1])
    far, near = world.add(AXES[[2, 1]], scope={"trade": "pest"})
    world.add(AXES[1:2], scope={"trade": "pest"}, kind="tip")
    found = world.search().search(select(kinds=["fact"]), AXES[1], depth=5, spare=5)
    assert ids_of(found.hits) == [here]
    assert ids_of(found.inapplicable) == [near, far]
    applies = select(canonical_json({"trade": "pest"}), kinds=["fact"])
    assert world.search().search(applies, AXES[1], depth=5, spare=5).inapplicable == []


@pytest.mark.parametrize("exact_limit", [100, 1], ids=["exact", "approximate"])
@pytest.mark.parametrize(("user", "seen"), [("ann", ["ann"]), ("bob", ["bob"]), (None, [])])
def test_another_users_records_are_never_among_the_inapplicable(world, exact_limit, user, seen):
    of = {
        name: world.add(world.unit(3), scope={"user": name, "trade": "pest"})
        for name in ("ann", "bob", "bobby")
    }
    world.add(world.unit(3))
    search = world.search(exact_limit)
    search.promote("ws")
    found = search.search(select(), AXES[0], depth=3, spare=20, user=user)
    assert sorted(ids_of(found.inapplicable)) == sorted(i for name in seen for i in of[name])


# ---------------------------------------------------------------- what is missing, what is let go


def test_vectors_that_the_index_lost_are_counted_as_not_indexed_and_said_once(world, caplog):
    world.add(AXES[:3])
    world.index.clear()
    (there,) = world.add(AXES[3:4])
    search = world.search()
    with caplog.at_level(logging.WARNING, "memplugin"):
        for _ in range(3):
            found = search.search(select(), AXES[0], depth=5, also=["m_0"])
            assert (ids_of(found.hits), found.total) == ([there], 4)
    assert [r.getMessage() for r in caplog.records] == [
        "the vectors of 3 records of a workspace are missing in the index, so only "
        "full-text search finds them: run `memplugin reindex`."
    ]


def test_a_reindexed_store_is_found_again_without_opening_it_anew(world):
    ids = world.add(AXES[:3])
    world.index.clear()
    search = world.search()
    assert not search.search(select(), AXES[0], depth=5).hits
    world.ledger.records.unindex_all()
    world.into_index(ids)
    assert set(ids_of(search.search(select(), AXES[0], depth=5).hits)) == set(ids)


def test_workspaces_that_do_not_fit_in_memory_are_searched_all_the_same(world):
    for number in range(5):
        world.add(world.unit(20), workspace=f"ws{number}")
    vectors = 20 * DIMENSION * 4
    for limit in (1, vectors, 3 * (vectors + 20 * 200), 10**9):
        search = world.search(cache_bytes=limit)
        for _ in range(2):
            for number in range(5):
                (query,) = world.unit(1)
                found = search.search(select(workspace=f"ws{number}"), query, depth=5)
                ids = [f"m_{i}" for i in range(20 * number, 20 * number + 20)]
                assert ids_of(found.hits) == world.nearest(ids, query, 5)


def test_vectors_are_read_once_as_long_as_they_fit(world, monkeypatch):
    world.add(AXES[:3])
    fetched: list[str] = []
    fetch = world.index.fetch
    monkeypatch.setattr(
        world.index, "fetch", lambda ws, keys: fetched.extend(keys) or fetch(ws, keys)
    )
    search = world.search()
    for _ in range(3):
        search.search(select(), AXES[0], depth=5)
    world.add(AXES[3:4])
    search.search(select(), AXES[0], depth=5)
    assert fetched == ["m_0", "m_1", "m_2", "m_3"]


def test_an_index_that_is_down_is_our_own_error_and_the_next_search_works(world, monkeypatch):
    (record,) = world.add(AXES[:1])
    search = world.search()

    def down(*_: object) -> None:
        raise StoreError("down: start it.")

    with monkeypatch.context() as broken:
        broken.setattr(world.index, "fetch", down)
        with pytest.raises(StoreError):
            search.search(select(), AXES[0], depth=5)
    assert ids_of(search.search(select(), AXES[0], depth=5).hits) == [record]


def test_searches_and_writes_at_once_give_only_whole_answers(world):
    first = world.add(AXES[:4])
    search = world.search()
    stop = Event()

    def look() -> int:
        looks = 0
        while not stop.is_set() or not looks:
            found = search.search(select(), AXES[0], depth=500)
            assert first[0] in ids_of(found.hits)
            assert len(set(ids_of(found.hits))) == len(found.hits) <= found.total
            for hit in found.hits:
                expected = float(world.vectors[hit.record_id] @ AXES[0])
                assert hit.content == pytest.approx(expected, abs=1e-5)
            looks += 1
        return looks

    with ThreadPoolExecutor(3) as pool:
        looking = [pool.submit(look) for _ in range(3)]
        try:
            for _ in range(6):
                new = world.add(world.unit(40))
                world.forget(new[:20])
            world.forget(new)
        finally:
            stop.set()
        assert all(each.result() for each in looking)


# ---------------------------------------------------------------- near duplicates


def test_similar_names_the_best_from_a_floor_over_all_kinds_and_scopes(world):
    near = np.zeros((1, DIMENSION), np.float32)
    near[0, :2] = 0.96, 0.28
    (same,) = world.add(AXES[:1], kind="tip", scope={"user": "ann"})
    (alike,) = world.add(near)
    world.add(AXES[1:2])
    first, second = world.search().similar("ws", AXES[[0, 5]], 5, 0.95)
    assert [i for i, _ in first] == [same, alike]
    assert [cosine for _, cosine in first] == pytest.approx([1.0, 0.96], abs=1e-6)
    assert second == []
    assert [i for i, _ in world.search().similar("ws", AXES[:1], 1, 0.95)[0]] == [same]
    assert world.search().similar("ws", AXES[:0], 5, 0.95) == []


def test_similar_keeps_up_with_a_bulk_write(world):
    search = world.search()
    written: list[str] = []
    for _ in range(4):
        vectors = world.unit(300)
        assert not any(search.similar("ws", vectors, 3, 0.999))
        written += world.add(vectors)
        found = search.similar("ws", vectors, 3, 0.999)
        assert [[i for i, _ in each] for each in found] == [[i] for i in written[-300:]]


# ---------------------------------------------------------------- approximate


def clustered(world: World, n: int) -> np.ndarray:
    centres = np.random.default_rng(1).standard_normal((60, world.dimension))
    rows = centres[world.random.integers(0, 60, n)]
    rows = (rows + 0.6 * world.random.standard_normal(rows.shape)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_a_large_workspace_is_found_as_well_as_exactly_after_churn(chroma):
    live = chroma.add(clustered(chroma, 2_500))
    search, exact = chroma.search(exact_limit=1_000), chroma.search()
    search.promote("ws")
    for _ in range(2):
        chroma.index.delete("ws", live[:400])
        for record_id in live[:400]:
            chroma.ledger.records.set_status("ws", record_id, "evicted", NOW)
        live = live[400:] + chroma.add(clustered(chroma, 650))
        replaced = live[:300]
        chroma.vectors.update(zip(replaced, clustered(chroma, 300), strict=True))
        chroma.into_index(replaced)
    recalled = []
    for query in clustered(chroma, 60):
        truth = set(ids_of(exact.search(select(), query, depth=20).hits))
        found = search.search(select(), query, depth=20)
        recalled.append(len(truth & set(ids_of(found.hits))) / 20)
        assert found.total == len(live) == 3_000
    assert np.mean(recalled) >= 0.99


def test_an_approximate_search_widens_until_enough_records_are_admitted(chroma):
    near = np.zeros((1, 32), np.float32)
    near[0, 0] = 1.0
    chroma.add(np.repeat(near, 300, axis=0) + 0.01 * chroma.unit(300), kind="tip")
    facts = chroma.add(chroma.unit(60))
    search = chroma.search(exact_limit=50)
    search.promote("ws")
    found = search.search(select(kinds=["fact"]), near[0], depth=40)
    assert ids_of(found.hits) == chroma.nearest(facts, near[0], 40)
    assert found.total == 60


def test_both_cosines_are_known_when_the_index_named_a_record_by_one(chroma):
    contents, arounds = chroma.unit(400), chroma.unit(400)
    ids = chroma.add(contents, around=arounds)
    search = chroma.search(exact_limit=100)
    search.promote("ws")
    found = search.search(select(), contents[7], depth=5, also=[ids[9]])
    best, last = found.hits[0], found.hits[-1]
    assert (best.record_id, last.record_id) == (ids[7], ids[9])
    assert best.content == pytest.approx(1.0, abs=1e-5)
    assert best.around == pytest.approx(float(arounds[7] @ contents[7]), abs=1e-5)
    assert last.content == pytest.approx(float(contents[9] @ contents[7]), abs=1e-5)
    assert last.around == pytest.approx(float(arounds[9] @ contents[7]), abs=1e-5)


def test_a_narrow_selection_of_a_large_workspace_is_searched_exactly(chroma):
    chroma.add(chroma.unit(500))
    scope = {"user": "ann"}
    own = chroma.add(chroma.unit(30), scope=scope)
    search = chroma.search(exact_limit=100)
    search.promote("ws")
    (query,) = chroma.unit(1)
    narrow = Selection("ws", frozenset({canonical_json(scope)}))
    found = search.search(narrow, query, depth=10)
    assert ids_of(found.hits) == chroma.nearest(own, query, 10)


def test_a_search_as_deep_as_the_selection_ranks_every_record(chroma):
    ids = chroma.add(chroma.unit(500))
    search = chroma.search(exact_limit=100)
    search.promote("ws")
    (query,) = chroma.unit(1)
    found = search.search(select(), query, depth=500)
    assert ids_of(found.hits) == chroma.nearest(ids, query, 500)


def test_similar_finds_near_duplicates_in_a_large_workspace_too(chroma):
    vectors = chroma.unit(300)
    ids = chroma.add(vectors)
    search = chroma.search(exact_limit=100)
    search.promote("ws")
    found = search.similar("ws", vectors[:5], 3, 0.99)
    assert [[i for i, _ in each] for each in found] == [[i] for i in ids[:5]]


def test_a_workspace_that_has_grown_large_is_searched_exactly_until_its_index_is_there(
    world, monkeypatch
):
    ids = world.add(world.unit(30))
    begin, built = Event(), Event()
    promote = world.index.promote

    def slow(*arguments):
        begin.wait(10)
        promote(*arguments)
        built.set()

    monkeypatch.setattr(world.index, "promote", slow)
    search = world.search(exact_limit=10)
    (query,) = world.unit(1)
    for _ in range(2):
        found = search.search(select(), query, depth=5)
        assert ids_of(found.hits) == world.nearest(ids, query, 5)
    assert not world.index.promoted("ws")
    begin.set()
    assert built.wait(10)
    assert world.index.promoted("ws")


def test_a_build_that_fails_is_said_once_and_searches_stay_exact(world, monkeypatch, caplog):
    ids = world.add(world.unit(30))
    tried = Event()

    def failing(*_: object) -> None:
        tried.set()
        raise StoreError("the disk is full: make room.")

    monkeypatch.setattr(world.index, "promote", failing)
    search = world.search(exact_limit=10)
    (query,) = world.unit(1)
    with caplog.at_level(logging.WARNING, "memplugin"):
        for _ in range(3):
            found = search.search(select(), query, depth=5)
            assert ids_of(found.hits) == world.nearest(ids, query, 5)
        assert tried.wait(10)
    assert sum("make room" in r.getMessage() for r in caplog.records) <= 1
