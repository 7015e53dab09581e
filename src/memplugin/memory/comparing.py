"""Cosines of what was shown and what was done, many rows at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from memplugin.crediting import Score, Shown
from memplugin.errors import EmbedderError, EmbedderUnavailable
from memplugin.learning.follow import MAX_ERROR, cosine
from memplugin.memory.store import Store, log
from memplugin.text import clean

Vector = NDArray[np.float32]

HELD = 4_096
"""Vectors of records' contents that are held: the same few are shown again and again."""


@dataclass(slots=True)
class Comparer:
    """Embeds contents and actions with the store's own model.

    Attributes:
        needed: Whether there is no other sign: then a model that can't be loaded is an error.
        cut_short: Distinct actions longer than the model reads; it compares their beginning.
    """

    store: Store
    needed: bool
    cut_short: int = 0
    _contents: dict[str, Vector] = field(default_factory=dict[str, Vector])
    _long: set[str] = field(default_factory=set[str])
    _missing: bool = False

    def compared(self, rows: Sequence[Shown]) -> Iterator[Score]:
        """A score with its cosine for each row; with an error where there can't be one.

        Raises:
            EmbedderUnavailable: the model can't be loaded, and is needed.
        """
        without = [row for row in rows if row.cosine is None]
        failures: dict[str, str] = {}
        vectors = self._vectors(without, failures)
        for row in rows:
            both = vectors.get(row.content), vectors.get(row.action)
            failure = failures.get(row.content) or failures.get(row.action)
            yield _score(row, both, failure)

    def _vectors(self, rows: Sequence[Shown], failures: dict[str, str]) -> dict[str, Vector]:
        if not rows or self._missing:
            return {}
        if len(self._contents) > HELD:
            self._contents.clear()
        contents = {row.content for row in rows}
        actions = {row.action for row in rows}
        wanted = sorted({*contents, *actions} - self._contents.keys())
        try:
            found = self._embedded(wanted, failures)
            self._note_long(actions)
        except EmbedderUnavailable as error:
            if self.needed:
                raise
            self._missing = True
            log.warning("no cosines are computed: %s", error)
            return {}
        self._contents |= {text: found[text] for text in contents & found.keys()}
        return {**self._contents, **found}

    def _embedded(self, texts: Sequence[str], failures: dict[str, str]) -> dict[str, Vector]:
        if not texts:
            return {}
        try:
            return dict(zip(texts, self.store.embedder.embed(texts), strict=True))
        except EmbedderUnavailable:
            raise
        except EmbedderError as error:
            if len(texts) == 1:
                failures[texts[0]] = clean(f"cosine: {error}")[:MAX_ERROR]
                return {}
        # One text that can't be embedded must not cost the others theirs.
        return {t: v for text in texts for t, v in self._embedded([text], failures).items()}

    def _note_long(self, actions: Iterable[str]) -> None:
        new = sorted(set(actions) - self._long)
        long = [
            text for text, cut in zip(new, self.store.embedder.truncates(new), strict=True) if cut
        ]
        self._long.update(long)
        self.cut_short = len(self._long)


def _score(row: Shown, both: tuple[Vector | None, Vector | None], failure: str | None) -> Score:
    content, action = both
    if row.cosine is not None or failure or content is None or action is None:
        return Score(row, error=failure)
    found = cosine(content, action)
    return Score(row, cosine=found, error=None if found is not None else "cosine: not a number")
