"""Whether a sentence says no, and whether a memory of it still does.

It goes by tables of English words (``english``), not by grammar, and errs towards hearing a
no: a memory rejected for it stays visible in the ledger, one stored as its opposite does
not. Texts in other languages hold few of these words and pass; a caller's own check can
look at them.

    "I don't drink coffee"                denial: the memory must say no, and be negative
    "coffee without sugar", "no calls"    exclusion: the memory must keep it
    "can't you …?", "don't forget to …"   idiom: not a no at all
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memplugin.write.english import (
    BREAK,
    COMMON,
    CUES,
    DENIAL,
    EXCLUSION,
    IDIOMS,
    LIMIT,
    OF_ITS_OWN,
)
from memplugin.write.quotes import find, folded

_FRAGMENT_WORDS = 3
"""A part of a sentence this short hangs on the one before, unless it can stand alone."""

_PLACES = 50
"""How many occurrences of a quote are looked at. What is said more often proves nothing."""


@dataclass(frozen=True, slots=True)
class Clause:
    """A part of what was said, by its place in the folded text."""

    start: int
    end: int
    text: str
    denies: bool
    excludes: bool

    @property
    def says(self) -> str:
        """What is denied, "one month" in "the notice isn't one month"; else all of it."""
        denial = DENIAL.search(self.text)
        return self.text[denial.end() :] if denial else self.text

    @property
    def limited(self) -> bool:
        """Whether its denial says when, and not whether."""
        return self.denies and LIMIT.search(self.text) is not None


def negative(text: str) -> bool:
    """Whether a text says no in any way: denial, exclusion, or a word such as "avoids"."""
    plain = _plain(text)
    return any(pattern.search(plain) for pattern in (DENIAL, EXCLUSION, CUES))


def clauses_said(quote: str, said_in: str, content: str) -> list[Clause]:
    """The clauses that a quote is from; of several, those that the memory is about.

    The quote is seen where it stands: whoever quotes "like tea" out of "I don't like tea"
    has quoted a denial.
    """
    places = find(quote, said_in)
    touched = [
        clause
        for clause in _clauses(said_in)
        if any(clause.start < end and start < clause.end for start, end in places[:_PLACES])
    ]
    about = _words(content)
    shared = [len(about & _words(clause.says)) for clause in touched]
    best = max(shared, default=0)
    return [clause for clause, n in zip(touched, shared, strict=True) if n == best or not best]


def keeps(content: str, clause: Clause) -> bool:
    """Whether a memory still says no where the clause does.

    A negative word that the clause has besides its denial is no trace of that denial: "I'm
    not allergic" is not kept by "allergic".
    """
    plain = _plain(content)
    if DENIAL.search(plain):
        return True
    if not clause.denies:
        return not clause.excludes or negative(content)
    return bool(_cues(plain) - _cues(clause.text))


def _plain(text: str) -> str:
    return IDIOMS.sub(lambda match: " " * len(match[0]), folded(text))


def _cues(plain: str) -> set[str]:
    return {match[0][:5] for match in CUES.finditer(plain)}


def _clauses(text: str) -> list[Clause]:
    plain = _plain(text)
    found: list[Clause] = []
    start, continues = 0, False
    for match in [*BREAK.finditer(plain), None]:
        end = match.start() if match else len(plain)
        before = found[-1] if found and continues else None
        found.append(_clause(plain, start, end, before))
        start = match.end() if match else end
        continues = match is not None and match["hard"] is None
    return [clause for clause in found if clause.text.strip()]


def _clause(plain: str, start: int, end: int, before: Clause | None) -> Clause:
    text = plain[start:end]
    depends = before is not None and (
        re.match(r"\s*(?:or|nor)\b", text) is not None
        or (len(text.split()) <= _FRAGMENT_WORDS and not OF_ITS_OWN.search(text))
    )
    inherits = depends and before is not None and before.denies
    return Clause(
        start=start,
        end=end,
        text=text,
        denies=inherits or DENIAL.search(text) is not None,
        excludes=EXCLUSION.search(text) is not None,
    )


def _words(text: str) -> set[str]:
    words = re.findall(r"[^\W_]+", folded(text))
    return {_stem(word) for word in words if len(word) > 1 and word not in COMMON}


def _stem(word: str) -> str:
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3:
            word = word.removesuffix(ending)
    if not word.endswith("ss"):
        word = word.removesuffix("s")
    return word.removesuffix("e")
