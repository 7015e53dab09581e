""" "yesterday" stored as it was said, or resolved against the wrong clock."""

from __future__ import annotations

from datetime import UTC, date, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin.config import MemoryConfig, MemoryContext
from memplugin.errors import ConfigError
from memplugin.write.dates import meant, occurred_at, zone_of
from memplugin.write.extraction import extraction_messages, numbered_turns, proposals_from

# 23:30 in London on Monday the 2nd is 00:30 in Berlin on Tuesday the 3rd.
LATE = datetime(2026, 3, 2, 23, 30, tzinfo=UTC)


def test_yesterday_is_the_day_before_in_the_sessions_zone_across_midnight():
    london = occurred_at(None, "yesterday", said_at=LATE, zone=ZoneInfo("Europe/London"))
    berlin = occurred_at(None, "yesterday", said_at=LATE, zone=ZoneInfo("Europe/Berlin"))

    assert london == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert berlin == datetime(2026, 3, 2, 11, tzinfo=UTC)


def test_yesterday_on_the_day_after_the_clocks_went_forward_is_a_day_of_23_hours():
    said = datetime(2026, 3, 30, 8, tzinfo=UTC)  # clocks in Berlin changed on the 29th

    assert occurred_at(None, "yesterday", said_at=said, zone=ZoneInfo("Europe/Berlin")) == (
        datetime(2026, 3, 29, 10, tzinfo=UTC)
    )


def test_a_naive_time_is_in_the_sessions_zone_in_summer_and_winter():
    zone = ZoneInfo("America/New_York")

    winter = occurred_at("2026-03-07T09:00", None, said_at=LATE, zone=zone)
    summer = occurred_at("2026-03-08T09:00", None, said_at=LATE, zone=zone)

    assert winter == datetime(2026, 3, 7, 14, tzinfo=UTC)
    assert summer == datetime(2026, 3, 8, 13, tzinfo=UTC)


def test_a_time_with_its_own_offset_is_kept():
    zone = ZoneInfo("Asia/Tokyo")

    assert occurred_at("2026-01-05T09:00:00-05:00", None, said_at=LATE, zone=zone) == datetime(
        2026, 1, 5, 14, tzinfo=UTC
    )


@pytest.mark.parametrize("name", ["Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin", "UTC"])
def test_a_date_alone_is_the_same_day_when_it_is_read_in_utc(name):
    moment = occurred_at("2026-01-05", None, said_at=LATE, zone=ZoneInfo(name))

    assert moment.date() == date(2026, 1, 5)


def test_what_a_phrase_says_wins_over_what_the_model_calculated():
    moment = occurred_at("2026-02-27", "yesterday", said_at=LATE, zone=ZoneInfo("UTC"))

    assert moment.date() == date(2026, 3, 1)


def test_the_models_time_of_day_is_kept_when_the_day_is_right():
    moment = occurred_at("2026-03-01T19:00", "yesterday", said_at=LATE, zone=ZoneInfo("UTC"))

    assert moment == datetime(2026, 3, 1, 19, tzinfo=UTC)


def test_today_is_now_and_never_later_than_it_was_said():
    morning = datetime(2026, 3, 2, 7, tzinfo=UTC)

    assert occurred_at("2026-03-02", "today", said_at=morning, zone=ZoneInfo("UTC")) == morning


@pytest.mark.parametrize("value", [None, "", "soon", "2026-13-01", "0001-01-01", "9999-12-31"])
def test_a_date_that_can_not_be_read_is_no_error(value):
    moment = occurred_at(value, None, said_at=LATE, zone=ZoneInfo("Pacific/Kiritimati"))

    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    ("phrase", "day"),
    [
        ("Yesterday", date(2026, 3, 1)),
        ("last night", date(2026, 3, 1)),
        ("this  morning", date(2026, 3, 2)),
        ("the day before yesterday", date(2026, 2, 28)),
        ("tomorrow evening", date(2026, 3, 3)),
        ("3 days ago", date(2026, 2, 27)),
        ("two weeks ago", date(2026, 2, 16)),
        ("a week ago", date(2026, 2, 23)),
        ("in ten days", date(2026, 3, 12)),
        ("next Friday", None),
        ("not yesterday", None),
    ],
)
def test_phrases_that_say_a_day_by_themselves_are_calculated(phrase, day):
    assert meant(phrase, date(2026, 3, 2)) == day


@given(
    st.none() | st.text(max_size=25) | st.datetimes().map(str) | st.dates().map(str),
    st.none() | st.sampled_from(["yesterday", "999 weeks ago", "in 999 weeks"]),
    st.datetimes(timezones=st.timezones()),
    st.timezones(),
)
def test_any_date_ends_as_a_time_in_utc_or_as_when_it_was_said(value, phrase, said_at, zone):
    try:
        said_at.astimezone(UTC)
    except OverflowError:
        return
    assert occurred_at(value, phrase, said_at=said_at, zone=zone).tzinfo is UTC


def test_a_phrase_that_was_not_said_is_not_believed(reply):
    context = MemoryContext("w", "s")
    turns = numbered_turns([{"role": "user", "content": "I moved"}], context=context, now=LATE)
    memory = {"quote": "I moved", "time_phrase": "yesterday", "occurred_at": "2026-02-01"}

    (proposal,) = proposals_from(
        reply(memory), turns, context=context, now=LATE, config=MemoryConfig()
    )

    assert proposal.occurred_at.date() == date(2026, 2, 1)


def test_yesterday_is_resolved_and_its_phrase_kept(reply):
    context, config = MemoryContext("w", "s"), MemoryConfig(timezone="Europe/Berlin")
    said = "I moved to Oslo yesterday"
    turns = numbered_turns([{"role": "user", "content": said}], context=context, now=LATE)
    memory = {"quote": said, "time_phrase": "yesterday", "occurred_at": None}

    (proposal,) = proposals_from(reply(memory), turns, context=context, now=LATE, config=config)

    assert proposal.occurred_at == datetime(2026, 3, 2, 11, tzinfo=UTC)
    assert proposal.time_phrase == "yesterday"


def test_the_model_is_told_the_sessions_date_weekday_and_zone():
    context, config = MemoryContext("w", "s"), MemoryConfig(timezone="Europe/Berlin")
    turns = numbered_turns([{"role": "user", "content": "hi"}], context=context, now=LATE)
    sent = extraction_messages(turns, now=LATE, config=config, unread_ids={turns[0].id})

    assert str(sent[1].content).splitlines()[0] == (
        '{"date": "2026-03-03", "weekday": "Tuesday", "time": "00:30", '
        '"time_zone": "Europe/Berlin", "utc_offset": "+01:00"}'
    )


@pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd"])
def test_an_unknown_time_zone_is_an_error_that_names_it(name):
    with pytest.raises(ConfigError, match="IANA"):
        zone_of(name)
