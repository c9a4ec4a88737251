"""The charts of the whole run."""

import io

import pytest
from PIL import Image

RUN = "window.stepwhyRun"


def visible(page):
    """Visible range of each chart, s."""
    ranges = f"{RUN}.charts.map(({{scales}}) => [scales.x.min, scales.x.max])"
    return [tuple(round(end, 6) for end in one) for one in page.evaluate(ranges)]


def titles(page):
    return page.locator("#run .u-title").all_inner_texts()


def plot(page, number=0):
    """Position of the plotting area of a chart."""
    area = page.locator("#run .u-over").nth(number)
    area.scroll_into_view_if_needed()
    return area.bounding_box()


def test_steps_and_samples_have_charts_with_one_range(page_of, show):
    page = show(page_of(levels=True))
    assert titles(page) == ["Step time", "Elements in queues and buffers", "Memory"]
    assert visible(page) == [(0, 0.18)] * 3
    assert not page.locator("svg.chart").first.is_visible()


def test_the_charts_are_painted(page_of, show):
    page = show(page_of(levels=True))
    picture = Image.open(io.BytesIO(page.screenshot(clip=plot(page)))).convert("RGB")
    assert (0x1F, 0x85, 0xC9) in {colour for _, colour in picture.getcolors(1 << 24)}


def test_dragging_zooms_all_charts_and_a_double_click_shows_the_whole_run(page_of, show):
    page = show(page_of(levels=True))
    box = plot(page)
    page.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20, steps=4)
    page.mouse.up()
    [(start, end)] = set(visible(page))
    assert start == pytest.approx(0.045, abs=0.001)
    assert end == pytest.approx(0.09, abs=0.001)
    page.mouse.dblclick(box["x"] + 30, box["y"] + 20)
    assert visible(page) == [(0, 0.18)] * 3


def test_the_pointer_shows_values_in_all_charts(page_of, show):
    page = show(page_of(levels=True))
    box = plot(page)
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 20)
    page.wait_for_timeout(100)
    legends = page.locator("#run .u-legend").all_inner_texts()
    assert "20 ms" in legends[0]
    assert "8 elements" in legends[1]
    assert "2 GiB" in legends[2]


def test_the_keyboard_moves_from_step_to_step_and_says_what_it_finds(page_of, show):
    page = show(page_of(levels=True))
    page.locator("#run .charts").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    said = page.locator("#run output").inner_text()
    assert said.startswith("Step 2: 20 ms")
    assert "memory of the process 1 GiB" in said
    page.keyboard.press("+")
    assert visible(page)[0] != (0, 0.18)
    page.keyboard.press("0")
    assert visible(page) == [(0, 0.18)] * 3


def test_what_was_sampled_is_a_table_too(page_of, show):
    page = show(page_of(levels=True))
    page.locator("summary", has_text="sampled during the run").click()
    table = page.locator(".gaps", has_text="During the whole run").locator("table")
    assert "Machine · memory of the process" in table.inner_text()


def test_paper_has_the_drawing_instead(page_of, show):
    page = show(page_of(levels=True))
    page.emulate_media(media="print")
    assert page.locator("svg.chart").first.is_visible()
    assert not page.locator("#run").is_visible()


def test_the_drawing_is_there_without_scripts(page_of, show):
    page = show(page_of(levels=True), ready=False, java_script_enabled=False)
    assert page.locator("svg.chart").first.is_visible()
    assert not page.locator("#run").is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_fit_a_phone(page_of, show, scheme):
    viewport = {"width": 400, "height": 800}
    page = show(page_of(levels=True), viewport=viewport, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert plot(page)["width"] > 250


def test_names_in_charts_stay_text(page_of, show):
    page = show(page_of(levels="<img src=x onerror=alert(1)>"))
    assert page.locator("#run img").count() == 0
    assert "<img src=x" in page.locator("#run .u-legend").nth(1).inner_text()


def test_a_step_that_is_too_long_for_the_chart_is_marked_at_its_top(page_of, show):
    # The first step takes half a second, all others 20 ms.
    late = "marks: start_ns | dur_ns | profiled\n0 ms | 500 ms | 0\n" + "".join(
        f"{500 + 20 * i} ms | 20 ms | 0\n" for i in range(30)
    )
    page = show(page_of(further=late))
    box = plot(page)
    clip = {"x": box["x"] - 6, "y": box["y"] - 6, "width": 14, "height": 14}
    picture = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")
    soft = page.evaluate("getComputedStyle(document.body).getPropertyValue('--soft')").strip()
    wanted = {tuple(bytes.fromhex(soft[1:])), (0x1F, 0x85, 0xC9)}
    assert wanted & {colour for _, colour in picture.getcolors(1 << 24)}
