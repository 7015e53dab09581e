"""``memplugin demo``: the stories, live; the first on a store that is left to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from memplugin.cli import output
from memplugin.cli.options import AsJson
from memplugin.cli.place import Place, place_of

DEFAULT_STORE = "demo-store"

Story = Literal["board-pack", "wasp", "hardening", "escalation", "all"]


def demo(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(
            help="Who decides: scripted (the same each time), local (a small real model), or "
            "PROVIDER:NAME (any chat model of LangChain)."
        ),
    ] = "scripted",
    story: Annotated[
        Story,
        typer.Option(
            help="The board pack fails at write, then at retrieval, then passes. The others are "
            "scripted: in the wasp work order, the right vendor is known and ranked fourth; in the "
            "hardening run, tips get credit for successes they had no part in; "
            "the production escalation has 2,000 tasks, one in fifty sampled, content hashed."
        ),
    ] = "all",
    as_json: AsJson = False,
) -> None:
    """Play the stories: what failed, and how that can be told.

    The store of the board pack is --store, or ./demo-store, and that of the hardening run is
    in it; what an earlier demo left there is replaced. Exits with 1 when a scripted agent
    does not fail where its faults were planted, when credit does not fall as it should, or
    when traces tell another story than the ledger.
    """
    place = place_of(context)
    told: dict[str, Any] = {}
    as_told = True
    store = Path(place.store or DEFAULT_STORE)
    if story in ("board-pack", "all"):
        told["board_pack"] = acts = _play(place, store, model, as_json=as_json)
        as_told = model != "scripted" or all(act["as_planted"] for act in acts)
    if story == "wasp" or (story == "all" and model == "scripted"):
        told["wasp"], as_promised = _dispatch(place, store / "wasp", as_json=as_json)
        as_told = as_told and as_promised
    if story == "hardening" or (story == "all" and model == "scripted"):
        told["hardening"], as_promised = _harden(place, store / "hardening", as_json=as_json)
        as_told = as_told and as_promised
    if story == "escalation" or (story == "all" and model == "scripted"):
        told["escalation"], as_promised = _escalate(place, as_json=as_json)
        as_told = as_told and as_promised
    if as_json:
        output.print_json(told)
    if not as_told:
        output.warn("a story did not end as it is told: please report this with the output above.")
        raise typer.Exit(1)


def _dispatch(place: Place, store: Path, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    # As below.
    from memplugin.cli import demo_wasp  # noqa: PLC0415 -- see above

    ended = demo_wasp.played(place.spans, store)
    if not as_json:
        output.show(*demo_wasp.view(ended, store))
    return ended.to_json(), ended.as_told


def _harden(place: Place, store: Path, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    # As below.
    from memplugin.cli import demo_hardening  # noqa: PLC0415 -- see above

    ended = demo_hardening.played(place.spans, store)
    if not as_json:
        output.show(*demo_hardening.view(ended, store))
    return ended.to_json(), ended.as_told


def _escalate(place: Place, *, as_json: bool) -> tuple[dict[str, Any], bool]:
    # As below.
    from memplugin.cli import demo_escalation  # noqa: PLC0415 -- see above

    ended = demo_escalation.played(place.spans)
    if not as_json:
        output.show(*demo_escalation.view(ended))
    return ended.to_json(), ended.as_promised


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
