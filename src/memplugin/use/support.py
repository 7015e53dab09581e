"""Which record supports the chosen answer, and whether the model was shown it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from memplugin.records import Candidate, Support
from memplugin.text import normalised

_SHORTEST = 3
"""Characters of an answer that is looked up in texts; shorter ones stand in too many."""


def chosen_support(
    answer: Mapping[str, Any], cited: Collection[str], candidates: Sequence[Candidate]
) -> Support | None:
    """The best ranked record that supports an answer.

    Records that claim what the answer says count before those the model cited, and these
    before those whose text only names the answer. A record whose scope does not apply
    supports nothing here.

    Args:
        answer: The answer's fields as JSON values, without its reasoning.
        cited: Ids that the model cited.
        candidates: All of the retrieval, also those that were cut.
    """
    applicable = [c for c in candidates if c.cut != "inapplicable_scope"]
    named = [_whole_word(text) for text in _texts(answer) if len(text) >= _SHORTEST]
    ways: tuple[Callable[[Candidate], bool], ...] = (
        lambda c: claims(c.claim or {}, answer),
        lambda c: c.record_id in cited,
        lambda c: any(word.search(normalised(c.content)) for word in named),
    )
    for supports in ways:
        if found := [c for c in applicable if supports(c)]:
            best = min(found, key=lambda c: c.rank)
            return Support(best.record_id, best.rank, best.score, best.injected)
    return None


def claims(claim: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    """Whether a claim shares a field with the answer, and agrees in every one it shares."""
    shared = claim.keys() & answer.keys()
    return bool(shared) and all(same(claim[field], answer[field]) for field in shared)


def same(left: object, right: object) -> bool:
    """Equality of two JSON values; of texts without regard to case and blanks."""
    if isinstance(left, str) and isinstance(right, str):
        return normalised(left) == normalised(right)
    if isinstance(left, bool) or isinstance(right, bool):  # True == 1 in Python, not in JSON
        return left is right
    return left == right


def _texts(answer: Mapping[str, Any]) -> Iterator[str]:
    for value in answer.values():
        for one in cast(list[object], value) if isinstance(value, list) else [value]:
            if isinstance(one, str):
                yield normalised(one)


def _whole_word(text: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(text)}(?!\w)")
