"""The HTML report in headless Chromium: it draws, zooms and answers the pointer, in light and dark."""

import json
from pathlib import Path

import pytest

from sim.cli import main
from tests.explain.browser import Page, chromium

DRAWN = """[...document.querySelectorAll('canvas')].map((canvas) => {
  const { width, height } = canvas, colours = new Set();
  const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
  for (let at = 0; at < pixels.length; at += 4) {
    if (pixels[at + 3] > 200) colours.add(pixels.slice(at, at + 3).join());
  }
  return colours.size;
})"""
"""How many colours each canvas has."""
BOX = """(({{x, y, width, height}}) => [x, y, width, height])(
  document.querySelector('{0}').getBoundingClientRect())"""


@pytest.fixture
def report(tiny: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The address of a page of two policies."""
    assert main(["compare", "config.yaml", "--policies", "continuous,stall_free"]) == 0
    assert main(["report", "out-compare", "--html", "report.html"]) == 0
    return (tiny / "report.html").as_uri()


def at(page: Page, selector: str, across: float, down: float) -> tuple[float, float]:
    """A place on an element, scrolled into view, as shares of its size."""
    page.run(f"document.querySelector('{selector}').scrollIntoView({{block: 'center'}})")
    x, y, width, height = page.run(BOX.format(selector))
    return x + across * width, y + down * height


def test_it_draws_in_light_and_dark_wide_and_narrow_without_complaint(report: str) -> None:
    with chromium() as page:
        for width, dark in ((1400, False), (420, True)):
            page.open(report, width, dark=dark)
            page.wait_for(f"{DRAWN}.every((colours) => colours > 3)")
            assert page.run("document.documentElement.scrollWidth") <= width
            background = page.run("getComputedStyle(document.body).backgroundColor")
            assert background == ("rgb(20, 23, 28)" if dark else "rgb(255, 255, 255)")
        assert page.complaints() == []


def test_the_pointer_reads_curves_and_zooms_the_timeline(report: str) -> None:
    with chromium() as page:
        page.open(report)
        page.mouse("mouseMoved", *at(page, "#plot-left", 0.5, 0.5))
        page.wait_for("!document.getElementById('tip').hidden")
        said = page.run("document.getElementById('tip').textContent")
        assert said.startswith("above ") and "continuous: " in said and "stall_free: " in said
        page.run("document.getElementById('whole').click()")
        whole = page.run("document.getElementById('range').textContent")
        for kind, across in (("mousePressed", 0.3), ("mouseMoved", 0.5), ("mouseReleased", 0.5)):
            page.mouse(kind, *at(page, "canvas.timeline", across, 0.3))
        page.wait_for(f"document.getElementById('range').textContent !== {json.dumps(whole)}")
        page.run("document.querySelector('button.zoom').click()")
        assert page.complaints() == []
