"""Tables of English words by which the gate tells a no, and one fact from another.

Patterns are searched in folded text (``quotes.folded``): lower case, straight apostrophes.
"""

from __future__ import annotations

import re

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

_TELLING = (
    "one two three four five six seven eight nine ten first second third last next previous"
    " monday tuesday wednesday thursday friday saturday sunday weekday weekdays weekend"
    " weekends january february march april may june july august september october november"
    " december spring summer autumn winter daily weekly monthly quarterly yearly annually"
    " morning afternoon evening night before after more less fewer most least always sometimes"
    " usually net gross min max minimum maximum increase decrease higher lower above below up"
    " down left right north south east west on off in out brother sister mother father mom dad"
    " husband wife son daughter uncle aunt his her he she buy sell import export metric imperial"
    " celsius fahrenheit light dark red blue green black white hot cold big small long short"
    " formal informal old new public private"
)
TELLING = frozenset(_TELLING.split())
"""Words whose swap makes another memory, while the sentence hardly moves in vector space."""
