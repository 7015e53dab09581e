"""``memplugin demo``: the story, live, on a store that is left to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memplugin.cli import output
from memplugin.cli.options import AsJson
from memplugin.cli.place import Place, place_of

DEFAULT_STORE = "demo-store"


def demo(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            help="Who decides: scripted (the same each time), local (a small real model), or "
            "PROVIDER:NAME (any chat model of LangChain)."
        ),
    ] = "scripted",
    as_json: AsJson = False,
) -> None:
    """Play the board pack: it fails at write, then at retrieval, then passes.

    The store is --store, or ./demo-store; what an earlier demo left there is replaced.
    Exits with 1 when the scripted agent does not fail where its faults were planted.
    """
    place = place_of(context)
    store = Path(place.store or DEFAULT_STORE)
    acts = _play(place, store, model, as_json=as_json)
    if as_json:
        output.print_json(acts)
    if model == "scripted" and any(not act["as_planted"] for act in acts):
        output.warn("a verdict is not the planted one: please report this with the output above.")
        raise typer.Exit(1)


def _play(place: Place, store: Path, model: str, *, as_json: bool) -> list[dict[str, Any]]:
    # LangGraph, the models and the store: no other command waits for them.
    from memplugin.cli import demo_parts, demo_view  # noqa: PLC0415 -- see above
    from memplugin.stories.play import play  # noqa: PLC0415 -- see above
    from memplugin.testing.spans import SpanCapture  # noqa: PLC0415 -- see above

    capture = SpanCapture(place.spans.provider())
    acts: list[dict[str, Any]] = []
    with demo_parts.models(model) as (extractor, decider, config):
        demo_parts.prepare(store)
        opener = demo_parts.opener(store, capture.provider)
        tracer = capture.provider.get_tracer("memplugin.demo")
        for played in play(opener, extractor, decider, config, tracer):
            if not as_json:
                output.show(*demo_view.act_view(played, capture.spans))
            capture.clear()
            acts.append(
                {
                    "act": played.act.number,
                    "as_planted": played.as_planted,
                    "record": played.record.to_json(),
                    "verdict": played.verdict.to_json(),
                }
            )
    if not as_json:
        output.show(*demo_view.next_view(str(store), model))
    return acts
