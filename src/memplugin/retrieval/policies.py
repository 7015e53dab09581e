"""The ranking policies. To add one, give ``Memory.open`` a ``Policy`` of your own."""

from __future__ import annotations

from collections.abc import Mapping

from memplugin.retrieval.rank import Hit, Policy


def dense(hit: Hit) -> float:
    """Cosine of query and content, -1 to 1; 0 without a vector."""
    return hit.dense or 0.0


def around(hit: Hit) -> float:
    """Cosine of query and the text around the record, else that of its content.

    A record without such a text is not worth less for it.
    """
    return dense(hit) if hit.around is None else hit.around


def lexical(hit: Hit) -> float:
    """Share of the query's words that full-text search found, rare ones counting more."""
    return hit.lexical


BALANCED = Policy(
    name="balanced",
    version=1,
    # Found on LoCoMo's dev half (`make bench`): the optimum is flat, a lexical weight of
    # 2.5 to 4 changes R@5 by less than .01, and standardising each query's scores or
    # dividing by its best hit gains nothing over plain cosines.
    parts={"lexical": (lexical, 3.0), "dense": (dense, 1.0), "around": (around, 1.0)},
    sources=frozenset({"dense", "lexical", "standing"}),
    floored=True,
)
"""Words and meaning together, and what stands beside them."""

SIMILARITY = Policy(
    name="similarity",
    version=1,
    parts={"dense": (dense, 1.0)},
    sources=frozenset({"dense"}),
    floored=False,
)
"""The nearest vectors and nothing else: what most agents do today."""

BUILT_IN: Mapping[str, Policy] = {p.name: p for p in (BALANCED, SIMILARITY)}
