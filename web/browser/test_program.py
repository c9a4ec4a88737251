"""The flame graph and the call tree, beside the timeline."""

from __future__ import annotations

import pytest


def frames(page):
    """Text of the frames that have one, from the top and from the left."""
    return page.locator(".flame > div").all_inner_texts()


def share(page, name):
    """Width of a frame, as a part of the graph."""
    whole = page.locator(".flame").bounding_box()["width"]
    frame = page.locator(f'.flame > [aria-label^="{name}"]')
    return frame.bounding_box()["width"] / whole


def test_a_tab_shows_each_view(page_of, show):
    page = show(page_of())
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == ["Timeline", "Flame graph", "Call tree"]
    tabs.nth(0).focus()
    shown = []
    for _ in range(3):
        shown.append([page.locator(one).is_visible() for one in (".rows", ".flame", ".calls")])
        page.keyboard.press("ArrowRight")
    assert shown == [[True, False, False], [False, True, False], [False, False, True]]
    assert page.locator(".rows").is_visible()


def test_frames_are_as_wide_as_their_time(page_of, show):
    page = show(page_of())
    page.click("#view-flame")
    assert frames(page) == ["aten::mm", "gem"]
    page.click('[data-measure="host"]')
    # Of 20 ms, 10 wait for the batch and 10 are in the operation, one of them in the launch.
    assert share(page, "enumerate(DataLoader)") == pytest.approx(0.5, abs=0.01)
    assert share(page, "aten::mm") == pytest.approx(0.5, abs=0.01)
    assert share(page, "cudaLaunchKernel") == pytest.approx(0.05, abs=0.01)


def test_a_click_zooms_and_escape_goes_back(page_of, show):
    page = show(page_of())
    page.click("#view-flame")
    page.click('[data-measure="host"]')
    page.click('.flame > [aria-label^="aten::mm"]')
    assert share(page, "aten::mm") == pytest.approx(1, abs=0.01)
    assert page.locator(".facts h3").inner_text() == "aten::mm"
    assert page.locator(".trail").inner_text().split("\n")[0].startswith("Whole program")
    page.locator(".flame").focus()
    page.keyboard.press("Escape")
    assert share(page, "aten::mm") == pytest.approx(0.5, abs=0.01)


def test_a_frame_leads_to_the_timeline_and_to_the_table(page_of, show):
    page = show(page_of(), unfold=False)
    page.click("#view-flame")
    page.locator(".flame").focus()
    for key in ("ArrowDown", "ArrowDown", "t"):
        page.keyboard.press(key)
    assert page.locator(".rows").is_visible()
    assert page.locator(".details h3").inner_text() == "gem"
    page.click("#view-flame")
    page.locator(".flame").focus()
    page.keyboard.press("o")
    row = page.locator(".tables tr:focus")
    assert row.is_visible()
    assert row.locator("th").inner_text() == "gem"


def test_the_mouse_leads_there_too(page_of, show):
    page = show(page_of(), unfold=False)
    page.click("#view-calls")
    page.locator(".calls tr", has_text="gem").click()
    page.get_by_role("button", name="Show the first in the timeline").click()
    assert page.locator(".details h3").inner_text() == "gem"


def test_the_call_tree_opens_and_closes_with_the_keyboard(page_of, show):
    page = show(page_of())
    page.click("#view-calls")
    names = page.locator(".calls tbody tr")
    assert names.count() == 2
    names.first.focus()
    page.keyboard.press("ArrowLeft")
    assert names.count() == 1
    assert names.first.get_attribute("aria-expanded") == "false"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert "gem" in page.evaluate("document.activeElement.textContent")


def test_a_search_says_how_much_it_found(page_of, show):
    page = show(page_of())
    page.click("#view-flame")
    page.click('[data-measure="host"]')
    page.fill(".needle", "MM")
    assert page.locator(".hits").inner_text() == "1 place, 50 % of the time"
    assert page.locator(".flame > .misses").count() == frames_in_all(page) - 1
    page.locator(".needle").press("Enter")
    assert page.locator(".facts h3").inner_text() == "aten::mm"


def frames_in_all(page):
    return page.locator(".flame > div").count()


def test_a_pointer_shows_time_share_and_runs(page_of, show):
    page = show(page_of())
    page.click("#view-flame")
    page.locator(".flame > div").first.hover()
    assert page.locator(".tip").inner_text() == "aten::mm: 5 ms, 100 %, 1 run"


def test_names_stay_text_in_all_views(page_of, show):
    name = "<img src=x onerror=alert(1)>"
    page = show(page_of(name))
    for view in ("#view-flame", "#view-calls"):
        page.click(view)
        assert page.locator(f"{'.flame' if view == '#view-flame' else '.calls'} img").count() == 0
    assert page.locator(".calls tbody tr").nth(1).inner_text().startswith(name)


@pytest.mark.parametrize("view", ["flame", "calls"])
def test_a_phone_shows_all_of_it(page_of, show, view):
    page = show(page_of(), viewport={"width": 400, "height": 800})
    page.click(f"#view-{view}")
    assert page.locator(f".{view}").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_paper_leaves_it_out(page_of, show):
    page = show(page_of())
    page.click("#view-flame")
    page.emulate_media(media="print")
    assert not page.locator(".flame").is_visible()


def test_without_scripts_there_are_no_tabs(page_of, show):
    page = show(page_of(), ready=False, unfold=False, java_script_enabled=False)
    assert not page.locator(".views").is_visible()
    assert not page.locator(".program").is_visible()
    assert "flame graph" in page.locator(".unscripted").inner_text()
