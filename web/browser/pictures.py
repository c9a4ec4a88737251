"""Draw the pictures of `docs/gallery.md`: the first screen and the timeline of a page.

    python web/browser/pictures.py PATH PICTURE.webp [FINDING]

PATH is what `stepwhy explain` accepts. With the id of a finding, the timeline shows its place.
Needs the environment of `scripts/browser-test`.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from stepwhy.engine.timeline import explain_with_timeline
from stepwhy.show import html

_WIDTH = 1180
# Everything but the first screen and the timeline is left out.
_KEEP = """
() => {
  const parts = "main > section:not(#timeline), nav, footer, .gaps, #timeline .key, .details";
  for (const part of document.querySelectorAll(parts)) part.remove();
  document.querySelector("#timeline-title").remove();
  document.body.style.padding = "1.5rem 1.25rem 1rem";
  document.body.style.maxWidth = "none";
}
"""
_SHOW = """
(id) => {
  const timeline = window.stepwhyTimeline;
  timeline.jump(timeline.header.jumps.find((one) => one.id === id));
}
"""


def main(path: str, picture: str, finding: str = "") -> None:
    """Draw one picture."""
    result, timeline = explain_with_timeline([path])
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder, "report.html")
        html.write(file, result, timeline)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": _WIDTH, "height": 1200})
        page.goto(file.as_uri())
        page.wait_for_selector("#timeline[data-ready]")
        if finding:
            page.evaluate(_SHOW, finding)
        page.evaluate(_KEEP)
        page.wait_for_timeout(500)
        pixels = page.locator("main").screenshot()
        browser.close()
    # Without loss: a palette would give two categories one colour.
    Image.open(io.BytesIO(pixels)).save(picture, lossless=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
