"""Writing through ``Memory``: once, in full, and never lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from memplugin import Memory, MemoryConfig, MemoryContext
from memplugin.errors import ConfigError, StoreError
from memplugin.testing import FixedClock, HashingEmbedder, ScriptedChatModel, memory_for_tests

CONTEXT = MemoryContext("ws", "s_1", task_id="t_1")
SAID = [{"role": "user", "content": "Please report revenue net of tax from now on."}]


def proposed(content: str = "revenue is reported net of tax", **changed: Any) -> dict[str, Any]:
    return {
        "quote": "report revenue net of tax",
        "speech_act": "request",
        "content": content,
        "kind": "preference",
        "polarity": "positive",
        "scope": [],
        "claim": [],
        "confidence": 0.9,
        "occurred_at": None,
        "time_phrase": None,
        "turn_index": 0,
        **changed,
    }


def rewording() -> ScriptedChatModel:
    """A model that says the same in other words each time it is asked."""
    numbers = count(1)
    return ScriptedChatModel(
        lambda _: {"memories": [proposed(f"wording {next(numbers)}: revenue net of tax")]}
    )


def active(memory: Memory, workspace: str = "ws") -> int:
    return memory.backend.ledger.search.state(workspace).active


# ---------------------------------------------------------------- once


def test_the_same_write_twice_gives_the_same_receipt_and_one_record(memory: Memory) -> None:
    first = memory.write("prefers tea", context=CONTEXT)
    assert memory.write("prefers tea", context=CONTEXT) == first
    assert active(memory) == 1


def test_the_same_content_in_another_session_is_evidence_for_the_same_record(
    memory: Memory,
) -> None:
    first = memory.write("prefers tea", context=CONTEXT)
    again = memory.write("Prefers  tea", context=MemoryContext("ws", "s_2"))
    assert (again.ruling, again.record_id) == ("attached", first.record_id)
    assert memory.get(first.record_id or "", context=CONTEXT).evidence_count == 1


def test_a_conversation_is_extracted_once_whatever_the_model_says_the_second_time(
    memory: Memory,
) -> None:
    model = rewording()
    first = memory.remember(SAID, context=CONTEXT, model=model)
    again = memory.remember(SAID, context=CONTEXT, model=model)
    assert again == first
    assert len(model.calls) == 1
    assert active(memory) == 1


def test_only_new_turns_of_a_grown_conversation_are_extracted(memory: Memory) -> None:
    model = ScriptedChatModel([{"memories": [proposed()]}, {"memories": []}])
    memory.remember(SAID, context=CONTEXT, model=model)
    grown = [*SAID, {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Ok"}]
    memory.remember(grown, context=CONTEXT, model=model)
    asked = str(model.calls[1][-1].content)
    assert asked.count('"may_quote": true') + asked.count('"may_quote":true') == 1


def test_another_extractor_reads_the_turns_again(memory: Memory) -> None:
    memory.remember(SAID, context=CONTEXT, model=ScriptedChatModel([{"memories": []}]))
    assert active(memory) == 0
    with memory_for_tests_like(memory, extraction_prompt="Store requests too.") as better:
        receipts = better.remember(
            SAID, context=CONTEXT, model=ScriptedChatModel([{"memories": [proposed()]}])
        )
    assert [receipt.ruling for receipt in receipts] == ["accepted"]


def test_an_old_session_read_again_keeps_the_dates_on_which_it_was_said() -> None:
    clock = FixedClock(datetime(2026, 3, 2, 9, 0, tzinfo=UTC))
    said = [{"role": "user", "content": "Since yesterday we report revenue net of tax."}]
    told = proposed(quote="Since yesterday we report revenue net of tax", time_phrase="yesterday")
    with memory_for_tests(clock=clock) as memory:
        memory.remember(said, context=CONTEXT, model=ScriptedChatModel([{"memories": []}]))
        clock.advance(timedelta(weeks=3))
        model = ScriptedChatModel([{"memories": [told]}])
        with memory_for_tests_like(memory, extraction_prompt="Store requests too.") as better:
            (receipt,) = better.remember(said, context=CONTEXT, model=model)
            record = better.get(receipt.record_id or "", context=CONTEXT)
    assert "2026-03-02" in str(model.calls[0][-1].content)
    assert record.occurred_at.date() == date(2026, 3, 1)


def memory_for_tests_like(memory: Memory, **config: Any) -> Memory:
    """The same store under another configuration."""
    from dataclasses import replace

    store = memory.backend
    return Memory(replace(store, config=replace(store.config, **config)))


def test_parallel_calls_with_a_rewording_model_write_once(tmp_path: Path) -> None:
    model = rewording()
    with (
        memory_for_tests(f"sqlite:///{tmp_path / 'ledger.db'}") as memory,
        ThreadPoolExecutor(4) as threads,
    ):
        calls = [
            threads.submit(memory.remember, SAID, context=CONTEXT, model=model) for _ in range(4)
        ]
        receipts = [call.result() for call in calls]
        assert active(memory) == 1
    assert {(r.proposal_id, r.record_id, r.ruling) for (r,) in receipts} == {
        (receipts[0][0].proposal_id, receipts[0][0].record_id, "accepted")
    }


# ---------------------------------------------------------------- never lost


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (RuntimeError("down"), "error"),
        ("nothing to remember here", "no_reply"),
        ("", "no_reply"),
    ],
)
def test_a_failed_extraction_is_a_failed_receipt_and_is_tried_again(
    memory: Memory, reply: Any, reason: str
) -> None:
    model = ScriptedChatModel([reply, {"memories": [proposed()]}])
    (failed,) = memory.remember(SAID, context=CONTEXT, model=model)
    assert failed.ruling == "failed"
    assert (failed.reason or "").startswith(reason)
    (stored,) = memory.remember(SAID, context=CONTEXT, model=model)
    assert stored.ruling == "accepted"


def test_a_write_without_an_index_is_stored_found_by_its_words_and_indexed_later(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise OSError("no index")

    monkeypatch.setattr(memory.backend.index, "upsert", down)
    receipt = memory.write("the vault opens at nine", context=CONTEXT)
    assert (receipt.ruling, receipt.indexed) == ("accepted", False)
    found = memory.recall("vault", context=CONTEXT)
    assert found.pending_index == 1
    assert [c.record_id for c in found.injected] == [receipt.record_id]
    assert found.injected[0].sources == ("lexical",)
    monkeypatch.undo()
    assert memory.flush() == 1
    assert memory.recall("vault", context=CONTEXT).pending_index == 0


def test_a_write_without_a_working_embedder_is_stored_and_recall_says_what_is_missing() -> None:
    class Down(HashingEmbedder):
        def embed(self, texts: Any) -> Any:
            raise RuntimeError("no model")

    with memory_for_tests(embedder=Down()) as memory:
        assert memory.write("the vault opens at nine", context=CONTEXT).ruling == "accepted"
        found = memory.recall("vault", context=CONTEXT)
    assert found.degraded == ("dense: RuntimeError",)
    assert found.shown == 1


def test_a_ledger_that_fails_never_looks_like_success(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise StoreError("the disk is full: make room and write again.")

    monkeypatch.setattr(memory.backend.ledger.writes, "settle", full)
    with pytest.raises(StoreError, match="disk is full"):
        memory.write("prefers tea", context=CONTEXT)


KILLED = """
    import os, signal, sys
    from memplugin import Memory, MemoryContext
    from memplugin.testing import HashingEmbedder

    memory = Memory.open(sys.argv[1], embeddings=HashingEmbedder())
    memory.backend.index.upsert = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    memory.write("the vault opens at nine", context=MemoryContext("ws", "s_1"))
"""


def test_kill_9_between_the_ledger_and_the_index_loses_nothing(tmp_path: Path) -> None:
    code = "\n".join(line.removeprefix("    ") for line in KILLED.splitlines())
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code), tmp_path], check=False)
    assert killed.returncode == -signal.SIGKILL
    with Memory.open(tmp_path, embeddings=HashingEmbedder()) as memory:
        found = memory.recall("vault nine", context=MemoryContext("ws", "s_2"))
    assert found.pending_index == 0
    assert "dense" in found.injected[0].sources


# ---------------------------------------------------------------- bulk and bad input


def test_many_items_are_written_in_chunks_and_their_receipts_keep_the_order(
    memory: Memory,
) -> None:
    items = [f"note number {n}" for n in range(600)]
    receipts = memory.write_many(items, context=CONTEXT)
    records = memory.backend.ledger.records.get_many("ws", [r.record_id or "" for r in receipts])
    assert [records[r.record_id or ""].content for r in receipts] == items
    assert all(receipt.indexed for receipt in receipts)


def test_a_bad_item_is_named_and_nothing_is_written(memory: Memory) -> None:
    with pytest.raises(ConfigError, match="item 1 has no content"):
        memory.write_many(["fine", {"kind": "fact"}], context=CONTEXT)
    with pytest.raises(ConfigError, match="item 0 has colour"):
        memory.write_many([{"content": "fine", "colour": "red"}], context=CONTEXT)
    assert active(memory) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"content": 7}, "content"),
        ({"content": "x", "confidence": 1.5}, "confidence"),
        ({"content": "x", "confidence": float("nan")}, "confidence"),
        ({"content": "x", "kind": ""}, "kind"),
        ({"content": "x", "claim": {"a": {"b": 1}}}, "claim"),
        ({"content": "x", "scope": {"a": 1}}, "scope"),
    ],
)
def test_bad_arguments_are_named(memory: Memory, arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        memory.write(**arguments, context=CONTEXT)
    assert active(memory) == 0


# ---------------------------------------------------------------- change and forgetting


def test_a_changed_claim_supersedes_and_the_old_record_stays_readable(memory: Memory) -> None:
    old = memory.write("uses Dever", context=CONTEXT, claim={"vendor": "dever"})
    new = memory.write("uses Primex", context=CONTEXT, claim={"vendor": "primex"})
    assert (new.ruling, new.replaced_id) == ("superseded", old.record_id)
    kept = memory.get(old.record_id or "", context=CONTEXT)
    assert (kept.status, kept.content, kept.replaced_by) == (
        "superseded",
        "uses Dever",
        new.record_id,
    )
    shown = memory.recall("uses Dever", context=CONTEXT).candidates
    assert [c.record_id for c in shown] == [new.record_id]


def test_what_was_forgotten_is_nowhere_and_is_not_learnt_again(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    config = MemoryConfig(floor=-1.0)
    with Memory.open(folder, embeddings=HashingEmbedder(), config=config) as memory:
        said = [{"role": "user", "content": "Remember that the zebracode is 4711, please."}]
        reply = {
            "memories": [
                proposed("the zebracode is 4711", quote="the zebracode is 4711", kind="fact")
            ]
        }
        model = ScriptedChatModel(lambda _: reply)
        (receipt,) = memory.remember(said, context=CONTEXT, model=model)
        record_id = receipt.record_id or ""
        retrieval = memory.recall("zebracode", context=CONTEXT)
        assert retrieval.shown == 1
        memory.forget(record_id, context=CONTEXT, reason="asked to")
        assert memory.recall("zebracode", context=CONTEXT).candidates == ()
        assert memory.backend.index.fetch("ws", [record_id]) == {}
        with memory_for_tests_like(memory, extraction_prompt="Once more.") as again:
            (blocked,) = again.remember(said, context=CONTEXT, model=model)
        assert (blocked.ruling, blocked.reason) == ("rejected", "tombstoned")
        memory.backend.ledger.close()
    content = b"".join(p.read_bytes() for p in folder.rglob("ledger.db*"))
    assert b"zebracode is 4711" not in content


def test_a_users_memory_is_not_another_users(memory: Memory) -> None:
    anna = MemoryContext("ws", "s_1", user_id="anna")
    memory.write("prefers tea", context=anna, kind="preference")
    memory.write("the office opens at nine", context=anna, shared=True)
    seen = {
        user: [c.content for c in memory.recall("tea office", context=context).candidates]
        for user, context in {
            "anna": anna,
            "bob": MemoryContext("ws", "s_2", user_id="bob"),
            "nobody": MemoryContext("ws", "s_3"),
        }.items()
    }
    assert sorted(seen["anna"]) == ["prefers tea", "the office opens at nine"]
    assert seen["bob"] == seen["nobody"] == ["the office opens at nine"]


def test_a_callers_check_is_appended_to_the_gate() -> None:
    from memplugin.write.gate import BUILT_IN_CHECKS, Pass, Reject

    def no_tea(proposal: Any, known: Any, config: Any) -> Any:
        return Reject("no_tea") if "tea" in proposal.content else Pass()

    with memory_for_tests(checks=(*BUILT_IN_CHECKS, no_tea)) as memory:
        assert memory.write("prefers tea", context=CONTEXT).reason == "no_tea"
        assert memory.write("prefers milk", context=CONTEXT).ruling == "accepted"
