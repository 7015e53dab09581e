"""The same in other words is told from what only looks the same, and from the opposite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplugin.write.wording import only_reworded, opposite

SAME = [
    ("The user likes green tea.", "User enjoys green tea."),
    ("Please always answer in German.", "Always reply in German."),
    ("Reports should be net of tax.", "Reports must be net of tax."),
    ("I live in Berlin with two cats.", "The user resides in Berlin with 2 cats."),
    ("She bought a car in 2021.", "In 2021 she purchased a car."),
    ("Meetings are on Monday at 9 am.", "Meetings are at 9 am on Monday."),
    ("Likes hiking and swimming.", "Likes swimming and hiking."),
    ("My favourite colour is blue.", "Favorite color is blue."),
    ("The user is allergic to nuts.", "User has an allergy to nuts."),
    ("Use metric units from now on.", "Please use metric units."),
    ("Has to leave at 5 pm.", "Must leave at 5 pm."),
    ("Sends the report weekly.", "Sends the report every week."),
    ("Works for Primex as a plumber.", "Works as a plumber for Primex."),
    ("Their daughter is called Mia.", "Their daughter's name is Mia."),
    ("The budget is $12,000.", "The budget is 12000 dollars."),
    ("Don't call before 10.", "Never call before 10."),
    ("Prefers short summaries.", "Prefers brief summaries."),
    ("He works in Paris.", "He is employed in Paris."),
    ("We start at nine.", "We begin at 9."),
    ("They have three children.", "They have 3 kids."),
    ("The mother lives in Oslo.", "Mum lives in Oslo."),
    ("Contact me by phone.", "Reach me by telephone."),
    ("Show charts in reports.", "Display charts in reports."),
    ("Needs to take vitamin D daily.", "Has to take vitamin D every day."),
    ("He can swim.", "He could swim."),
    ("Pays 5 percent interest.", "Pays 5 % interest."),
    ("The flat is in Leeds.", "The apartment is in Leeds."),
    ("Loves jazz, soul and funk.", "Loves funk, jazz and soul."),
    ("In winter he skis in Tyrol.", "He skis in Tyrol in winter."),
    ("Would like a window seat.", "Wants a window seat."),
]
DIFFERENT = [
    ("Lived in Paris", "Lives in Paris"),
    ("Bob works. Kim sleeps with Ann.", "Bob works with Ann. Kim sleeps."),
    ("Bob works, Kim sleeps with Ann", "Bob works with Ann, Kim sleeps"),
    ("Bob eats meat with Ann, fish with Kim", "Bob eats meat with Kim, fish with Ann"),
    ("Likes dogs, not cats", "Likes cats, not dogs"),
    ("Dever replaced Primex", "Primex replaced Dever"),
    ("Works nights at home and days at the office", "Works days at home and nights at the office"),
    ("Primex is better, Dever is worse", "Dever is better, Primex is worse"),
    ("He owes her money", "She owes him money"),
    ("Gave Ann the keys for Bob", "Gave Bob the keys for Ann"),
    ("The deadline moved from Friday to Monday", "The deadline moved from Monday to Friday"),
    ("Only Ann may approve", "Ann may only approve"),
    ("Ships to the EU but not the UK", "Ships to the UK but not the EU"),
    ("flies from Munich to Berlin", "flies from Berlin to Munich"),
    ("Dever is dearer than Primex", "Primex is dearer than Dever"),
    ("The cream was ineffective", "The cream was helpful"),
    ("Wait outside the fence", "Wait within the fence"),
    ("raised from $12,000 to $15,000", "raised from $15,000 to $12,000"),
    ("Sales are increasing", "Sales are decreasing"),
    ("sold the house to Ann", "bought the house from Ann"),
    ("Pay within 30 days", "Pay within 45 days"),
    ("Alice manages Bob", "Bob manages Alice"),
    ("Meeting on Monday", "Meeting on Tuesday"),
    ("Was vegan", "Is vegan"),
    ("You may smoke here", "You must smoke here"),
    ("Send it before noon", "Send it after noon"),
    ("Revenue net of tax", "Revenue gross of tax"),
    ("Ann's brother lives in Rome", "Ann's sister lives in Rome"),
    ("Prefers tea over coffee", "Prefers coffee over tea"),
    ("The cat chased the dog", "The dog chased the cat"),
    ("Always call first", "Sometimes call first"),
    ("3 March is the deadline", "13 March is the deadline"),
    ("Ann lent Bob 50 euros", "Bob lent Ann 50 euros"),
    ("Meets Tom without Kim", "Meets Kim without Tom"),
    ("Use red for losses and green for gains", "Use green for losses and red for gains"),
    ("The red door and the blue window", "The blue door and the red window"),
    ("Works for Ann and reports to Bob", "Works for Bob and reports to Ann"),
    ("Primex handles pests", "Dever handles pests"),
    ("Emails only at weekends", "Emails at weekends"),
    ("The north gate is open", "The south gate is open"),
    ("Uses Python 3.11", "Uses Python 3.12"),
    ("Turn the heating up", "Turn the heating down"),
    ("Rent is 900 including bills", "Rent is 900 excluding bills"),
    ("Ann thinks Bob is late", "Bob thinks Ann is late"),
    ("Left the company in May", "Joined the company in May"),
]
OPPOSITE = [
    ("Loves coriander", "Hates coriander"),
    ("Likes tea", "Dislikes tea"),
    ("I don't like tea", "I love tea"),
    ("Eats meat", "Does not eat meat"),
    ("Use bullet points", "Don't use bullet points"),
    ("Ann works from home", "Ann no longer works from home"),
    ("Enjoys long meetings", "Can't stand long meetings"),
    ("Always call first", "Never call first"),
    ("Allergic to nuts", "Not allergic to nuts"),
    ("Not before Monday", "Before Monday"),
    ("She is vegan", "She isn't vegan anymore"),
    ("Ann eats fish. Bob sings.", "Ann never eats fish. Bob sings."),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words_is_the_same(one: str, other: str) -> None:
    assert only_reworded(one, other)
    assert only_reworded(other, one)
    assert not opposite(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_only_looks_alike_is_neither_the_same_nor_the_opposite(one: str, other: str) -> None:
    assert not only_reworded(one, other)
    assert not only_reworded(other, one)
    assert not opposite(one, other)


@pytest.mark.parametrize(("one", "other"), OPPOSITE)
def test_a_no_to_the_same_words_is_the_opposite(one: str, other: str) -> None:
    assert opposite(one, other)
    assert opposite(other, one)
    assert not only_reworded(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("北京から東京へ", "東京から北京へ"),
        ("Kommt aus München nach Berlin", "Kommt aus Berlin nach München"),
        ("Aime le thé", "N'aime pas le thé"),
    ],
)
def test_in_another_language_other_words_are_another_memory(one: str, other: str) -> None:
    assert not only_reworded(one, other)


WORDS = st.sampled_from(["Ann", "Bob", "Primex", "tea", "likes", "from", "to", "12", "and", "not"])
TEXTS = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)


@given(TEXTS, TEXTS)
def test_the_comparison_has_no_direction(one: str, other: str) -> None:
    assert only_reworded(one, other) == only_reworded(other, one)
    assert opposite(one, other) == opposite(other, one)


@given(TEXTS)
def test_a_text_is_itself_and_never_its_own_opposite(text: str) -> None:
    assert only_reworded(text, text.upper())
    assert not opposite(text, text)


@given(st.permutations(["Ann", "owes", "Bob", "twelve", "euros"]))
def test_words_that_nothing_joins_keep_their_order(words: list[str]) -> None:
    given = ["Ann", "owes", "Bob", "twelve", "euros"]
    assert only_reworded(" ".join(given), " ".join(words)) == (words == given)
