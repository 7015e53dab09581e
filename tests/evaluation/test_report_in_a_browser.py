"""The page, looked at in Chromium: on a phone and on a desk, light and dark."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from memplugin.evaluation.cases import Case
from memplugin.evaluation.reports import page_of, render
from tests.evaluation import planted_run

SIZES = {"phone": (390, 844), "desk": (1280, 900)}
SCHEMES = {"dark": 0, "light": 1}
"""Blink's own numbers for what a user prefers."""

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--hide-scrollbars",
    "--virtual-time-budget=2000",
)

MEASURED = """
<script>
const wide = [...document.querySelectorAll("body *")].filter(
  one => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest(".scroll")
);
const svg = document.querySelector("figure svg").getBoundingClientRect();
parent.document.documentElement.dataset.measured = JSON.stringify({
  viewport: innerWidth,
  page: document.documentElement.scrollWidth,
  over: wide.map(one => one.outerHTML.slice(0, 80)),
  letters: parseFloat(getComputedStyle(document.body).fontSize),
  inPlots: 11 * svg.width / 360,
  closed: document.querySelectorAll("section details:not([open])").length,
});
</script>
"""


@pytest.fixture(scope="module")
def chromium() -> str:
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium here to look at the page with: apt-get install chromium")


@pytest.fixture(scope="module")
def html() -> str:
    cases = [Case("ws_1" if run.record else "", run) for run in planted_run.runs()]
    now = datetime(2026, 4, 1, tzinfo=UTC)
    return render(page_of(cases, title="Which stage failed", about=[("suite", "p")], now=now))


def run(chromium: str, page: Path, size: str, *flags: str) -> str:
    width, height = SIZES[size]
    profile = page.parent / f"profile-{size}-{len(list(page.parent.iterdir()))}"
    done = subprocess.run(
        [
            chromium,
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            *flags,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def measured(chromium: str, html: str, folder: Path, size: str) -> dict[str, Any]:
    # Its own policy would not let the script in. A window is never narrower than 500 pixels;
    # a frame is as narrow as a phone.
    policy = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
    inside = policy.sub("", html).replace("</body>", f"{MEASURED}</body>")
    width, height = SIZES[size]
    frame = f'<iframe width="{width}" height="{height}" srcdoc="{escape(inside)}"></iframe>'
    page = folder / "page.html"
    page.write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
    dom = run(chromium, page, size, "--dump-dom")
    found = re.search(r'data-measured="([^"]*)"', dom)
    assert found, dom[:500]
    return json.loads(unescape(found[1]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("opened", [False, True])
def test_nothing_reaches_over_the_edge_and_letters_are_large_enough(
    chromium: str, html: str, tmp_path: Path, size: str, opened: bool
) -> None:
    page = html.replace("<details>", "<details open>") if opened else html
    found = measured(chromium, page, tmp_path, size)
    assert found["viewport"] == SIZES[size][0]
    assert found["page"] <= found["viewport"]
    assert found["over"] == []
    assert found["letters"] >= 16
    assert found["inPlots"] >= 9
    assert found["closed"] == (0 if opened else 160 + 4)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_it_is_drawn_in_the_colours_of_the_scheme(
    chromium: str, html: str, tmp_path: Path, size: str, scheme: str
) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: memplugin[dev]")
    page, shot = tmp_path / "page.html", tmp_path / "shot.png"
    page.write_text(html, encoding="utf-8")
    run(
        chromium,
        page,
        size,
        f"--screenshot={shot}",
        f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
    )
    picture = image.open(shot).convert("RGB")
    assert picture.size == SIZES[size]
    colours = {colour: count for count, colour in picture.getcolors(picture.width * picture.height)}
    block = re.findall(r":root \{(.*?)\}", html, flags=re.DOTALL)[0 if scheme == "light" else 1]
    named = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block))
    seen = {
        name: colours.get(tuple(bytes.fromhex(colour[1:])), 0) for name, colour in named.items()
    }
    assert picture.getpixel((2, 2)) == tuple(bytes.fromhex(named["back"][1:]))
    assert seen["front"] > 100
    # The first plot is in view: the bars of three stages.
    assert min(seen["write"], seen["retrieval"], seen["use"]) > 200
