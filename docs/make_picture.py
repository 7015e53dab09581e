"""Draws docs/demo.svg: what ``memplugin demo`` prints. Run: ``python docs/make_picture.py``."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from rich.console import Console

from memplugin.cli import demo, demo_view
from memplugin.demo.board_pack import run_story
from memplugin.testing import SpanCapture

PICTURE = Path(__file__).with_name("demo.svg")


def main() -> None:
    """Plays the scripted demo on a throw-away store and draws it."""
    capture = SpanCapture()
    with (
        tempfile.TemporaryDirectory() as folder,
        (Path(folder) / "nowhere").open("w") as nowhere,
        demo.chosen_models("scripted") as (extractor, decider, config),
    ):
        console = Console(record=True, width=110, file=nowhere)
        opener = demo.opener(Path(folder), capture.provider)
        tracer = capture.provider.get_tracer("memplugin.demo")
        for result in run_story(opener, extractor, decider, config, tracer):
            for part in demo_view.board_pack_act(result, ()):
                console.print(part)
        drawn = console.export_svg(title="memplugin demo")
        # The picture stands alone: no font from another host.
        alone = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
        PICTURE.write_text(alone, encoding="utf-8")


if __name__ == "__main__":
    main()
