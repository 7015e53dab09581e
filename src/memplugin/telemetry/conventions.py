"""The table of names as Markdown: ``python -m memplugin.telemetry.conventions``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from memplugin.telemetry import names

_HEAD = """\
# Names

Generated from `src/memplugin/telemetry/names.py`; a test holds it up to date:
`python -m memplugin.telemetry.conventions > otel/conventions.md`

`gen_ai.*` names are those of OpenTelemetry's GenAI semantic conventions (stability: development). \
"as the content mode has" means: as `MemoryConfig(content_on_spans=…)` says: left out, a keyed \
hash, a beginning, or the whole text up to 2,000 bytes.
"""


def markdown() -> str:
    """The document."""
    return "\n".join([_HEAD, *_spans(), *_attributes(), *_events(), *_links(), *_metrics()]) + "\n"


def _spans() -> Iterator[str]:
    yield "## Spans\n"
    yield from _table(
        ("span", "when", "`gen_ai.operation.name`"),
        (
            (f"`{o.span_name}`", o.when, f"`{o.span_name}`" if o.genai else "none")
            for o in names.OPERATIONS
        ),
    )


def _attributes() -> Iterator[str]:
    yield "## Attributes\n"
    yield from _table(
        ("attribute", "type", "on", "meaning"),
        ((f"`{a.key}`", a.type, a.where, a.meaning) for a in names.ATTRIBUTES.values()),
    )


def _events() -> Iterator[str]:
    yield "## Events\n"
    yield (
        f"`{names.CANDIDATE_EVENT}`: one for each of the first {names.MAX_EVENTS} candidates of a "
        f"search, with the attributes that stand on `candidate event` above.\n"
    )


def _links() -> Iterator[str]:
    yield "## Links\n"
    yield (
        f"At most {names.MAX_LINKS}, each with `{names.RELATION}`; the same is on the span in "
        f"`{names.LINKED_SPANS}` and `{names.LINK_RELATIONS}`, since some stores drop the "
        "attributes of links.\n"
    )


def _metrics() -> Iterator[str]:
    yield "## Metrics\n"
    yield "Of every call, whatever is sampled:\n"
    yield from _instruments(names.METRICS)
    yield "Counted from spans by the collector of this folder:\n"
    yield from _instruments(names.COUNTED)


def _instruments(metrics: Iterable[names.Metric]) -> Iterator[str]:
    yield from _table(
        ("metric", "type", "unit", "meaning", "by"),
        (
            (f"`{m.name}`", m.type, m.unit, m.meaning, ", ".join(f"`{a}`" for a in m.attributes))
            for m in metrics
        ),
    )


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = list(head)
    yield _row(head)
    yield _row("---" for _ in head)
    for row in rows:
        yield _row(row)
    yield ""


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.stdout.write(markdown())
