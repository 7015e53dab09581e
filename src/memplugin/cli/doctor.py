"""How ``memplugin doctor`` looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer
from rich.console import RenderableType

from memplugin.cli import output
from memplugin.cli.options import AsJson, answer
from memplugin.cli.output import facts, heading, line, remark, table, text
from memplugin.cli.store import place_of

if TYPE_CHECKING:
    from memplugin.memory.health import Health


_MODEL = {
    True: "found here, with the same weights",
    False: "found here with other weights",
    None: "not found here: the application may bring it, or it is fetched when it is needed",
}


def health_view(health: Health, spans: str | None) -> Iterator[RenderableType]:
    """Facts about the store, its workspaces, the packages, and the problems."""
    yield heading("Store")
    yield facts(
        ("ledger", line(health.ledger)),
        ("index", line(health.index)),
        ("tables", text(f"revision {health.revision}, this release has {health.needed_revision}")),
        ("embedder", line(health.embedder)),
        *([("", text(_MODEL[health.model_here]))] if health.embedder else []),
        ("spans go to", text(spans or "nowhere (OTEL_EXPORTER_OTLP_ENDPOINT is not set)")),
    )
    if health.statistics:
        yield from _holdings(health)
    yield heading("Packages")
    yield text("  " + ", ".join(f"{name} {v or 'not installed'}" for name, v in _packages(health)))
    yield heading(f"Problems: {len(health.problems)}")
    for problem in health.problems:
        yield text(f"  {problem}", "red")
    if not health.problems:
        yield remark("none")


def _packages(health: Health) -> list[tuple[str, str | None]]:
    return list(health.packages.items())


def _holdings(health: Health) -> Iterator[RenderableType]:
    rows = health.statistics["rows"]
    yield heading("Rows")
    yield text("  " + ", ".join(f"{name} {n}" for name, n in rows.items()))
    yield text(f"  waiting for the vector index: {health.statistics['outbox']}")
    yield heading("Workspaces, the largest first")
    if not health.workspaces:
        yield remark("none")
        return
    yield table(
        ("workspace", "records", "active", "waiting", "index"),
        (
            (
                line(w.workspace_id),
                text(w.records),
                text(w.active),
                text(w.waiting),
                text("its own" if w.workspace_id in health.promoted else "shared, exact"),
            )
            for w in health.workspaces
        ),
    )


def doctor(context: typer.Context, as_json: AsJson = False) -> None:
    """Is the store well? Shows what it holds, what waits, and problems with what to do.

    Exit code 1: there is a problem.
    """
    # Imports the index.
    from memplugin.memory.health import examine  # noqa: PLC0415 -- see above

    place = place_of(context)
    health = examine(place.location)
    if as_json:
        output.print_json({**health.to_json(), "spans": place.spans.target})
    else:
        output.show(*health_view(health, place.spans.target))
    answer(yes=not health.problems)
