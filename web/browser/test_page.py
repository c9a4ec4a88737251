"""The page as a person uses it."""

import io

import pytest
from PIL import Image, ImageChops

VIEW = "window.stepwhyTimeline.view"


def length(page):
    """Length of the visible part, ns."""
    return page.evaluate(f"{VIEW}.to - {VIEW}.from")


def painted(page):
    """Picture of the rows."""
    page.wait_for_timeout(200)
    return Image.open(io.BytesIO(page.locator(".rows").screenshot())).convert("RGB")


def colours(picture):
    return {colour for _, colour in picture.getcolors(1 << 24)}


def test_it_opens_from_a_file_without_a_network(page_of, show):
    page = show(page_of())
    assert page.locator("h1").inner_text()
    assert page.locator(".problem").inner_text() == ""
    titles = page.locator(".titles > *").all_inner_texts()
    assert titles[:2] == ["Steps", "Predicted steps"]
    assert "Where the time goes" in titles


def test_a_link_of_the_contents_opens_its_part_and_stays_in_view(page_of, show):
    page = show(page_of(), unfold=False)
    assert not page.locator("#checks").locator("xpath=../..").evaluate("fold => fold.open")
    page.locator(".contents a", has_text="Checks").click()
    assert page.locator("#checks").locator("xpath=../..").evaluate("fold => fold.open")
    assert page.locator(".contents").bounding_box()["y"] == pytest.approx(0, abs=1)
    assert page.locator("#checks").bounding_box()["y"] >= 30


def test_the_headline_takes_two_lines_and_the_gain_is_the_largest(page_of, show):
    page = show(page_of(), unfold=False, viewport={"width": 1440, "height": 900})
    assert page.locator("h1").bounding_box()["height"] < 70
    size = "e => parseFloat(getComputedStyle(e).fontSize)"
    sizes = page.evaluate(f"[...document.querySelectorAll('main *')].map({size})")
    of_gain = page.locator(".gain").evaluate(size)
    assert max(sizes) == of_gain


def test_slices_have_the_colours_of_their_categories(page_of, show):
    seen = colours(painted(show(page_of())))
    assert (0xD9, 0x8C, 0x1C) in seen  # input wait
    assert (0x60, 0x7B, 0xE0) in seen  # compute


def test_a_finding_leads_to_its_place(page_of, show):
    page = show(page_of())
    before = length(page)
    page.locator("article button.show").first.click()
    page.wait_for_timeout(200)
    assert length(page) < before
    facts = page.locator(".details").inner_text()
    assert "input wait" in facts
    assert "into step" in facts


def test_a_name_is_found(page_of, show):
    page = show(page_of())
    page.locator(".search").fill("GEM")
    assert page.locator(".status").inner_text() == "9 slices"
    page.locator(".search").press("Enter")
    assert page.locator(".status").inner_text() == "1 of 9"
    assert page.locator(".details h3").inner_text() == "gem"
    page.locator(".search").press("Enter")
    assert page.locator(".status").inner_text() == "2 of 9"
    page.locator(".search").fill("no such name")
    assert page.locator(".status").inner_text() == "0 slices"


def test_work_leads_to_its_launch_and_back(page_of, show):
    page = show(page_of())
    page.locator(".search").fill("gem")
    page.locator(".search").press("Enter")
    page.locator(".details button").click()
    assert page.locator(".details h3").inner_text() == "cudaLaunchKernel"
    page.locator(".details button").click()
    assert page.locator(".details h3").inner_text() == "gem"


def test_a_click_tells_what_a_slice_is(page_of, show):
    page = show(page_of())
    box = page.locator(".rows").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + 24 + 20 + 7)
    assert page.locator(".details h3").inner_text().startswith("step")


def test_dragging_moves_and_the_wheel_zooms(page_of, show):
    page = show(page_of())
    page.locator('[data-do="in"]').click()
    start, shown = page.evaluate(f"{VIEW}.from"), length(page)
    box = page.locator(".rows").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + 100
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 100, y, steps=4)
    page.mouse.up()
    assert page.evaluate(f"{VIEW}.from") > start
    assert length(page) == pytest.approx(shown)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Control")
    page.wait_for_timeout(200)
    assert length(page) < shown


def test_a_range_is_measured(page_of, show):
    page = show(page_of())
    box = page.locator(".rows").bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + 500, box["y"] + 100, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    text = page.locator(".details").inner_text()
    assert "selected" in text
    assert "input wait" in text


def test_it_is_used_with_the_keyboard_only(page_of, show):
    page = show(page_of())
    for _ in range(200):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('rows')"):
            break
    assert page.evaluate("document.activeElement.classList.contains('rows')")
    before = length(page)
    page.keyboard.press("w")
    assert length(page) < before
    page.keyboard.press(".")
    first = page.locator(".details h3").inner_text()
    page.keyboard.press(".")
    assert page.locator(".details h3").inner_text() != first
    page.keyboard.press("Escape")
    assert page.locator(".details").inner_text() == ""
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.classList.contains('search')")


def table_of(page, title="By kernel and device"):
    return page.locator(".tables .one", has_text=title).locator("table")


def first_cells(page, count=3):
    """The first cells of the visible rows."""
    rows = page.locator(".tables .one:not([hidden]) tbody tr:not([hidden])")
    return rows.locator("th").all_inner_texts()[:count]


def test_tables_are_sorted_with_the_keyboard(page_of, show):
    page = show(page_of())
    head = table_of(page).locator("thead button", has_text="Calls")
    head.focus()
    page.keyboard.press("Enter")
    assert head.locator("..").get_attribute("aria-sort") == "descending"
    name = table_of(page).locator("thead button", has_text="Operation")
    name.focus()
    page.keyboard.press("Space")
    assert name.locator("..").get_attribute("aria-sort") == "ascending"
    assert head.locator("..").get_attribute("aria-sort") is None
    names = first_cells(page)
    assert names == sorted(names, key=str.lower)


def test_tables_are_filtered_and_say_how_much_is_left(page_of, show):
    page = show(page_of())
    field = page.locator(".tables input[type=search]")
    status = page.locator(".tables output")
    total = table_of(page).locator("tbody tr").count()
    assert status.inner_text() == f"{total} rows"
    field.fill("GEM")
    assert first_cells(page) == ["gem"]
    assert status.inner_text() == f"1 of {total} rows"
    field.fill("no such name")
    assert status.inner_text() == f"0 of {total} rows"
    field.fill("")
    page.locator(".tables .choices select").last.select_option("host")
    assert "gem" not in first_cells(page)
    assert 0 < len(first_cells(page)) < total


def test_tables_are_switched(page_of, show):
    page = show(page_of())
    assert page.locator(".tables .one:not([hidden])").count() == 1
    page.locator(".tables .which select").select_option("By type")
    assert not table_of(page).is_visible()
    assert table_of(page, "By type").is_visible()
    head = table_of(page, "By type").locator("thead button", has_text="Runs")
    head.click()
    assert head.locator("..").get_attribute("aria-sort") == "descending"


def test_long_tables_show_their_first_rows(page_of, show):
    page = show(page_of(kernels=60))
    total = table_of(page).locator("tbody tr").count()
    assert total > 40
    assert page.locator(".tables output").inner_text() == f"the first 25 of {total} rows"
    page.locator(".tables .more button").first.click()
    assert page.locator(".tables output").inner_text() == f"{total} rows"
    assert not page.locator(".tables .more").first.is_visible()


def test_tables_are_complete_on_paper(page_of, show):
    page = show(page_of(kernels=60))
    page.locator(".tables input[type=search]").fill("gem")
    page.emulate_media(media="print")
    assert table_of(page).is_visible()
    assert table_of(page, "By type").is_visible()
    assert not page.locator(".tables .find").is_visible()
    rows = table_of(page).locator("tbody tr")
    assert all(row.is_visible() for row in rows.all())


def test_tables_are_complete_without_scripts(page_of, show):
    page = show(page_of(kernels=60), ready=False, java_script_enabled=False)
    assert table_of(page).is_visible()
    assert table_of(page, "By type").is_visible()
    assert not page.locator(".tables .find").is_visible()
    assert not page.locator(".tables .more").first.is_visible()
    assert all(row.is_visible() for row in table_of(page).locator("tbody tr").all())


def test_it_is_dark_where_the_system_is(page_of, show):
    page = show(page_of(), color_scheme="dark")
    background = painted(page).getpixel((5, 5))
    assert max(background) < 80
    assert (0xD9, 0x8C, 0x1C) in colours(painted(page))


@pytest.mark.parametrize("width", [360, 400])
def test_a_phone_shows_all_of_it(page_of, show, width):
    page = show(page_of(), viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".rows").bounding_box()["width"] <= width
    assert (0xD9, 0x8C, 0x1C) in colours(painted(page))


def test_paper_shows_what_can_be_read_on_it(page_of, show):
    page = show(page_of())
    page.emulate_media(media="print")
    assert not page.locator(".viewer").is_visible()
    assert page.locator("h1").is_visible()


def test_a_report_takes_at_most_five_pages_of_paper(page_of, show):
    margin = dict.fromkeys(("top", "bottom", "left", "right"), "1cm")
    paper = show(page_of(), unfold=False).pdf(format="A4", margin=margin)
    assert 1 <= paper.count(b"/Type /Page\n") <= 5


def test_without_scripts_the_gaps_are_a_table(page_of, show):
    page = show(page_of(), ready=False, java_script_enabled=False)
    assert page.get_by_text(
        "The timeline, the flame graph and the call tree need JavaScript"
    ).is_visible()
    page.locator(".gaps summary").click()
    assert "input wait" in page.locator(".gaps table").inner_text()


@pytest.mark.parametrize("painter", ["2d", "webgl"])
def test_both_painters_show_the_same(page_of, show, painter):
    section = '<section id="timeline"'
    with_painter = f'{section} data-painter="{painter}"'
    page = show(page_of(change=lambda text: text.replace(section, with_painter)))
    picture, usual = painted(page), painted(show(page_of()))
    assert {(0xD9, 0x8C, 0x1C), (0x60, 0x7B, 0xE0)} <= colours(picture)
    assert picture.size == usual.size
    # The edges of a slice may differ by a pixel.
    difference = ImageChops.difference(picture, usual).convert("L").histogram()
    assert sum(difference[60:]) < 0.02 * picture.width * picture.height


NAMES = pytest.mark.parametrize(
    "name",
    [
        "<img src=x onerror=alert(1)>",
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "&lt;b&gt; \u202etxet \u2028",
        "{{ 7 * 7 }}",
    ],
)


@NAMES
def test_names_stay_text(page_of, show, name):
    page = show(page_of(name=name))
    page.locator(".search").fill(name[:10])
    page.locator(".search").press("Enter")
    assert page.locator(".status").inner_text() == "1 of 9"
    assert page.locator(".details h3").inner_text()[:5] == name[:5]
    assert page.locator("img").count() == 0
    page.locator(".tables input[type=search]").fill(name[:10])
    assert [text[:5] for text in first_cells(page)] == [name[:5]]


# --- Sampled values ---

ORANGE, BLUE = (0xD9, 0x8C, 0x1C), (0x60, 0x7B, 0xE0)


def chart_of(page, title):
    """Position of the chart below a title."""
    title = page.locator(".titles > *", has_text=title)
    title.scroll_into_view_if_needed()
    box, rows = title.bounding_box(), page.locator(".rows").bounding_box()
    top = box["y"] + box["height"]
    return {"x": rows["x"] + 1, "y": top, "width": rows["width"] - 2, "height": 30}


def test_sampled_values_are_rows_of_the_timeline(page_of, show):
    page = show(page_of(levels=True))
    titles = page.locator(".titles > *").all_inner_texts()
    assert "Queue · batches · highest 8 elements of 8" in titles
    assert "Machine · memory of the process · highest 2 GiB" in titles
    queue = titles.index("Queue · batches · highest 8 elements of 8")
    assert titles[queue - 1] == "Where the time goes"


def test_the_value_is_at_the_pointer(page_of, show):
    page = show(page_of(levels=True))
    page.locator('[data-do="all"]').click()
    chart = chart_of(page, "memory of the process")
    before = painted(page)
    page.mouse.move(chart["x"] + chart["width"] * 0.1, chart["y"] + 15)
    page.wait_for_timeout(100)
    assert ImageChops.difference(painted(page), before).getbbox()
    assert page.evaluate("stepwhyTimeline.valueShown") == "1 GiB"
    page.mouse.move(chart["x"] + chart["width"] * 0.9, chart["y"] + 15)
    page.wait_for_timeout(100)
    assert page.evaluate("stepwhyTimeline.valueShown") == "2 GiB"
    page.mouse.move(5, 5)
    page.wait_for_timeout(100)
    assert page.evaluate("stepwhyTimeline.valueShown") == ""


def test_a_pause_of_the_sampler_is_drawn_as_a_gap(page_of, show):
    page = show(page_of(levels=True))
    page.locator('[data-do="all"]').click()
    chart = chart_of(page, "Queue · batches")
    picture = Image.open(io.BytesIO(page.screenshot(clip=chart))).convert("RGB")
    width, height = picture.size

    def orange(share):
        column = [picture.getpixel((int(width * share), y)) for y in range(height)]
        # An edge between two pixels is a little paler.
        return any(max(abs(a - b) for a, b in zip(one, ORANGE, strict=True)) < 40 for one in column)

    assert orange(0.1)
    assert not orange(0.5)
    assert orange(0.95)


def test_a_slice_says_what_was_sampled_at_its_start(page_of, show):
    page = show(page_of(levels=True))
    page.locator(".search").fill("gem")
    page.locator(".search").press("Enter")
    text = page.locator(".details").inner_text()
    assert "memory of the process" in text
    assert "1 GiB" in text


def test_sampled_values_are_a_table_without_scripts(page_of, show):
    page = show(page_of(levels=True), ready=False, java_script_enabled=False)
    page.locator(".gaps summary", has_text="Counters").click()
    rows = page.locator(".gaps", has_text="Counters").locator("tbody tr").all_inner_texts()
    rows = [row.replace("\N{NO-BREAK SPACE}", " ") for row in rows]
    assert [row.split("\t")[:4] for row in rows] == [
        ["Queue · batches", "0 elements", "8 elements", "8 elements"],
        ["Machine · memory of the process", "1.00 GiB", "2.00 GiB", ""],
    ]


@NAMES
def test_names_of_counters_stay_text(page_of, show, name):
    page = show(page_of(levels=name))
    assert page.locator("img").count() == 0
    assert any(name[:5] in text for text in page.locator(".titles > *").all_inner_texts())


def test_a_phone_shows_sampled_values(page_of, show):
    page = show(page_of(levels=True), viewport={"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert chart_of(page, "Queue · batches")["width"] > 200
