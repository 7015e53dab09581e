"""Whether two texts say the same thing in other words, or the opposite in the same words.

Likeness in vector space does not tell "from Munich to Berlin" from "from Berlin to Munich",
or "helpful" from "ineffective". So two texts count as the same only when nothing that tells
them apart differs: negation, tense and obligation, numbers, names, every content word that is
no known synonym, and their order. A sentence is read as a head (what comes before the first
preposition) and phrases (a preposition and what follows it). Words that "and", "or" and commas
join may change places; phrases may in a sentence of one clause; nothing else may.

The tables are English. In another language every word is a content word: there only the same
words in the same order are the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from memplugin.write.quotes import folded

_TOKEN = re.compile(r"\d[\d.,:/]*\d|\w+(?:'\w+)?|,|[^\w\s]")
_ENDING = re.compile(r"(?:'s|s')$")

_SILENT_WORDS = (
    "a actually also am an any are be been being client customer did do does has have i is it "
    "its just kindly me my ok okay our person please quite really simply so some that the "
    "their theirs them then there these they this those too us user users very we well what "
    "which who yes you your i'm i've i'll i'd we're we've they're they've you're you've "
)
_SILENT = frozenset(_SILENT_WORDS.split())
"""Words without a say in what is meant: articles, fillers, and the person a memory is about."""

_JOINING = frozenset(("and", "or", ",", "&"))

_OWN_MEANING = (
    "from to than of for with by about into as before after until since over under between "
    "without against through during via per beyond behind below above beside near at because "
    "if when while unless "
)
_PREPOSITIONS = {
    **{word: word for word in _OWN_MEANING.split()},
    **dict.fromkeys(("in", "at", "on"), "at"),
    "till": "until",
    "regarding": "about",
    "concerning": "about",
    "onto": "to",
    "towards": "to",
    "toward": "to",
    "unlike": "than",
    "whenever": "when",
}

_PHRASES = (
    (r"\b(?:has|have|had|needs?|ought) to\b", " must "),
    (r"\b(?:is|are|am) (?:required|supposed|obliged) to\b", " must "),
    (r"\bused to\b", " was "),
    (r"\b(?:is|are|am) going to\b", " will "),
    (r"\bwould (?:like|love|prefer)\b", " wants "),
    (r"\be-?mails?\b", " email "),
    (r"\b(?:each|every) (day|week|month|year|morning|evening|night)s?\b", r" every\1 "),
    (r"\b(?:on|in|at) (?:a )?(dai|week|month|year)ly basis\b", r" \1ly "),
    (r"\bfrom now on\b|\bgoing forward\b|\bin (?:the )?future\b|\bhenceforth\b", " "),
    (r"\b(?:can't|cannot|can not) (?:stand|bear)\b", " hates "),
    (r"\bno longer\b|\b(?:do|does|is|are)(?:n't| not)\b(.*?)\bany ?more\b", r" not\1 "),
    (r"\b(?:do|does)(?:n't| not) (?:like|enjoy)\b", " dislikes "),
    (r"\bis (?:fond of|keen on|into)\b", " likes "),
    (r"\b(?:is|are) called\b|\bgoes by\b", " named "),
    (r"\bname is\b", " named "),
    (r"\b(?:a )?lot of\b|\blots of\b", " many "),
    (r"\bdollars?\b|\busd\b", " $ "),
    (r"\beuros?\b|\beur\b", " € "),
    (r"\bper ?cent\b", " % "),
    (r"\b(?:is|are|am) employed\b", " works "),
    (r"\$ ?(\d[\d,]*(?:\.\d+)?)", r" \1 $ "),
    (r"\bper annum\b|\bp\.a\.", " yearly "),
    (r"\b(\d+) ?([ap])\.?m\b\.?", r" \1 \2m "),
)
"""Turns of phrase that are one word for the comparison."""

_ANY_PHRASE = re.compile("|".join(f"(?:{pattern})" for pattern, _ in _PHRASES))

_SAME = """
like enjoy
love adore
dislike
hate detest loathe
buy purchase
begin start commence
big large
small little
child kid children
mother mum mom mommy
father dad daddy
film movie
flat apartment
colour color
favourite favorite
live reside
employ work
show display
use utilise utilize
answer reply respond
help assist
fast quick rapid
ill sick
shop store
sofa couch
holiday vacation
daily everyday
weekly everyweek
monthly everymonth
yearly annually everyyear annual
bike bicycle
television tv
photo picture photograph
speak talk
doctor physician
phone telephone
must should shall
can may could
want wish
was were
always invariably
never
gift present
meeting appointment
quarter q
reach contact
address speak_to
allergic allergy
vegetarian veggie
spouse
near close
metre meter
litre liter
programme program
report reporting
currently now presently
organise organize
handle manage
write compose
short brief concise
summary summarise summarize
"""
_CANON = {
    word: row.split()[0] for row in _SAME.strip().splitlines() for word in reversed(row.split())
}

_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {word: str(number) for number, word in enumerate(_NUMBER_WORDS.split())}
_PAST = {
    "bought": "buy",
    "sold": "sell",
    "made": "make",
    "gave": "give",
    "took": "take",
    "wrote": "write",
    "spoke": "speak",
    "left": "leave",
    "kept": "keep",
    "sent": "send",
    "paid": "pay",
    "went": "go",
    "began": "begin",
    "had": "have",
    "said": "say",
}
_PLURAL = {"children": "child", "people": "person", "men": "man", "women": "woman"}
_DENYING_WORDS = "aren't can't cannot didn't doesn't don't isn't never no not won't "
_DENYING = frozenset(_DENYING_WORDS.split())
_LIKING = frozenset(("like", "love", "prefer"))
_NOT_LIKING = frozenset(("dislike", "hate", "avoid"))
_AFTER_FRONTED = frozenset((",", "he", "she", "they", "we", "i", "it", "you"))
_SENTENCE = re.compile(r"[.!?;]+(?=\s|$)|\n+")


@dataclass(frozen=True)
class _Sentence:
    """What of a sentence has to be equal for two sentences to say the same.

    Attributes:
        head: The words before the first preposition.
        phrases: A preposition and what follows it, each. In their order, unless the sentence
            is of one clause: there "in May" and "at home" may change places.
    """

    head: tuple[str, ...]
    phrases: tuple[tuple[str, ...], ...]

    def without_denial(self) -> tuple[tuple[tuple[str, ...], ...], bool]:
        """The words but for those that say yes or no, and whether these come to a no."""
        parts = (self.head, *self.phrases)
        words = [word for part in parts for word in part]
        no = sum(word in _NOT_LIKING or word == "not" for word in words) % 2 == 1
        rest = tuple(
            tuple(
                "like" if word in _LIKING or word in _NOT_LIKING else word
                for word in part
                if word not in ("not", "always")
            )
            for part in parts
        )
        return rest, no


def only_reworded(one: str, other: str) -> bool:
    """Whether two texts that are close in meaning differ in nothing that tells them apart."""
    return _read(one) == _read(other)


def opposite(one: str, other: str) -> bool:
    """Whether one text says no to what the other says, in the same words otherwise.

    "Loves coriander" and "hates coriander", "eats meat" and "no longer eats meat". Of texts
    with several sentences all but one must be the same.
    """
    mine, others = _read(one), _read(other)
    left, right = list((mine - others).elements()), list((others - mine).elements())
    if len(left) != 1 or len(right) != 1:
        return False
    (said, no), (denied, not_so) = left[0].without_denial(), right[0].without_denial()
    return said == denied and no != not_so


@lru_cache(maxsize=512)  # a batch compares each of its texts with several that are near
def _read(text: str) -> Counter[_Sentence]:
    plain = folded(text)
    if _ANY_PHRASE.search(plain):
        for pattern, instead in _PHRASES:
            plain = re.sub(pattern, instead, plain)
    return Counter(_sentence(part) for part in _SENTENCE.split(plain) if part.strip())


def _sentence(plain: str) -> _Sentence:
    tokens = _TOKEN.findall(plain)
    simple = tokens.count(",") <= 1 and not _JOINING.intersection(tokens) - {","}
    head: list[str] = []
    phrases: list[list[str]] = []
    part = head
    for word in tokens:
        if word in _PREPOSITIONS:
            phrases.append([_PREPOSITIONS[word]])
            part = phrases[-1]
            continue
        if simple and not head and len(phrases) == 1 and _ends(phrases[0], word):
            part = head  # "In May she …", "on Friday reports …": the phrase has come first
        part.append(word)
    read = [(phrase[0], *_words(phrase[1:])) for phrase in phrases]
    return _Sentence(tuple(_words(head)), tuple(sorted(read) if simple else read))


def _ends(phrase: Sequence[str], following: str) -> bool:
    """Whether a phrase at the start of a sentence ends before a word."""
    return following in _AFTER_FRONTED or any(map(_canonical, phrase[1:]))


def _words(tokens: Sequence[str]) -> Iterator[str]:
    """The content words of a part in order; words that are joined stand in alphabetical order."""
    group: list[str] = []
    joined = False
    for token in tokens:
        if token in _JOINING:
            joined = True
            continue
        word = _canonical(token)
        if not word:
            continue
        if group and not joined:
            yield from sorted(group)
            group = []
        group.append(word)
        joined = False
    yield from sorted(group)


def _canonical(token: str) -> str:
    if token in _DENYING:
        return "not"
    word = _ENDING.sub("", token)
    if word in _SILENT or not (word[0].isalnum() or word in "$€£%#+-@/"):
        return ""
    if word[0].isdigit():
        return re.sub(r"(?<=\d),(?=\d{3}\b)", "", word).rstrip(".,:")
    if word in _NUMBERS:
        return _NUMBERS[word]
    if word in _PAST:
        return _same(_PAST[word]) + "-ed"
    if word.isascii() and word.endswith("ed") and len(word) > 5:
        return _same(word[:-1] if word[:-1] in _CANON else word[:-2]) + "-ed"
    return _same(_PLURAL.get(word, word))


def _same(word: str) -> str:
    return _CANON.get(word) or _CANON.get(_singular(word), _singular(word))


def _singular(word: str) -> str:
    if not word.isascii() or len(word) < 4:
        return word
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh")):
        if word.endswith(ending):
            return word[: -len(ending)] + instead
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word
