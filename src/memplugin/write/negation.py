"""English words by which the gate tells a denial from an assertion, and one fact from another.

Patterns are searched in folded text (``quotes.folded``): lower case, straight apostrophes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memplugin.write.quotes import find, folded

_NOT = (
    r"(?:[a-z]+n't|(?:ca|wo|do|does|did|is|are|was|were|could|should|would|has|have|had"
    r"|ai|must|need)nt)"
)
_DO_NOT = rf"(?:{_NOT}|(?:do|does|did|would|should|must|will) not|never)"
_NO_SUBJECT = r"(?<!\bi )(?<!\bwe )(?<!\byou )(?<!\bhe )(?<!\bshe )(?<!\bit )(?<!\bthey )"

IDIOMS = re.compile(
    "|".join(
        (
            # Questions that ask for the thing: can't you, why don't we, isn't that.
            rf"{_NO_SUBJECT}\b(?!(?:don't|dont) you (?:ever|dare|go|start)\b){_NOT}"
            r" (?:you|we|i|he|she|it|they)\b",
            r"\b(?:isn't|wasn't|isnt|wasnt|doesn't) (?:that|this|there)\b",
            r"\b(?:have|did) (?:i|we) not\b",
            r"\bwhy not\b",
            r",?\s\bno\?",
            # Answers: "No, I meant …".
            r"(?:^|(?<=[.!?;,\n])|(?<=[.!?;,] ))\s*(?:oh |well |actually )?\bno(?=\s*[,.!;:-])",
            # The thing is wanted.
            r"\bnot (?:only|just|merely|simply|least|to mention|bad|mistaken|wrong)\b",
            r"\b(?:not|no|nothing|never)(?: \w+)? (?:against|opposed|averse|without)\b",
            r"\b(?:not|never) (?:a|an|any) (?:problem|issue|worry|trouble)\b",
            r"\bno (?:problems?|worries|doubt|matter|wonder|rush|hurry|objections?|big deal)\b",
            rf"\b{_DO_NOT} (?:you )?(?:forget|hesitate|mind|fail to|neglect|object|get me wrong)\b",
            r"\bnever ?mind\b",
            rf"{_NO_SUBJECT}\b{_DO_NOT} (?:you )?(?:worry|miss)\b",
            rf"\b(?:{_DO_NOT}|not|cannot) (?:stop|quit)\b",
            rf"\b(?:{_NOT}|cannot|can not) (?:wait|help|complain|get enough|resist|go wrong"
            r"|agree more|(?:live|do|go|be|work) without|be (?:happier|better))\b",
            # The speaker does not know.
            r"\bnot (?:\w+ )?(?:sure|certain)\b",
            rf"\b{_DO_NOT} know (?:if|whether)\b",
            r"\b(?:whether|believe it|like it) or not\b|\bor not(?=\s*[?.,!]|\s*$)",
            r"\bif (?:not\b|(?:it|that|this)(?:'s not| is not| isn't) (?:too|already)\b"
            r"|you haven't\b)",
            # Amounts and numbers.
            r"\b(?:no|not) (?:more|less|fewer|later|earlier|sooner|longer|other) than\b",
            r"\b(?:nothing (?:but|beats|like|better)|none other than)\b",
            r"\bno\b\.?\s*#?(?=\d)",
        )
    )
)

_STOP = (
    r"(?<!bus )(?<!full )(?<!next )(?<!last )(?<!first )(?<!pit )(?<!\ba )(?<!\bthe )"
    r"(?<!every )(?<!each )(?<!non-)(?<!non )(?<!one-)"
    r"\b(?:stop|stops|stopped|stopping|quit|cease|ceased)\b"
    r"(?! (?:by|at|over|off|in|here|there|for|sign|light|loss|words?)\b)(?!-)"
)
DENIAL = re.compile(
    rf"\b{_NOT}\b|\bno (?:longer|more|need|point|one|intention)\b"
    r"|\b(?:not|never|cannot|neither|nor|nobody)\b"
)
EXCLUSION = re.compile(
    rf"{_STOP}|\b(?:without|no|none|nothing|nowhere|except|excluding|apart from|other than)\b"
    r"|\b(?:hat(?:e|es|ed)(?! to\b)|(?:dislike|detest|loathe|avoid|refuse)[sd]?|detested|avoided)\b"
)
"""What a memory must keep, without its polarity having to be negative."""

LIMIT = re.compile(r"\b(?:unless|until|till|without|except|before|but|other than)\b")
"""With one of these a denial says when, not whether: "don't send it before Monday"."""

CUES = re.compile(
    r"\b(?:"
    r"dislik|dis(?:agree|approv|allow|continu|trust|abl|interest)|hat(?:e|es|ed|ing)\b|loath|detest"
    r"|avoid|refus|reject|declin|oppos|object|against|forbid|forbade|prohibit|bann?(?:ed|s)?\b"
    r"|stop|quit|ceas|cancel|end(?:ed|s)\b|gave up|giv(?:en|es|ing) up|drop|remov|omit|skip"
    r"|exclud|exempt|except|without|free\b|opt(?:s|ed|ing)? out|unsubscrib|ban\b"
    r"|un(?:abl|wanted|willing|need|necessar|requir|comfort|happy|interest|availab|aware|fit|likely)"
    r"|impossib|incorrect|inappropriat|lack|miss(?:es|ing)\b|fail|wrong|false|former|used to"
    r"|only|instead|rather than|other than|apart from|optional|allerg|intoleran|vega?n|vegetar"
    r"|no\b|none\b|nothing|nobody|nowhere|hardly|rarely|seldom|barely|prefer\w*\b[^.]*?\b(?:to|over)\b"
    r"|keep \w+ (?:away|out|off)|leave \w+ out|less\b|fewer\b"
    r")"
)

_HARD_BREAK = r"[.!?;]+(?=\s|$)|\n+"
_BUT = r"(?<!anything )(?<!nothing )(?<!everything )(?<!anyone )(?<!\ball )\bbut\b"
_OTHER_HAND = r"\b(?:although|though|however|whereas)\b"
_AND = rf"\band\s+(?=(?:i|we|you|they|he|she|it|please|always|instead|let's|not|never|no|{_NOT})\b)"
BREAK = re.compile(rf"(?P<hard>{_HARD_BREAK}|{_BUT}|{_OTHER_HAND})|,|:\s|\s-+\s|{_AND}")

OF_ITS_OWN = re.compile(
    r"^\s*(?:so|then|otherwise)\b|\binstead\b"
    r"|\b(?:i|we|you|they|he|she|it|please|always|only|is|are|was|were|am|do|does|did|can|could"
    r"|will|would|should|must|may|let's)\b|'(?:s|m|re|ve|ll|d)\b"
    r"|\b(?:use|send|call|write|report|keep|make|put|give|show|prefers?|likes?|loves?|wants?"
    r"|needs?)\s+\w"
)
"""What makes a part of a sentence stand alone. "I don't eat meat, fish, or eggs" is one no."""

_COMMON = (
    "the a an to of in on at for with my me i you your we our us is are am be been do does did"
    " doesn don didn and or but that this it its user users so as by from will would can has have"
    " not no never wants want"
    " use uses used using like likes need needs any more"
)
COMMON = frozenset(_COMMON.split())
"""Words that two sentences may share without being about the same."""

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

    Args:
        quote: Verbatim from the turn.
        said_in: The turn's text.
        content: What is proposed.

    Returns:
        The clauses.
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
