"""What of a stored text may stand on a span."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from memplugin.config import ContentMode
from memplugin.telemetry.names import MAX_STRING_BYTES
from memplugin.text import clean


def limited(text: str, limit: int = MAX_STRING_BYTES) -> str:
    """At most ``limit`` bytes of UTF-8, cut between characters."""
    encoded = text.encode("utf-8", errors="replace")
    return text if len(encoded) <= limit else encoded[:limit].decode("utf-8", errors="ignore")


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
            return limited(clean(text))
        if self.mode == "hash":
            return self._hash(text)
        beginning = limited(clean(text[: self.chars]), MAX_STRING_BYTES - 120)
        return f"{beginning} [{self._hash(text)}, {len(text)} characters]"

    def _hash(self, text: str) -> str:
        signed = hmac.new(self.key, clean(text).encode("utf-8"), hashlib.sha256)
        return f"hmac-sha256:{signed.hexdigest()[:32]}"
