"""Finding what is quoted in what was said."""

from __future__ import annotations

import re
import unicodedata

_TYPOGRAPHY = {
    **dict.fromkeys((0x2018, 0x2019, 0x02BC, 0x60, 0xB4), "'"),
    **dict.fromkeys((0x201C, 0x201D, 0x201E, 0xAB, 0xBB), '"'),
    **dict.fromkeys((0x2010, 0x2011, 0x2013, 0x2014, 0x2212), "-"),
}
"""Apostrophes, quotation marks and dashes; one character for one, so that places stay."""

_WRAPPING = "\"'… "


def folded(text: str) -> str:
    """The form in which a quote is compared: NFC, case and typography folded.

    Blanks stay as they are, since a line's end is where a sentence ends.
    """
    return unicodedata.normalize("NFC", text).casefold().translate(_TYPOGRAPHY)


def find(quote: str, said: str) -> list[tuple[int, int]]:
    """Where a quote stands in ``folded(said)``: (start, end), none when it was not said.

    Any blank matches any blank, and quotation marks around the quote do not count. It must
    not begin or end inside a word: "tea" was not said in "team".
    """
    words = folded(quote).strip(_WRAPPING).split()
    if not words:
        return []
    pattern = r"\s+".join(map(re.escape, words))
    text = folded(said)
    found = (match.span() for match in re.finditer(pattern, text))
    return [span for span in found if not (_splits(text, span[0]) or _splits(text, span[1]))]


def _splits(text: str, at: int) -> bool:
    # Only where words are told apart by blanks: Japanese, for one, has none.
    around = text[max(at - 1, 0) : at + 1] if at else ""
    return len(around) == 2 and all(c.isascii() and c.isalnum() for c in around)
