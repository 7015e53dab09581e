"""English words that say nothing about a subject, left out of full-text queries."""

from __future__ import annotations

STOP_WORDS = frozenset(
    (  # noqa: SIM905 -- a list literal would take a line for each word
        "a about above after again against all also am an and any are as at be because been "
        "before being below between both but by can could d did do does doing don down during "
        "each few for from further had has have having he her here hers herself him himself "
        "his how i if in into is it its itself just ll m me more most my myself no nor not now "
        "of off on once only or other our ours ourselves out over own re s same she should so "
        "some such t than that the their theirs them themselves then there these they this "
        "those through to too under until up us ve very was we were what when where which "
        "while who whom why will with would you your yours yourself yourselves"
    ).split()
)
