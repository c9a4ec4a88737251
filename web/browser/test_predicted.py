"""The predicted step beneath the measured one."""

import io

import pytest
from PIL import Image

TIMELINE = "window.stepwhyTimeline"


def titles_of(page):
    return page.locator(".titles > *").all_inner_texts()


def row_of(page, title):
    """Picture of the lane below a title."""
    page.wait_for_timeout(200)
    box = page.locator(".titles > *", has_text=title).first.bounding_box()
    rows = page.locator(".rows").bounding_box()
    clip = {"x": rows["x"] + 1, "y": box["y"] + 18, "width": rows["width"] - 2, "height": 13}
    return Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("RGB")


def is_blue(pixel):
    """Whether it is a kernel, whose name makes its colour lighter or darker."""
    red, _, blue = pixel
    return blue > 170 and red < 125


def is_green(pixel):
    return pixel == (0x1A, 0x7F, 0x4B)


def columns_of(picture, fits):
    """First and last column with a colour, as shares of the width."""
    width, height = picture.size
    found = [x for x in range(width) if fits(picture.getpixel((x, height // 2)))]
    return (found[0] / width, (found[-1] + 1) / width) if found else None


def test_the_replayed_step_is_beneath_the_measured_one(page_of, show):
    page = show(page_of())
    assert titles_of(page)[:4] == [
        "Steps", "Predicted steps", "Predicted · GPU:0 · stream 0", "Where the time goes",
    ]  # fmt: skip
    page.locator('[data-do="predicted"]').click()
    # 22 ms are visible, 1 of them before the step. Its kernel begins 13 ms after it and takes 5;
    # the fix removes 10 ms before that.
    begin, end = columns_of(row_of(page, "Predicted · GPU:0"), is_blue)
    assert abs(begin - (1 + 3) / 22) < 0.02
    assert abs(end - (1 + 8) / 22) < 0.02


def test_the_text_says_what_is_predicted_and_why(page_of, show):
    page = show(page_of())
    text = page.locator(".prediction").inner_text()
    assert text.startswith("Predicted: a step of 10.0 ms to 12.2 ms instead of 20.0 ms")
    assert "Drawn beneath step 5" in text
    assert "The step then takes 10.0 ms instead of 20.0 ms." in text
    assert "The host works 10.0 ms less." in text
    about = page.locator(".rows").get_attribute("aria-describedby").split()
    assert "timeline-prediction" in about
    assert page.locator(".prediction").get_attribute("role") == "status"


def test_the_selected_fix_is_the_one_that_is_drawn(page_of, show):
    page = show(page_of())
    chooser = page.locator("select.fixes")
    fixes = chooser.locator("option").evaluate_all("all => all.map((one) => one.value)")
    assert chooser.input_value() == fixes[0]
    chooser.select_option(fixes[1])
    shown = f"{TIMELINE}.layout.placed.map(({{ row }}) => {TIMELINE}.model.rows[row]?.fix ?? '')"
    assert {fix for fix in page.evaluate(shown) if fix} == {fixes[1]}
    chooser.select_option("")
    assert titles_of(page)[:2] == ["Steps", "Where the time goes"]
    assert page.locator(".prediction").inner_text() == ""
    assert not page.locator('[data-do="predicted"]').is_visible()


def test_a_finding_selects_its_fix(page_of, show):
    page = show(page_of())
    card = page.locator("article[data-finding]", has=page.locator("button.show")).last
    card.locator("button.show").click()
    assert page.locator("select.fixes").input_value() == card.get_attribute("data-finding")


def test_the_keyboard_leads_to_the_replayed_step_and_its_work(page_of, show):
    page = show(page_of())
    page.locator(".rows").focus()
    page.keyboard.press("0")
    page.keyboard.press("p")
    begin, end = page.evaluate(f"[{TIMELINE}.view.from, {TIMELINE}.view.to]")
    assert (begin, end) == pytest.approx((79e6, 101e6))
    box = page.locator(".titles > *", has_text="Predicted · GPU:0").bounding_box()
    rows = page.locator(".rows").bounding_box()
    page.mouse.click(rows["x"] + rows["width"] * 6 / 22, box["y"] + 24)
    assert page.locator(".details h3").inner_text() == "gem"
    facts = page.locator(".details").inner_text()
    assert "Predicted · GPU:0 · stream 0" in facts
    assert "3 ms into step 5" in facts


def test_a_search_counts_recorded_work_only(page_of, show):
    page = show(page_of())
    page.locator(".search").fill("gem")
    assert page.locator(".status").inner_text() == "9 slices"


def test_steps_that_cannot_be_replayed_keep_their_bar_and_say_why(page_of, show):
    page = show(page_of(launches=False))
    assert titles_of(page)[:3] == ["Steps", "Predicted steps", "Where the time goes"]
    assert columns_of(row_of(page, "Predicted steps"), is_green)
    text = page.locator(".prediction").inner_text()
    assert "Only its length is drawn, because the recorded steps cannot be replayed." in text
    assert "The launches of 100 % of the device work were not recorded." in text
    assert not page.locator('[data-do="predicted"]').is_visible()


def test_a_phone_shows_the_replayed_step(page_of, show):
    page = show(page_of(), viewport={"width": 400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.locator('[data-do="predicted"]').click()
    assert columns_of(row_of(page, "Predicted · GPU:0"), is_blue)


def test_it_is_dark_where_the_system_is(page_of, show):
    page = show(page_of(), color_scheme="dark")
    page.locator('[data-do="predicted"]').click()
    picture = row_of(page, "Predicted · GPU:0")
    assert columns_of(picture, is_blue)
    assert max(picture.getpixel((picture.size[0] - 3, 3))) < 80
