"""Faults that users of agent memories report, one test each, as far as writing goes."""

from __future__ import annotations

from datetime import UTC, datetime

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from memplugin.chat.reply import read_reply
from memplugin.config import MemoryConfig, MemoryContext
from memplugin.records import Known
from memplugin.write.extraction import extraction_failure, numbered_turns, proposals_from
from memplugin.write.gate import rule

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
CONTEXT = MemoryContext("w", "s")
CONFIG = MemoryConfig()


def outcome(reply, messages, known=None):
    turns = numbered_turns(messages, context=CONTEXT, now=NOON)
    (proposal,) = proposals_from(reply, turns, context=CONTEXT, now=NOON, config=CONFIG)
    ruling = rule(proposal, known or Known(), CONFIG)
    return ruling.ruling, ruling.reason


def test_a_dislike_is_not_stored_as_a_liking(reply):
    memory = {"quote": "I don't like olives", "content": "The user likes olives."}

    assert outcome(reply(memory), [HumanMessage("I don't like olives")]) == (
        "rejected",
        "negation_lost",
    )


def test_need_not_is_not_stored_as_need(reply):
    said = "We don't need to file the annex any more."
    memory = {"quote": said, "content": "The annex needs to be filed.", "polarity": "negative"}

    assert outcome(reply(memory), [HumanMessage(said)]) == ("rejected", "negation_lost")


def test_an_instruction_put_as_a_question_is_stored(reply):
    said = "could you leave the appendix out of the pack from now on?"
    memory = {
        "quote": said,
        "speech_act": "question",
        "polarity": "negative",
        "content": "Leave the appendix out of the pack.",
        "kind": "instruction",
    }

    assert outcome(reply(memory), [HumanMessage(said)]) == ("accepted", None)


def test_the_assistants_words_are_not_taken_for_the_users(reply):
    messages = [HumanMessage("Where to?"), AIMessage("You love Lisbon, so go there.")]
    memory = {"turn_index": 1, "quote": "You love Lisbon", "content": "The user loves Lisbon."}

    assert outcome(reply(memory), messages) == ("rejected", "quote_not_found")


def test_the_system_prompt_is_not_restated_as_a_memory(reply):
    messages = [SystemMessage("Answer in British English."), HumanMessage("Hello there")]
    memory = {"quote": "Answer in British English", "content": "Answer in British English."}

    assert outcome(reply(memory), messages) == ("rejected", "quote_not_found")


def test_a_recalled_memory_is_not_extracted_again(reply):
    block = "<memory-context>\nThe user is called Ann.\n</memory-context>\nWhat is due today?"
    memory = {"quote": "The user is called Ann", "content": "The user is called Ann."}

    assert outcome(reply(memory), [HumanMessage(block)]) == ("rejected", "quote_not_found")


def test_an_unclosed_block_of_recalled_memory_is_left_out_to_its_end(reply):
    block = "What is due?\n<memory-context>\nThe user is called Ann."
    memory = {"quote": "The user is called Ann", "content": "The user is called Ann."}

    assert outcome(reply(memory), [HumanMessage(block)]) == ("rejected", "quote_not_found")


def test_the_same_thing_told_twice_is_stored_once_and_not_deleted(reply, record):
    known = Known(same_content=[record("The user likes tea.")])

    assert outcome(reply({"quote": "I like tea"}), [HumanMessage("I like tea")], known) == (
        "attached",
        "exact_duplicate",
    )


def test_a_change_of_mind_brings_the_new_and_retires_the_old(reply, record):
    old = record("The user lives in Rome.", kind="fact", claim={"home_city": "Rome"})
    memory = {
        "quote": "I live in Oslo now",
        "content": "The user lives in Oslo.",
        "kind": "fact",
        "claim": [{"key": "home_city", "value": "Oslo"}],
    }

    assert outcome(reply(memory), [HumanMessage("I live in Oslo now")], Known(same_slot=[old])) == (
        "superseded",
        "claim_changed",
    )


def test_a_models_thoughts_are_not_stored(reply):
    memory = {"quote": "I like tea", "content": "<think>so the user</think> The user likes tea."}
    ruling, reason = outcome(reply(memory), [HumanMessage("I like tea")])

    assert (ruling, reason.split(":")[0]) == ("failed", "invalid")


def test_a_refusal_is_neither_a_memory_nor_nothing_to_remember(reply):
    refusal = AIMessage("I'm sorry, but I can't help with that.")

    assert extraction_failure(read_reply(refusal)) == "no_reply"


def test_a_refusal_inside_a_memory_quotes_nobody(reply):
    memory = {"quote": "I cannot assist", "content": "I'm sorry, but I cannot assist."}

    assert outcome(reply(memory), [HumanMessage("Remember me")]) == (
        "rejected",
        "quote_not_found",
    )
