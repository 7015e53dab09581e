"""``python -m benchmarks [house|speed|scale|credit|quality|import|all] [--quick]``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from rich.console import Console

from benchmarks import credit, house, importing, quality, results, scale, speed
from benchmarks.results import Part

QUICK_SPEED = speed.Sizes(workspaces=10, records=1_000, questions=40)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts that were asked for; 0 whether or not targets are met."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="?", default="all", choices=[*PARTS, "all"])
    parser.add_argument("--quick", action="store_true", help="smaller, for a first look")
    asked = parser.parse_args(arguments)
    console = Console()
    console.print(_machine(), style="dim", highlight=False)
    done: list[Part] = []
    for name in PARTS if asked.part == "all" else [asked.part]:
        with console.status(f"{name} …"):
            parts = PARTS[name](asked.quick)
        for part in parts:
            results.show(console, part)
        done += parts
    console.print(f"[dim]{results.save(done, quick=asked.quick)}[/]")
    return 0


def _machine() -> str:
    facts = results.machine()
    versions = ", ".join(f"{name} {version}" for name, version in facts["packages"].items())
    return (
        f"{facts['cpus']} CPUs, load {facts['load']}, {facts['platform']}, "
        f"Python {facts['python']}, SQLite {facts['sqlite']}, "
        f"OMP_WAIT_POLICY={facts['omp_wait_policy']}, {versions}\n"
    )


def _speed(quick: bool) -> list[Part]:  # noqa: FBT001 -- one kind of switch for all
    return speed.run(QUICK_SPEED if quick else speed.Sizes())


PARTS: dict[str, Callable[[bool], list[Part]]] = {
    "house": lambda _: [house.run()],
    "speed": _speed,
    "scale": lambda quick: scale.run(scale.QUICK if quick else scale.Sizes()),
    "credit": lambda quick: credit.run(credit.QUICK if quick else credit.Sizes()),
    "quality": lambda quick: [quality.run(first=1 if quick else None)],
    "import": lambda quick: [importing.run(rounds=3 if quick else 5)],
}

if __name__ == "__main__":
    raise SystemExit(main())
