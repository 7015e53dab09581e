"""Memories and questions as an agent's store holds them, made up, the same for a seed."""

# ruff: noqa: SIM905 -- lists of words are read as words

from __future__ import annotations

import random
from collections.abc import Iterator

_SLOTS: dict[str, tuple[str, ...]] = {
    "name": tuple(
        "Amara Anton Beatriz Bjorn Camille Chidi Dariusz Devika Elif Emil Farah Fergus Giulia "
        "Hana Hugo Ines Ivo Jaya Jonas Kamal Karin Leila Lucas Malik Marta Nadia Nils Oksana "
        "Omar Paula Priya Quentin Rafael Rosa Samir Sofia Tariq Tessa Umar Vera Wen Yusuf".split()
    ),
    "city": tuple(
        "Accra Antwerp Bergen Bilbao Bremen Cork Dakar Delft Essen Gdansk Ghent Izmir Kyoto Lagos "
        "Leeds Lima Lyon Malmo Mumbai Nairobi Osaka Porto Quito Riga Sofia Tallinn Turin "
        "Vilnius Zagreb Zurich".split()
    ),
    "vendor": tuple(
        "Albatech Brightlane Cargofy Deltapress Ecoblock Fernhill Gantry Harborline Inkwell "
        "Jetstone Kestrel Lumenor Mapleton Northgate Oakfield Primex Quarrystone Redfern "
        "Silverbirch Tidewater Umbra Vantage Westmark Yellowtail Zephyr".split()
    ),
    "thing": tuple(
        "aisle seats|bullet points|short summaries|dark roast coffee|green tea|long reports|"
        "morning calls|paper tickets|phone calls|printed slides|quiet hotels|shared desks|"
        "spreadsheets|standing meetings|text messages|track changes|train journeys|"
        "video calls|vegetarian menus|voice notes|weekly digests|whiteboards|window seats|"
        "written agendas".split("|")
    ),
    "activity": tuple(
        "booking travel|closing the books|comparing quotes|drafting a contract|hiring|"
        "hosting clients|onboarding a supplier|planning a release|preparing the board pack|"
        "reviewing invoices|running a workshop|scheduling repairs|signing off a budget|"
        "travelling with children|writing minutes".split("|")
    ),
    "product": tuple(
        "billing portal|boiler controller|checkout page|claims tracker|data warehouse|"
        "delivery app|fleet scheduler|heat pump|intranet|irrigation valve|loyalty card|"
        "mobile scanner|parts catalogue|payroll export|press line|quality dashboard|"
        "route planner|sensor gateway|solar inverter|survey tool".split("|")
    ),
    "trade": tuple(
        "carpentry catering cleaning electrical flooring gardening glazing heating locksmith "
        "masonry painting pest plumbing roofing scaffolding security".split()
    ),
    "food": tuple(
        "almonds celery cheese eggs garlic lentils lupin milk mushrooms mustard oysters peanuts "
        "rye sesame shrimp soy strawberries tomatoes walnuts wheat".split()
    ),
    "day": tuple("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()),
    "month": tuple(
        "January February March April May June July August September October November "
        "December".split()
    ),
}

_MEMORIES = (
    "{name} prefers {thing} to {thing} when {activity}.",
    "{name} from the {city} office asked for {thing} whenever the team is {activity}.",
    "The {product} is released on {day}s, after {name} has signed it off in {city}.",
    "{vendor} does the {trade} work in {city} and charges {number} euros a day since {month}.",
    "Invoices from {vendor} above {number} euros are approved by {name} before the {ordinal}.",
    "{name} is allergic to {food} and brings {food} to every lunch in {city}.",
    "{name} moved from {city} to {city} in {month} to work on the {product}.",
    "The contract with {vendor} for {trade} ends on {ordinal} {month}; {name} renews it.",
    "{name} said that {vendor} was {number} minutes late for the {trade} job in {month}.",
    "Order {code} for the {product} was sent to {city} on {ordinal} {month} by {vendor}.",
    "When {activity}, {name} wants the numbers of the {product} first and {thing} after.",
    "{name} and {name} met in {city} on a {day} in {month} to talk about {activity}.",
    "The door code of the {city} office is {number}{number}, changed by {name} in {month}.",
    "{name} runs the {product} team and never works on {day}s.",
)
_QUESTIONS = (
    "What does {name} prefer when {activity}?",
    "Which vendor does the {trade} work in {city}?",
    "Who approves invoices from {vendor}?",
    "What can {name} not eat?",
    "When does the contract with {vendor} for {trade} end?",
    "On which day is the {product} released?",
    "Where does {name} work on the {product} now?",
    "What happened to order {code} for the {product}?",
    "Who did {name} meet in {city} in {month}?",
    "Was {vendor} late for the {trade} job?",
)


def memories(count: int, seed: int) -> list[str]:
    """Different sentences of 8 to 20 words."""
    found: dict[str, None] = {}
    for sentence in _sentences(_MEMORIES, seed):
        found[sentence] = None
        if len(found) == count:
            return list(found)
    raise AssertionError("sentences do not end")


def questions(count: int, seed: int) -> list[str]:
    """Questions about what such memories say."""
    made = _sentences(_QUESTIONS, seed)
    return [next(made) for _ in range(count)]


def _sentences(templates: tuple[str, ...], seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    while True:
        yield _filled(chance.choice(templates), chance)


def _filled(template: str, chance: random.Random) -> str:
    before, *rest = template.split("{")
    parts = [before]
    for piece in rest:
        slot, _, after = piece.partition("}")
        parts += [_word(slot, chance), after]
    return "".join(parts)


def _word(slot: str, chance: random.Random) -> str:
    if slot == "number":
        return str(chance.randrange(10, 1_000))
    if slot == "ordinal":
        return f"{chance.randrange(1, 29)}"
    if slot == "code":
        return f"{chance.choice('ABCDEFGH')}{chance.randrange(10_000, 100_000)}"
    return chance.choice(_SLOTS[slot])
