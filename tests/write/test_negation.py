"""A dislike stored as a liking, "don't need to" stored as "need to": what the gate makes of
what was said (first), and of what a model would remember of it (second)."""

from __future__ import annotations

import pytest

from memplugin.config import MemoryConfig
from memplugin.records import Known
from memplugin.write.gate import rule

LOST = [
    # said, remembered, polarity: the no is lost, or the polarity denies it
    ("I don't like coriander.", "The user likes coriander.", "positive"),
    ("I don't like coriander.", "The user likes coriander.", "negative"),
    ("I dont like coriander", "The user likes coriander.", "negative"),
    ("You don't need to send the cover sheet.", "The user needs the cover sheet sent.", "positive"),
    ("You don't need to send the cover sheet.", "The user needs the cover sheet sent.", "negative"),
    ("I never fly on Mondays.", "The user flies on Mondays.", "negative"),
    ("I no longer work at Acme.", "The user works at Acme.", "positive"),
    ("Please stop sending the weekly digest.", "The user wants the weekly digest.", "positive"),
    ("I take my coffee without sugar.", "The user takes coffee with sugar.", "positive"),
    ("No meetings on Fridays, please.", "The user wants meetings on Fridays.", "positive"),
    ("I'm not allergic to nuts.", "The user is allergic to nuts.", "negative"),
    ("I can't eat gluten.", "The user eats gluten.", "negative"),
    ("Any vendor except Acme is fine.", "Any vendor is fine for the user.", "positive"),
    ("Neither of my kids eats fish.", "The user's kids eat fish.", "negative"),
    ("I'd rather not share my age.", "The user shares their age.", "negative"),
    ("I don't eat meat, fish, or eggs.", "The user eats eggs.", "negative"),
    ("There's no need to call first.", "Call the user first.", "positive"),
    ("I don't like tea, I like coffee.", "The user likes tea.", "positive"),
    ("I like tea but I don't like coffee.", "The user likes coffee.", "positive"),
    ("I don't want or need it", "The user needs it", "negative"),
    ("Can you not use tables?", "Use tables.", "positive"),
    ("Don't you ever call me Bob.", "Call the user Bob.", "positive"),
    ("I'm not a morning person.", "The user is a morning person.", "negative"),
    ("We haven't signed the lease yet.", "The lease is signed.", "negative"),
    ("Nobody in my family drinks.", "The user's family drinks.", "negative"),
    ("Could you please not use emojis?", "Use emojis.", "negative"),
    ("We cannot ship to Canada.", "The company ships to Canada.", "negative"),
    ("Please don't email me, text me instead.", "Email the user.", "positive"),
    ("I couldn't care less about charts.", "The user cares about charts.", "negative"),
    ("No sugar in my coffee, thanks.", "The user takes coffee with sugar.", "positive"),
    ("I don't think we should use gross figures.", "Use gross figures.", "negative"),
    ("You can stop sending reminders.", "Send the user reminders.", "positive"),
    ("I quit smoking last year.", "The user smokes.", "positive"),
    ("I'm no fan of cold weather.", "The user is a fan of cold weather.", "negative"),
    ("There is no Wi-Fi at the cabin.", "The cabin has Wi-Fi.", "positive"),
    (
        "My notice period isn't three months, it's one month.",
        "The notice period is three months.",
        "positive",
    ),
    ("Do not under any circumstances share the file.", "Share the file.", "negative"),
    ("No need to reply.", "Reply to the user.", "positive"),
    ("I don't usually drink, except at weddings.", "The user usually drinks.", "negative"),
    ("I hate coriander.", "The user likes coriander.", "positive"),
]

KEPT = [
    # said, remembered, polarity: the no is there, or belongs to another clause
    ("I don't like coriander.", "The user dislikes coriander.", "negative"),
    ("I don\u2019t like coriander.", "The user dislikes coriander.", "negative"),
    ("You don't need to send the cover sheet.", "The cover sheet is not needed.", "negative"),
    ("You don't need to send the cover sheet.", "The cover sheet is unnecessary.", "negative"),
    ("You don't need to send the cover sheet.", "The cover sheet is optional.", "negative"),
    ("I never fly on Mondays.", "The user avoids flying on Mondays.", "negative"),
    ("I no longer work at Acme.", "The user used to work at Acme.", "negative"),
    ("Please stop sending the weekly digest.", "The user wants no weekly digest.", "negative"),
    (
        "Please stop sending the weekly digest.",
        "The user opts out of the weekly digest.",
        "negative",
    ),
    ("I take my coffee without sugar.", "The user takes coffee without sugar.", "positive"),
    ("No meetings on Fridays, please.", "The user keeps Fridays free of meetings.", "positive"),
    ("I'm not allergic to nuts.", "The user is not allergic to nuts.", "negative"),
    ("I can't eat gluten.", "The user avoids gluten.", "negative"),
    (
        "Any vendor except Acme is fine.",
        "Any vendor but not Acme is fine for the user.",
        "positive",
    ),
    ("I can't stand loud bars.", "The user hates loud bars.", "negative"),
    ("Don't deploy until the tests pass.", "Deploy only after the tests pass.", "positive"),
    (
        "Don't send anything without my approval.",
        "Sending needs the user's approval only.",
        "positive",
    ),
    ("I don't like tea, I like coffee.", "The user likes coffee.", "positive"),
    ("I like tea but I don't like coffee.", "The user likes tea.", "positive"),
    ("Use bullet points and don't use tables.", "Use bullet points.", "positive"),
    ("Report net, not gross.", "Report net.", "positive"),
    ("Don't call, please email me.", "Email the user.", "positive"),
    (
        "I can't make Mondays, so Tuesdays work best.",
        "Tuesdays work best for the user.",
        "positive",
    ),
    ("Could you not call me before nine?", "Do not call before nine.", "negative"),
    ("I'm not a morning person.", "The user is not a morning person.", "negative"),
    (
        "I've never been to Japan, but I'd love to go.",
        "The user would love to go to Japan.",
        "positive",
    ),
    (
        "I'd prefer if you didn't call me in the morning.",
        "Avoid calling the user in the morning.",
        "negative",
    ),
    (
        "It's not that I hate it, I'm just busy on Fridays.",
        "The user is busy on Fridays.",
        "positive",
    ),
    ("My son can't have dairy.", "The user's son is lactose intolerant.", "negative"),
    ("I'm not working Fridays anymore.", "The user no longer works Fridays.", "negative"),
    ("Isn't it better to use euros?", "Use euros.", "positive"),
    ("Won't you send it weekly from now on?", "Send it weekly.", "positive"),
    ("I have two kids, not three.", "The user has two kids.", "positive"),
    ("It was a no-show.", "The guest was a no-show.", "positive"),
    ("Nothing beats Lisbon in spring.", "The user loves Lisbon in spring.", "positive"),
    ("I can't live without coffee.", "The user needs coffee every day.", "positive"),
    ("Why can't we just start at ten every day?", "Start at ten every day.", "positive"),
    ("I'm not picky but I do like a window seat.", "The user likes a window seat.", "positive"),
    ("Please don't email me; text me.", "Text the user.", "positive"),
    ("Please don't email me, text me instead.", "Text the user instead of emailing.", "positive"),
    ("No more than three slides per deck.", "Decks have at most three slides.", "positive"),
    (
        "I am not sure whether the office moves, but my desk is 4B.",
        "The user's desk is 4B.",
        "positive",
    ),
    ("I don't know about you, but I work from Lyon.", "The user works from Lyon.", "positive"),
    ("Not to be rude, but call me Dr. Sato.", "Call the user Dr. Sato.", "positive"),
    (
        "I don't think we should use gross figures.",
        "The user thinks gross figures should not be used.",
        "negative",
    ),
    (
        "As I don't drive, I take the train to work.",
        "The user takes the train to work.",
        "positive",
    ),
    (
        "Since I'm not in Berlin anymore, use my Oslo address.",
        "Use the user's Oslo address.",
        "positive",
    ),
    ("I quit smoking last year.", "The user quit smoking last year.", "positive"),
    ("There is no Wi-Fi at the cabin.", "The cabin has no Wi-Fi.", "positive"),
    ("I work Monday to Thursday, no Fridays.", "The user works Monday to Thursday.", "positive"),
    (
        "My notice period isn't three months, it's one month.",
        "The notice period is one month.",
        "positive",
    ),
    ("Actually it's not Acme any more, it's Primex.", "The vendor is Primex.", "positive"),
    ("We don't use Acme any more, we switched to Primex.", "The company uses Primex.", "positive"),
    (
        "We don't use Acme any more, we switched to Primex.",
        "The company switched from Acme to Primex.",
        "positive",
    ),
    ("I don't eat meat or fish.", "The user is vegetarian.", "negative"),
    ("Call me Sam. Not Samuel.", "Call the user Sam.", "positive"),
    (
        "I don't really mind either way, but blue is nicer.",
        "The user finds blue nicer.",
        "positive",
    ),
    (
        "Can I have the report in English, not French, please?",
        "The report should be in English.",
        "positive",
    ),
    ("I hate coriander.", "The user dislikes coriander.", "negative"),
    ("I'd hate to miss the launch.", "The user wants to be at the launch.", "positive"),
]

IDIOMS = [
    # said, remembered: these are no negations
    ("Can't you just report these net of tax?", "Report net of tax."),
    ("Couldn't you send it as a PDF from now on?", "Send it as a PDF."),
    ("Why don't we meet at nine from now on?", "Meetings are at nine."),
    ("Why don't you call me Sam?", "Call the user Sam."),
    ("Why not use euros going forward?", "Use euros."),
    (
        "Not only the board, the auditors get the pack too.",
        "The board and the auditors get the pack.",
    ),
    ("Don't forget to copy Dana on invoices.", "Copy Dana on invoices."),
    ("Don't hesitate to call me after six.", "The user may be called after six."),
    ("No problem, weekly reports are fine.", "Weekly reports are fine for the user."),
    ("No worries, I like early starts.", "The user likes early starts."),
    ("No doubt Lisbon is my favourite city.", "Lisbon is the user's favourite city."),
    ("I'm not sure if it matters, but I work from Lyon.", "The user works from Lyon."),
    ("No, I live in Berlin.", "The user lives in Berlin."),
    ("I don't mind spicy food.", "Spicy food is fine for the user."),
    ("We close on the 5th, don't we?", "Books close on the 5th."),
    ("I live in Kyiv, isn't that obvious?", "The user lives in Kyiv."),
    ("Whether or not it rains, I cycle to work.", "The user cycles to work."),
    ("Reports are due no later than the 3rd.", "Reports are due by the 3rd."),
    ("I drink nothing but tea.", "The user drinks only tea."),
    ("I can't wait to move to Oslo in May.", "The user moves to Oslo in May."),
    ("Don't get me wrong, I love the charts.", "The user loves the charts."),
    ("My desk is in room no. 12.", "The user's desk is in room 12."),
    ("I have nothing against night shifts.", "Night shifts are fine for the user."),
    ("Never mind the cost, I want business class.", "The user wants business class."),
    ("Don't stop sending the digest.", "The user wants to keep receiving the digest."),
    ("I get off at the bus stop on Elm Street.", "The user gets off at the Elm Street bus stop."),
    ("Please stop by the warehouse first on Tuesdays.", "Go to the warehouse first on Tuesdays."),
]


@pytest.mark.parametrize(("said", "content", "polarity"), LOST)
def test_a_no_is_not_remembered_as_a_yes(propose, said, content, polarity):
    proposal = propose(content, quote=said, said_in=said, polarity=polarity)

    ruling = rule(proposal, Known(), MemoryConfig())

    assert (ruling.ruling, ruling.reason) == ("rejected", "negation_lost")


@pytest.mark.parametrize(("said", "content", "polarity"), KEPT)
def test_a_no_that_is_kept_passes(propose, said, content, polarity):
    proposal = propose(content, quote=said, said_in=said, polarity=polarity)

    assert rule(proposal, Known(), MemoryConfig()).reason is None


@pytest.mark.parametrize(("said", "content"), IDIOMS)
def test_an_idiom_is_not_taken_for_a_no(propose, said, content):
    proposal = propose(content, quote=said, said_in=said, polarity="positive")

    assert rule(proposal, Known(), MemoryConfig()).reason is None


def test_a_quote_that_leaves_out_the_no_is_seen_where_it_stands(propose):
    said = "Well, I don't like tea. Do you?"
    proposal = propose("The user likes tea.", quote="like tea", said_in=said)

    assert rule(proposal, Known(), MemoryConfig()).reason == "negation_lost"


def test_the_no_of_another_sentence_does_not_count(propose):
    said = "I don't like coffee. I like tea."
    proposal = propose("The user likes tea.", quote="I like tea", said_in=said)

    assert rule(proposal, Known(), MemoryConfig()).reason is None


def test_the_no_on_another_line_does_not_count(propose):
    said = "I'm not in the office this week\nMy desk is on floor three"
    proposal = propose("The user's desk is on floor three.", quote=said[-26:], said_in=said)

    assert rule(proposal, Known(), MemoryConfig()).reason is None


def test_a_right_polarity_does_not_make_up_for_a_lost_no(propose):
    said = "You don't need to call ahead."
    proposal = propose("Call ahead.", quote=said, said_in=said, polarity="negative")

    assert rule(proposal, Known(), MemoryConfig()).reason == "negation_lost"


def test_what_a_caller_writes_in_its_own_words_is_not_checked_for_negation(propose):
    proposal = propose("Not a quote of anyone.", operation="write", quote=None, said_in=None)

    assert rule(proposal, Known(), MemoryConfig()).ruling == "accepted"
