from __future__ import annotations

import json
import math

import pytest
from langchain_core.exceptions import ModelRateLimitError, ModelRefusalError, OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from use_replies import GOOD, VendorChoice, call, said

from memplugin.chat.errors import read_failure
from memplugin.chat.messages import message_to_json, messages_from_json, summed_usage
from memplugin.chat.reply import read_reply, structured
from memplugin.use.schema import decision_schema


def test_a_tool_call_is_read_with_its_keys_as_received():
    reply = read_reply(call({"vendor_id": "primex", "memory_reasoning": "late"}))
    assert reply.status == "ok"
    assert list(reply.values or {}) == ["vendor_id", "memory_reasoning"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"finish_reason": "length"},
        {"stop_reason": "max_tokens"},
        {"stopReason": "model_context_window_exceeded"},
        {"finish_reason": "MAX_TOKENS"},
        {"finish_reason": "FinishReason.MAX_TOKENS"},
        {"done_reason": "length"},
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
        {"status": "incomplete", "incomplete_details": None},
    ],
)
def test_a_call_cut_off_by_the_token_limit_is_truncated_though_it_parses(metadata):
    reply = read_reply(call({**GOOD, "considered": "dever, by na"}, **metadata))
    assert reply.status == "truncated"
    assert reply.values is None
    assert reply.raw is not None


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I can't help with that."}),
        AIMessage([{"type": "refusal", "refusal": "I can't help with that."}]),
        said(GOOD, stop_reason="refusal"),
        said("", finish_reason="SAFETY"),
        said(GOOD, finish_reason="content_filter"),
        said("", status="incomplete", incomplete_details={"reason": "content_filter"}),
        said("", prompt_feedback={"block_reason": "PROHIBITED_CONTENT"}),
    ],
)
def test_a_refusal_is_refused_whatever_else_it_carries(message):
    reply = read_reply(message)
    assert (reply.status, reply.values) == ("refused", None)
    assert reply.detail


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "end_turn", "tool_use", "STOP", None])
def test_a_reply_that_ended_by_itself_is_read(finish):
    assert read_reply(call(finish_reason=finish)).status == "ok"


@pytest.mark.parametrize(
    "text", ["", "  \n", "I would send Primex.", "use {braces} {1, 2}", "<think>hm"]
)
def test_prose_or_nothing_is_no_decision(text):
    assert read_reply(said(text)).status == "no_decision"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "```json\n{}\n```",
        "Here it is:\n```\n{}\n```\nAnything else?",
        "<think>Is it {{primex}}? Maybe.</think>\n{}",
        "It must be primex.\n</think>\n{}",
        "<thinking>…</thinking>```json\n{}```",
    ],
)
def test_one_object_is_found_within_fences_thoughts_and_prose(text):
    reply = read_reply(said(text.replace("{}", json.dumps(GOOD))))
    assert (reply.status, reply.values) == ("ok", GOOD)


def test_thoughts_are_not_taken_for_the_reply():
    assert read_reply(said('<think>{"vendor_id": "dever"}</think>')).status == "no_decision"


def test_text_blocks_are_read_together():
    text = json.dumps(GOOD)
    blocks = [
        {"type": "thinking", "thinking": '{"vendor_id": "dever"}'},
        {"type": "text", "text": text[:30]},
        {"type": "text", "text": text[30:]},
    ]
    assert read_reply(said(blocks)).values == GOOD


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('{"vendor_id": "primex"', "delimiter"),
        ('{"a": {"vendor_id": "primex"}, "b', "Unterminated"),
        ('{"a": 1} {"a": 2}', "2 JSON objects"),
        ('{"a": 1, "a": 2}', "'a' stands twice"),
        ('{"o": {"a": 1, "a": 2}}', "'a' stands twice"),
        ('{"a": NaN}', "NaN"),
        ('{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_json_that_is_not_one_whole_object_is_invalid(text, detail):
    reply = read_reply(said(text))
    assert (reply.status, reply.values) == ("invalid", None)
    assert detail in (reply.detail or "")


def test_the_arguments_as_text_count_before_the_parsed_ones():
    message = call({"vendor_id": "dever"})
    message.additional_kwargs["tool_calls"] = [
        {"function": {"name": "x", "arguments": '{"vendor_id": "primex", "vendor_id": "dever"}'}}
    ]
    assert "stands twice" in (read_reply(message).detail or "")


def test_a_streamed_call_that_broke_off_is_invalid_though_langchain_completes_it():
    chunk = AIMessageChunk(
        "", tool_call_chunks=[{"name": "x", "args": '{"vendor_id": "pri', "id": "1", "index": 0}]
    )
    assert chunk.tool_calls[0]["args"] == {"vendor_id": "pri"}
    assert read_reply(chunk).status == "invalid"


def test_a_function_call_block_is_read():
    block = {"type": "function_call", "name": "x", "arguments": json.dumps(GOOD), "call_id": "1"}
    assert read_reply(said([block])).values == GOOD


def test_invalid_tool_calls_are_invalid_with_their_error():
    message = AIMessage(
        "",
        invalid_tool_calls=[
            {"name": "VendorChoiceDecision", "args": "{oops", "id": "1", "error": "bad JSON"}
        ],
    )
    reply = read_reply(message)
    assert reply.status == "invalid"
    assert "VendorChoiceDecision" in (reply.detail or "")
    assert "bad JSON" in (reply.detail or "")


def test_two_tool_calls_are_invalid():
    message = call()
    message.tool_calls.append({"name": "x", "args": {"vendor_id": "dever"}, "id": "2"})
    assert "2 tool calls" in (read_reply(message).detail or "")


@pytest.mark.parametrize("bad", [math.nan, math.inf, object()])
def test_arguments_that_are_no_json_are_invalid(bad):
    assert read_reply(call({"amount": bad})).status == "invalid"


def test_values_are_cleaned():
    reply = read_reply(said('{"a\\u0000": "x\\ud800y"}'))
    assert reply.values == {"a": "x\ufffdy"}


def test_values_parsed_by_somebody_else_have_no_known_order():
    reply = read_reply(VendorChoice(vendor_id="primex"))
    assert (reply.status, reply.ordered) == ("ok", False)
    assert reply.values == {"vendor_id": "primex", "urgent": False}
    assert read_reply(None).status == "no_decision"


def test_model_and_usage_come_with_the_reply():
    message = call(model_name="small-1")
    message.usage_metadata = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    reply = read_reply({"raw": message, "parsed": None, "parsing_error": None})
    assert reply.model == "small-1"
    assert reply.usage == {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    assert summed_usage([reply.usage, None, reply.usage]) == {
        "input_tokens": 20,
        "output_tokens": 10,
        "total_tokens": 30,
    }


def test_a_message_survives_json_and_never_holds_nan_or_surrogates():
    message = said("a\x00b\ud800", logprob=math.nan, odd=object())
    data = message_to_json(message)
    json.dumps(data, allow_nan=False).encode()
    assert data["data"]["response_metadata"]["logprob"] is None
    [back] = messages_from_json([data])
    assert back.text == "ab\ufffd"
    human = HumanMessage("who?")
    assert messages_from_json([message_to_json(human)]) == [human]


# ---------------------------------------------------------------- exceptions


class _Http(Exception):
    def __init__(self, status):
        super().__init__("the provider's words")
        self.status_code = status


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_request_turned_down_is_a_permanent_error(status):
    reply = read_failure(_Http(status))
    assert (reply.status, reply.permanent) == ("error", True)
    assert reply.detail == "_Http: the provider's words"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503])
def test_an_error_that_may_pass_is_not_permanent(status):
    assert read_failure(_Http(status)).permanent is False


def test_the_status_is_found_in_the_cause_and_in_the_response():
    outer = RuntimeError("wrapped")
    outer.__cause__ = _Http(400)
    assert read_failure(outer).permanent
    answered = RuntimeError("no")
    answered.response = _Http(404)  # pyright: ignore
    assert read_failure(answered).permanent
    assert not read_failure(TimeoutError("slow")).permanent
    assert not read_failure(ModelRateLimitError("slow down")).permanent


def test_a_length_error_is_truncated_with_the_completion_it_carries():
    openai = pytest.importorskip("openai")
    from openai.types.chat import ChatCompletion

    completion = ChatCompletion.model_validate(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1,
            "model": "small-1",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "length",
                    "message": {"role": "assistant", "content": '{"memory_reasoning": "Prim'},
                }
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10},
        }
    )
    reply = read_failure(openai.LengthFinishReasonError(completion=completion))
    assert (reply.status, reply.permanent) == ("truncated", False)
    assert (reply.model, (reply.usage or {})["total_tokens"]) == ("small-1", 10)
    assert (reply.raw or {})["data"]["content"] == '{"memory_reasoning": "Prim'
    filtered = read_failure(openai.ContentFilterFinishReasonError())
    assert (filtered.status, filtered.raw) == ("refused", None)


def test_a_refusal_raised_is_refused_with_its_message():
    reply = read_failure(ModelRefusalError("no", raw_message=said("I won't.")))
    assert reply.status == "refused"
    assert (reply.raw or {})["data"]["content"] == "I won't."


def test_a_parser_that_raises_leaves_an_invalid_reply():
    assert read_failure(OutputParserException("no JSON")).status == "invalid"


# ---------------------------------------------------------------- asking


def test_a_json_schema_client_is_asked_for_strict_and_nothing_else():
    openai = pytest.importorskip("langchain_openai")
    model = openai.ChatOpenAI(model="m", api_key="k", base_url="http://127.0.0.1:9/v1")
    bound = structured(model, decision_schema(VendorChoice), {}).first.steps__["raw"].kwargs  # pyright: ignore
    assert set(bound) == {"response_format", "ls_structured_output_format"}
    sent = bound["response_format"]["json_schema"]
    assert (sent["name"], sent["strict"]) == ("VendorChoiceDecision", True)
    assert sent["schema"]["required"] == list(sent["schema"]["properties"])


def test_the_callers_options_win():
    openai = pytest.importorskip("langchain_openai")
    model = openai.ChatOpenAI(model="m", api_key="k", base_url="http://127.0.0.1:9/v1")
    schema = decision_schema(VendorChoice)
    loose = structured(model, schema, {"strict": False}).first.steps__["raw"].kwargs  # pyright: ignore
    assert loose["response_format"]["json_schema"]["strict"] is False
    called = structured(model, schema, {"method": "function_calling"}).first.steps__["raw"].kwargs  # pyright: ignore
    assert called["tools"][0]["function"]["name"] == "VendorChoiceDecision"
    assert "strict" not in called["tools"][0]["function"]
