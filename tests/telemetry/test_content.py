"""What of stored texts stands on spans: nothing, a keyed hash, a beginning, or all of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from pydantic import BaseModel

from memplugin import Memory, MemoryConfig, MemoryContext, Need
from memplugin.errors import ConfigError
from memplugin.telemetry import names
from memplugin.telemetry.content import ContentPolicy, limited
from memplugin.testing import ScriptedChatModel, SpanCapture, memory_for_tests

SECRET = "the vault code is four one seven"
CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Pack(BaseModel):
    """What is decided."""

    basis: str


class Broken(BaseModel):
    """An answer the reply does not fit."""

    basis: int


def told(text: str) -> dict[str, Any]:
    """An extractor's memory that says one text wherever it may say anything."""
    return {
        "turn_index": 0,
        "quote": text,
        "speech_act": text,
        "polarity": "positive",
        "time_phrase": text,
        "occurred_at": None,
        "content": text,
        "kind": text,
        "scope": [{"key": text, "value": text}],
        "claim": [{"key": text, "value": text}],
        "confidence": 0.9,
    }


def reply(text: str) -> dict[str, Any]:
    return {
        "memory_reasoning": text,
        "considered": text,
        "cited_record_ids": [text, "m_unknown"],
        "basis": text,
    }


def everything(memory: Memory, text: str) -> None:
    """Every hop, with one text in every place that takes one."""
    context = MemoryContext("ws", "s_1", task_id="t_1", user_id=text, scope={text: text, "p": text})
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    write: dict[str, Any] = {"kind": text, "scope": {text: text}, "claim": {text: text}}
    first = memory.write(text, context=context, source=text, around=text, **write)
    memory.write(text + "!", context=context, claim={text: text + "!"}, scope={text: text})
    memory.write(" ", context=context, kind=text, source=text)
    later = MemoryContext("ws", "s_2", task_id="t_1", user_id=text, scope={text: text, "p": text})
    memory.remember(said, context=later, model=ScriptedChatModel([{"memories": [told(text)]}]))
    memory.remember(
        [{"role": "user", "content": text + "?"}],
        context=later,
        model=ScriptedChatModel([{"memories": [told(text) | {"confidence": text}]}]),
    )
    memory.remember(
        [{"role": "user", "content": text + "…"}], context=later, model=ScriptedChatModel([text])
    )
    memory.recall(text, context=later, kinds=[text])
    retrieval = memory.recall(text, context=later)
    for answer, script in ((Pack, reply(text)), (Broken, reply(text)), (Pack, text)):
        model = ScriptedChatModel([script] * 2)
        memory.decide(text, context=later, answer=answer, model=model, retrieval=retrieval)
    model = ScriptedChatModel(lambda _: reply(text))
    memory.counterfactual(context=later, model=model, runs=4)
    fails = ScriptedChatModel([ValueError(text)] * 2)
    memory.decide(text, context=later, answer=Pack, model=fails)
    memory.report(context=later, succeeded=False, failure_mode=text, action=text)
    with memory.task("t_1", workspace_id="ws") as task:
        task.diagnose(Need(text=text, corrected=True))
    with pytest.raises(LookupError):
        memory.forget(text, context=later, reason=text)
    assert first.record_id
    memory.forget(first.record_id, context=later, reason=text)


def screened(text: str) -> str | None:
    return f"it holds {text}" if "screen" in text else None


def exported(mode: Any, text: str) -> list[Any]:
    """The spans of a run, as a collector gets them."""
    capture = SpanCapture(TracerProvider(resource=Resource.create({"service.name": "agent"})))
    config = MemoryConfig(content_on_spans=mode, floor=-1.0, screen=screened)
    with memory_for_tests(tracer_provider=capture.provider, config=config) as memory:
        everything(memory, text)
        memory.write(f"screen {text}", context=MemoryContext("ws", "s_1"))
    return capture.spans


# ---------------------------------------------------------------- nothing leaks


@pytest.mark.parametrize("mode", ["none", "hash"])
@pytest.mark.parametrize("text", [SECRET, "Le code du coffre: 417!", "金庫の番号は四一七"])
def test_in_none_and_hash_no_stored_text_is_anywhere_in_what_is_exported(
    mode: str, text: str
) -> None:
    spans = exported(mode, text)
    assert {span.name for span in spans} == {operation.span_name for operation in names.OPERATIONS}
    # As bytes: resource, scope, names, attributes, events, links and status are all in them.
    sent = encode_spans(spans).SerializeToString()
    for word in (*text.split(), text, "_".join(text.split())):
        if len(word) > 3:
            assert word.casefold().encode() not in sent.lower()
            assert json.dumps(word)[1:-1].encode() not in sent


def test_in_none_a_text_leaves_no_hash_either() -> None:
    sent = encode_spans(exported("none", SECRET)).SerializeToString()
    assert b"hmac" not in sent


def test_labels_ids_and_reasons_are_still_to_be_read_in_every_mode() -> None:
    for mode in ("none", "hash"):
        capture = SpanCapture()
        config = MemoryConfig(content_on_spans=mode, floor=-1.0)  # type: ignore[arg-type]
        with memory_for_tests(tracer_provider=capture.provider, config=config) as memory:
            context = MemoryContext("ws", "s_1", scope={"trade": "pest"})
            kept = memory.write("a", context=context, kind="vendor_rule")
            memory.write(" ", context=context)
            memory.recall("a", context=context)
            memory.report(context=context, succeeded=False, failure_mode="wrong_vendor")
        first, second = capture.attributes("upsert_memory")
        assert first["memplugin.write.kinds"] == ("vendor_rule",)
        assert first["memplugin.write.record_ids"] == (kept.record_id,)
        assert second["memplugin.write.reasons"] == ("empty",)
        (search,) = capture.attributes("search_memory")
        assert set(json.loads(search["memplugin.retrieval.filters"])["scope"]) == {"trade"}
        (report,) = capture.attributes("report_outcome")
        assert report["memplugin.outcome.failure_mode"] == "wrong_vendor"


def test_a_citation_that_is_a_text_is_hashed_and_one_that_is_an_id_is_not(
    memory: Memory, capture: SpanCapture
) -> None:
    model = ScriptedChatModel([reply(SECRET)])
    memory.decide("?", context=MemoryContext("ws", "s"), answer=Pack, model=model)
    cited = capture.attributes("use_memory")[0]["memplugin.use.cited_record_ids"]
    assert cited[0].startswith("hmac-sha256:")
    assert cited[1] == "m_unknown"


# ---------------------------------------------------------------- the modes


def policy(mode: Any, chars: int = 80) -> ContentPolicy:
    return ContentPolicy(mode, b"key", chars)


def test_the_four_modes() -> None:
    hashed = "hmac-sha256:4a2179b185f5f28f4a7ea8c450bd6527"  # openssl dgst -sha256 -hmac key
    assert policy("none").shown("net of tax") is None
    assert policy("hash").shown("net of tax") == hashed
    assert policy("truncate", 3).shown("net of tax") == f"net [{hashed}, 10 characters]"
    assert policy("full").shown("net of tax") == "net of tax"


@given(text=st.text(), limit=st.integers(1, 50))
def test_a_limit_is_in_bytes_and_never_in_the_middle_of_a_character(text: str, limit: int) -> None:
    shown = limited(text, limit)
    assert len(shown.encode("utf-8")) <= limit
    assert text.replace("\x00", "").startswith(shown)
    rest = text.replace("\x00", "")[len(shown) :]
    assert not rest or len((shown + rest[0]).encode("utf-8")) > limit or "\x00" in text


@pytest.mark.parametrize("mode", ["hash", "truncate", "full"])
def test_every_mode_keeps_to_2000_bytes(mode: str) -> None:
    for text in ("é" * 5_000, "🧠" * 5_000, "\x00" * 5_000 + "a", "\ud800" * 5_000):
        shown = policy(mode, 5_000).shown(text)
        assert shown is not None
        assert len(shown.encode("utf-8")) <= 2_000
    assert len((policy("full").shown("é" * 5_000) or "").encode()) == 2_000


def test_a_mode_that_is_none_of_the_four_is_refused() -> None:
    with pytest.raises(ConfigError, match="content_on_spans is 'hsah'"):
        MemoryConfig(content_on_spans="hsah")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "mode"),
    [
        ("true", "full"),
        ("True", "full"),
        ("SPAN_ONLY", "full"),
        ("span_and_event", "full"),
        ("event_only", "hash"),
        ("no_content", "hash"),
        ("false", "hash"),
        ("", "hash"),
    ],
)
def test_the_standards_switch_shows_texts(
    monkeypatch: pytest.MonkeyPatch, value: str, mode: str
) -> None:
    monkeypatch.delenv("MEMPLUGIN_CONTENT_ON_SPANS", raising=False)
    monkeypatch.setenv(CAPTURE, value)
    assert MemoryConfig.from_env().content_on_spans == mode


def test_our_own_variable_wins_over_the_standards_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "true")
    monkeypatch.setenv("MEMPLUGIN_CONTENT_ON_SPANS", "none")
    assert MemoryConfig.from_env().content_on_spans == "none"
    assert MemoryConfig.from_env(content_on_spans="truncate").content_on_spans == "truncate"


# ---------------------------------------------------------------- the standard's records


def records_shown(mode: Any, texts: list[str]) -> tuple[Any, Any]:
    capture = SpanCapture()
    config = MemoryConfig(content_on_spans=mode, floor=-1.0, token_budget=None)
    with memory_for_tests(tracer_provider=capture.provider, config=config) as memory:
        context = MemoryContext("ws", "s")
        memory.write_many(texts, context=context)
        memory.recall(texts[0], context=context, k=len(texts))
    shown = [
        capture.attributes(name)[0].get(names.RECORDS)
        for name in ("upsert_memory", "search_memory")
    ]
    return shown[0], shown[1]


def test_in_full_the_standards_attribute_has_the_stored_and_the_shown_records() -> None:
    stored, shown = (json.loads(text) for text in records_shown("full", ["net of tax", "gross"]))
    assert [record["content"] for record in stored] == ["net of tax", "gross"]
    assert [(record["content"], set(record)) for record in shown] == [
        ("net of tax", {"id", "content", "score"}),
        ("gross", {"id", "content", "score"}),
    ]
    assert {record["id"] for record in stored} == {record["id"] for record in shown}


@pytest.mark.parametrize("mode", ["none", "hash", "truncate"])
def test_without_the_opt_in_there_is_no_such_attribute(mode: str) -> None:
    assert records_shown(mode, ["net of tax"]) == (None, None)


def test_records_that_do_not_fit_are_left_out_and_the_json_stays_whole() -> None:
    texts = [f"{number} " + "é" * 300 for number in range(20)]
    for shown in records_shown("full", texts):
        assert len(shown.encode("utf-8")) <= 2_000
        assert 0 < len(json.loads(shown)) < 20


# ---------------------------------------------------------------- any text at all

AWKWARD = st.one_of(
    st.text(min_size=1, max_size=200),
    st.text(alphabet=st.characters(categories=["Cs", "Cc", "Cf", "Mn", "So"]), min_size=1),
    st.sampled_from(
        ["\x00", "\ud800", "\udfff\ud800", "e\u0301\u0301", "\u202eאבג", "🧠🇩🇪", "é" * 5_000]
    ),
)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=AWKWARD, mode=st.sampled_from(["none", "hash", "truncate", "full"]))
def test_whatever_the_texts_every_span_can_be_encoded_and_read_back(text: str, mode: str) -> None:
    text = f"xyzzy is a whole sentence: {text}"  # up to three words are a label
    spans = exported(mode, text)
    sent = encode_spans(spans).SerializeToString()
    assert (b"xyzzy" in sent) == (mode in ("truncate", "full"))
    read = ExportTraceServiceRequest.FromString(sent)
    back = [s for r in read.resource_spans for scope in r.scope_spans for s in scope.spans]
    assert [span.name for span in back] == [span.name for span in spans]
    for span in back:
        for pair in span.attributes:
            strings = [pair.value.string_value] + [
                item.string_value for item in pair.value.array_value.values
            ]
            assert all(len(one.encode("utf-8")) <= 2_000 and "\x00" not in one for one in strings)
