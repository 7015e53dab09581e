"""What of a stored text may stand on a span."""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from memplugin.config import ContentMode
from memplugin.telemetry.names import MAX_STRING_BYTES
from memplugin.text import clean

_LABEL = re.compile(r"(?=.{1,40}\Z)[A-Za-z0-9]+(?:[_.-][A-Za-z0-9]+){0,2}")
"""At most three words that are joined: an extractor joins whole sentences."""

_RECORD_ID = re.compile(r"m_[A-Za-z0-9_-]{1,62}")

_HASH_BYTES = 120
"""Enough for a hash and a length behind a beginning."""


def limited(text: str, limit: int = MAX_STRING_BYTES) -> str:
    """At most ``limit`` bytes of UTF-8, cut between characters, and nothing an exporter chokes on.

    A lone surrogate would lose the whole batch that its span is in.
    """
    if len(text) <= limit and text.isascii() and "\x00" not in text:
        return text  # nearly everything on a span, some 300 times on that of a search
    text = clean(text[:limit])
    encoded = text.encode("utf-8")
    return text if len(encoded) <= limit else encoded[:limit].decode("utf-8", errors="ignore")


def is_label(text: str) -> bool:
    """Whether a text is a name for a class of things, and not somebody's sentence."""
    return _LABEL.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class ContentPolicy:
    """How texts are shown.

    Attributes:
        mode: ``none`` leaves them out, ``hash`` shows a keyed hash (short texts can't be
            guessed without the key), ``truncate`` a beginning with hash and length,
            ``full`` the text.
        key: Key of the hash.
        chars: Length of the beginning for ``truncate``.
    """

    mode: ContentMode
    key: bytes
    chars: int = 80

    def shown(self, text: str) -> str | None:
        """Returns what may stand on a span; None for nothing."""
        if self.mode == "none":
            return None
        if self.mode == "full":
            return limited(text)
        if self.mode == "hash":
            return self._hash(text)
        beginning = limited(text[: self.chars], MAX_STRING_BYTES - _HASH_BYTES)
        return f"{beginning} [{self._hash(text)}, {len(text)} characters]"

    def label(self, text: str) -> str | None:
        """A name for a class of things (a kind, a failure mode) is shown as it is.

        Anything longer may be somebody's sentence: a model gives what it likes.
        """
        return text if not text or is_label(text) else self.shown(text)

    def record_id(self, given: str) -> str | None:
        """A record's id as somebody gave it; a model cites texts too."""
        return given if _RECORD_ID.fullmatch(given) else self.shown(given)

    def _hash(self, text: str) -> str:
        signed = hmac.new(self.key, clean(text).encode("utf-8"), hashlib.sha256)
        return f"hmac-sha256:{signed.hexdigest()[:32]}"
